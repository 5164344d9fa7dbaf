"""How long each variant's server was away after it was killed, beside published recoveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from walproof.analysis.crashes import PredictedCrash
from walproof.facts import Cell, Reference
from walproof.report.answer import Answer
from walproof.report.blocks import Block, Column, Table, TableCell, text_cells
from walproof.report.cells import Cells
from walproof.report.kinds.throughput.crashes import MoreRecovery, more_recoveries
from walproof.report.numbers import UNKNOWN, number, shown, size
from walproof.report.published import published_columns, say_source
from walproof.report.variants import variant_cells, variant_table

_MEGABYTE = 1e6
_WARNING = "recovery: "
"""Warnings of a crashed trial about missing recoveries."""
_COLUMNS = (
    Column("variant"),
    Column("durability class", terminal=False),
    Column("crashes", numeric=True, terminal=False),
    Column("WAL replayed", numeric=True),
    Column("at most", numeric=True),
    Column("redo s", numeric=True),
    Column("at most", numeric=True),
    Column("CPU s", numeric=True),
    Column("MB per CPU s", numeric=True, terminal=False),
    Column("checkpoint s", numeric=True),
    Column("away s", numeric=True),
)
_NOTE = (
    "Every process is killed when the load ends, somewhere in a checkpoint cycle: medians over the crashes, "
    'and the most that was seen. "redo": replay of the WAL after the redo point; "away": until connections '
    "are accepted, with the checkpoint at the end. The page cache still has the data. The log has CPU time "
    "from PostgreSQL 14 on."
)
_PUBLISHED = (
    Column("variant"),
    *published_columns("WAL", "redo s", "MB/s"),
)
_PREDICTED_AND_ERROR = (Column("predicted", numeric=True), Column("error", numeric=True))
_WHATIF = (
    Column("variant"),
    Column("WAL measured", numeric=True),
    *_PREDICTED_AND_ERROR,
    Column("images measured", numeric=True),
    *_PREDICTED_AND_ERROR,
)
_PREDICTED = (
    Column("variant"),
    Column("WAL to replay", numeric=True),
    Column("predicted", numeric=True),
    Column("redo s", numeric=True),
    Column("predicted", numeric=True),
    Column("checkpoint s", numeric=True, terminal=False),
    Column("predicted", numeric=True, terminal=False),
    Column("away s", numeric=True),
    *_PREDICTED_AND_ERROR,
)


def recovery_answers(cells: Cells) -> tuple[Answer, ...]:
    """Which variant was back first and which last; nothing for a study without crashes."""
    if cells.plan.kind.added_crash is None:
        return ()
    found = []
    for install, workload in cells.groups():
        away = {
            variant.name: seconds
            for variant in cells.variants()
            if (seconds := cells.median(Cell(install, workload, variant.name), "recovery_s")) is not None
        }
        if not away:
            continue
        ordered = sorted(away, key=lambda name: away[name])
        said = [
            _say_away(cells, Cell(install, workload, name), away[name]) for name in (ordered[0], ordered[-1])
        ]
        text = (
            f"{said[0]}." if len(ordered) == 1 else f"Back first after a crash: {said[0]}. Last: {said[1]}."
        )
        found.append(Answer(cells.group_title(install, workload), (text,)))
    return tuple(found)


def _say_away(cells: Cells, cell: Cell, seconds: float) -> str:
    wal = cells.median(cell, "recovery_wal_bytes")
    return f"{cell[2]}, away for {number(seconds)} s with {size(wal)} of WAL to replay"


def recovery_tables(cells: Cells) -> list[Block]:
    """Measured recoveries, then those beside published ones; nothing for a study without crashes."""
    crash = cells.plan.kind.added_crash
    if crash is None:
        return []
    more = more_recoveries(crash)
    columns = [
        Column(f"{recovery.prefix} {what} s", numeric=True) for recovery in more for what in ("redo", "away")
    ]
    blocks: list[Block] = []
    for install, workload in cells.groups():
        blocks.append(
            variant_table(
                cells,
                (install, workload),
                _COLUMNS,
                partial(_row, cells),
                _NOTE,
                about="Away after a crash",
            )
        )
        if more:
            blocks.append(
                variant_table(
                    cells,
                    (install, workload),
                    (Column("variant"), Column("warm away s", numeric=True), *columns),
                    partial(_row_of_more, cells, more),
                    f"Medians. {'; '.join(recovery.note for recovery in more)}."
                    + _say_missing(cells, (install, workload)),
                    about="Away with less at hand",
                )
            )
        published = {
            reference.variant: reference
            for reference in cells.plan.references_of(workload)
            if reference.metrics.get("recovery_redo_s") is not None
        }
        if published:
            blocks.append(
                variant_table(
                    cells,
                    (install, workload),
                    _PUBLISHED,
                    partial(_beside, cells, published),
                    say_source(cells.plan),
                    about="Redo, published and here",
                )
            )
    return blocks


def _say_missing(cells: Cells, group: tuple[str, str]) -> str:
    """Why a recovery is missing, as the trials say; empty if none is."""
    told: dict[tuple[str, str], int] = {}
    for variant in cells.variants():
        for trial in cells.finished(Cell(*group, variant.name)):
            for warning in trial.warnings:
                if warning.startswith(_WARNING):
                    said = (variant.name, warning.removeprefix(_WARNING))
                    told[said] = told.get(said, 0) + 1
    return "".join(f" {name}, in {count} crashes: {why}." for (name, why), count in told.items())


def whatif_tables(cells: Cells, crashes: Sequence[PredictedCrash]) -> list[Block]:
    """WAL, images and recovery of each variant: predicted from the baseline alone, and measured."""
    if cells.plan.kind.added_crash is None or not cells.plan.kind.added_crash.predict:
        return []
    baseline = cells.plan.baseline
    blocks: list[Block] = []
    for install, workload in cells.groups():
        blocks.append(
            variant_table(
                cells,
                (install, workload),
                _WHATIF,
                partial(_whatif_row, cells),
                "WAL of the same transactions, medians over rounds; predicted by walproof wal whatif from "
                f"the WAL of {baseline}, which knows only the settings of the others.",
                about=f"Predicted from {baseline} alone",
            )
        )
        of_group = [crash for crash in crashes if (crash.install, crash.workload) == (install, workload)]
        if of_group:
            blocks.append(
                Table(
                    f"Recovery predicted from {baseline} alone: {cells.group_title(install, workload)}",
                    _PREDICTED,
                    tuple(_crash_row(cells, crash) for crash in of_group),
                    "Work: simulated from that WAL, up to the crash. Time: what the machine of the shipped "
                    "costs needs for it, scaled by measured over predicted time of {baseline}, whose own "
                    "prediction is right by construction. Warm cache; medians.",
                )
            )
    return blocks


def _whatif_row(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    install, workload, variant = cell
    source = Cell(install, workload, cells.plan.baseline)
    texts = [variant]
    for recorded, simulated in (
        ("recorded_wal_bytes", f"predicted_wal_bytes.{variant}"),
        ("recorded_images", f"predicted_images.{variant}"),
    ):
        error = _error(cells.median(source, simulated), cells.median(cell, recorded))
        texts += [cells.shown(cell, recorded), cells.shown(source, simulated), error]
    return text_cells(texts)


def _crash_row(cells: Cells, crash: PredictedCrash) -> tuple[TableCell, ...]:
    cell = Cell(crash.install, crash.workload, crash.variant)
    away = cells.median(cell, "recovery_s")
    texts = (
        crash.variant,
        cells.shown(cell, "recovery_wal_bytes"),
        size(crash.wal_bytes),
        cells.shown(cell, "recovery_redo_s"),
        number(crash.redo_s),
        cells.shown(cell, "recovery_checkpoint_s"),
        number(crash.checkpoint_s),
        number(away),
        number(crash.away_s),
        _error(crash.away_s, away),
    )
    return text_cells(texts)


def _error(predicted: float | None, measured: float | None) -> str:
    return UNKNOWN if predicted is None or not measured else f"{100 * (predicted / measured - 1):+.1f} %"


def _row(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    wal, redo = cells.values(cell, "recovery_wal_bytes"), cells.values(cell, "recovery_redo_s")
    texts = [
        str(len(wal)),
        cells.shown(cell, "recovery_wal_bytes"),
        shown("recovery_wal_bytes", max(wal, default=None)),
        cells.shown(cell, "recovery_redo_s"),
        shown("recovery_redo_s", max(redo, default=None)),
        cells.shown(cell, "recovery_cpu_s"),
        _rate(cells.median(cell, "recovery_wal_bytes"), cells.median(cell, "recovery_cpu_s")),
        cells.shown(cell, "recovery_checkpoint_s"),
        cells.shown(cell, "recovery_s"),
    ]
    return (*variant_cells(cells.plan.variant(cell[2])), *text_cells(texts))


def _row_of_more(cells: Cells, more: Sequence[MoreRecovery], cell: Cell) -> tuple[TableCell, ...]:
    metrics = [f"recovery_{recovery.prefix}_{what}" for recovery in more for what in ("redo_s", "s")]
    return text_cells([cell[2], *(cells.shown(cell, name) for name in ("recovery_s", *metrics))])


def _beside(cells: Cells, published: Mapping[str, Reference], cell: Cell) -> tuple[TableCell, ...]:
    theirs = published[cell[2]].metrics if cell[2] in published else {}
    wal, redo = cells.median(cell, "recovery_wal_bytes"), cells.median(cell, "recovery_redo_s")
    texts = (
        shown("recovery_wal_bytes", theirs.get("recovery_wal_bytes")),
        shown("recovery_wal_bytes", wal),
        shown("recovery_redo_s", theirs.get("recovery_redo_s")),
        shown("recovery_redo_s", redo),
        _rate(theirs.get("recovery_wal_bytes"), theirs.get("recovery_redo_s")),
        _rate(wal, redo),
    )
    return (TableCell(cell[2]), *text_cells(texts))


def _rate(count: float | None, seconds: float | None) -> str:
    return UNKNOWN if not count or not seconds else number(count / _MEGABYTE / seconds)

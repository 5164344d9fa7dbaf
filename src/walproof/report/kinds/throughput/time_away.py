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
from walproof.sentences import say_count

_MEGABYTE, _PUBLISHED_MEGABYTE = 1 << 20, 1e6
_WARNING = "recovery: "
"""Warnings of a crashed trial about missing recoveries."""
_ROUNDS_LEAST = 3
"""With fewer rounds two variants are in the same order by chance too often."""
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
    """Which variant was back first and which last, for each state of the page cache that was looked at;
    nothing for a study without crashes."""
    crash = cells.plan.kind.added_crash
    if crash is None:
        return ()
    ways = [
        ("with a warm page cache", ""),
        *((more.after, f"{more.prefix}_") for more in more_recoveries(crash)),
    ]
    found = []
    for install, workload in cells.groups():
        said = [_say_order(cells, (install, workload), after, prefix) for after, prefix in ways]
        if sentences := tuple(sentence for sentence in said if sentence is not None):
            found.append(Answer(cells.group_title(install, workload), sentences))
    return tuple(found)


def _say_order(cells: Cells, group: tuple[str, str], after: str, prefix: str) -> str | None:
    """First and last are named if the first was back before the last in every round; starts of a server
    differ by more than a short recovery."""
    metric = f"recovery_{prefix}s"
    of_groups = [Cell(*group, variant.name) for variant in cells.variants()]
    away = {cell: seconds for cell in of_groups if (seconds := cells.median(cell, metric)) is not None}
    if not away:
        return None
    first, last = min(away, key=lambda cell: away[cell]), max(away, key=lambda cell: away[cell])
    if first == last:
        return f"Back after a crash, {after}: {_say_away(cells, first, prefix)}."
    rounds = _both(cells, first, last, metric)
    if len(rounds) >= _ROUNDS_LEAST and all(ours < theirs for ours, theirs in rounds):
        return (
            f"Back first after a crash, {after}: {_say_away(cells, first, prefix)}. "
            f"Last: {_say_away(cells, last, prefix)}."
        )
    return (
        f"Not known from {say_count(len(rounds), 'round')} which variant is back first after a crash, "
        f"{after}: medians are {number(away[first])} to {number(away[last])} s."
    )


def _both(cells: Cells, first: Cell, last: Cell, metric: str) -> list[tuple[float, float]]:
    """Of each round in which both were measured, the values of the two."""
    ours, theirs = (
        {
            trial.round: value
            for trial in cells.finished(cell)
            if (value := trial.metrics.get(metric)) is not None
        }
        for cell in (first, last)
    )
    return [(ours[number], theirs[number]) for number in sorted({*ours} & {*theirs})]


def _say_away(cells: Cells, cell: Cell, prefix: str) -> str:
    seconds, redo = (cells.median(cell, f"recovery_{prefix}{what}") for what in ("s", "redo_s"))
    wal = cells.median(cell, "recovery_wal_bytes")
    of_redo = "" if redo is None else f", {number(redo)} s of them redo of {size(wal)} of WAL"
    return f"{cell[2]}, away for {number(seconds)} s{of_redo}"


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
                    say_source(cells.plan, "MB/s: of 10^6 bytes."),
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
                    f"costs needs for it, scaled by measured over predicted time of {baseline}, whose own "
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
        _rate(theirs.get("recovery_wal_bytes"), theirs.get("recovery_redo_s"), _PUBLISHED_MEGABYTE),
        _rate(wal, redo, _PUBLISHED_MEGABYTE),
    )
    return (TableCell(cell[2]), *text_cells(texts))


def _rate(count: float | None, seconds: float | None, megabyte: float = _MEGABYTE) -> str:
    return UNKNOWN if not count or not seconds else number(count / megabyte / seconds)

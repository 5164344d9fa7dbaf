"""How long each variant's server was away after it was killed, beside published recoveries."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis import PredictedCrash
from walproof.facts import Crash, Reference
from walproof.report.answer import Answer
from walproof.report.blocks import Block, Cell, Column, Table, class_cell
from walproof.report.cells import Cells
from walproof.report.crashes import more_recoveries
from walproof.report.numbers import UNKNOWN, number
from walproof.units import format_bytes

_MEGABYTE = 1e6
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
    'and the most that was seen. "redo": replay of the WAL behind the redo point; "away": until connections '
    "are accepted, with the checkpoint at the end. The page cache still has the data{more}. CPU is told from "
    "PostgreSQL 14 on."
)
_PUBLISHED = (
    Column("variant"),
    Column("WAL published", numeric=True),
    Column("WAL here", numeric=True),
    Column("redo s published", numeric=True),
    Column("redo s here", numeric=True),
    Column("MB/s published", numeric=True),
    Column("MB/s here", numeric=True),
)


_WHATIF = (
    Column("variant"),
    Column("WAL measured", numeric=True),
    Column("predicted", numeric=True),
    Column("error", numeric=True),
    Column("images measured", numeric=True),
    Column("predicted", numeric=True),
    Column("error", numeric=True),
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
    Column("predicted", numeric=True),
    Column("error", numeric=True),
)


def recovery_answers(cells: Cells) -> tuple[Answer, ...]:
    """Who was back first and who last; nothing for a study without crashes."""
    if cells.plan.crash is None:
        return ()
    found = []
    for install, workload in cells.groups():
        away = {
            variant.name: seconds
            for variant in cells.variants()
            if (seconds := cells.median((install, workload, variant.name), "recovery_s")) is not None
        }
        if not away:
            continue
        ordered = sorted(away, key=lambda name: away[name])
        said = [_say_away(cells, (install, workload, name), away[name]) for name in (ordered[0], ordered[-1])]
        text = (
            f"{said[0]}." if len(ordered) == 1 else f"Back first after a crash: {said[0]}. Last: {said[1]}."
        )
        found.append(Answer(cells.group_title(install, workload), (text,)))
    return tuple(found)


def _say_away(cells: Cells, cell: tuple[str, str, str], seconds: float) -> str:
    wal = cells.median(cell, "recovery_wal_bytes")
    return f"{cell[2]}, away for {number(seconds)} s with {_bytes(wal)} of WAL to replay"


def recovery_tables(cells: Cells) -> list[Block]:
    """Measured recoveries, then those beside published ones; nothing for a study without crashes."""
    crash = cells.plan.crash
    if crash is None:
        return []
    more = more_recoveries(crash)
    columns = [Column(f"{one.prefix} {what} s", numeric=True) for one in more for what in ("redo", "away")]
    blocks: list[Block] = []
    for install, workload in cells.groups():
        title = cells.group_title(install, workload)
        names = [variant.name for variant in cells.variants()]
        blocks.append(
            Table(
                f"Away after a crash: {title}",
                (*_COLUMNS, *columns),
                tuple(_row(cells, (install, workload, name), crash) for name in names),
                _NOTE.format(more="".join(f"; {one.note}" for one in more)),
            )
        )
        published = {
            one.variant: one
            for one in cells.plan.references_of(workload)
            if one.metrics.get("recovery_redo_s") is not None
        }
        if published:
            rows = tuple(_beside(cells, (install, workload, n), published.get(n)) for n in names)
            source = f"Published: {cells.plan.reference_source}." if cells.plan.reference_source else None
            blocks.append(Table(f"Redo, published and here: {title}", _PUBLISHED, rows, source))
    return blocks


def whatif_tables(cells: Cells, crashes: Sequence[PredictedCrash]) -> list[Block]:
    """WAL, images and recovery of each variant: predicted from the baseline alone, and measured."""
    if cells.plan.crash is None or not cells.plan.crash.predict:
        return []
    baseline = cells.plan.baseline
    blocks: list[Block] = []
    for install, workload in cells.groups():
        source = (install, workload, baseline)
        rows = []
        for variant in cells.variants():
            own = (install, workload, variant.name)
            row = [variant.name]
            for quantity, show in (("wal_bytes", _bytes), ("images", number)):
                measured = cells.median(own, f"recorded_{quantity}")
                predicted = cells.median(source, f"predicted_{quantity}.{variant.name}")
                row += [show(measured), show(predicted), _error(predicted, measured)]
            rows.append(tuple(Cell(text) for text in row))
        blocks.append(
            Table(
                f"Predicted from {baseline} alone: {cells.group_title(install, workload)}",
                _WHATIF,
                tuple(rows),
                "WAL of the same transactions, medians over rounds; predicted by walproof wal whatif from "
                f"the WAL of {baseline}, which knows nothing of the others but their settings.",
            )
        )
        of_group = [one for one in crashes if (one.install, one.workload) == (install, workload)]
        if of_group:
            blocks.append(
                Table(
                    f"Recovery predicted from {baseline} alone: {cells.group_title(install, workload)}",
                    _PREDICTED,
                    tuple(_crash_row(cells, one) for one in of_group),
                    "Work: simulated from that WAL, up to the crash. Time: what the machine of the shipped "
                    f"costs needs for it, times what {baseline} took beside its own prediction, which is "
                    "right by construction. Warm cache; medians.",
                )
            )
    return blocks


def _crash_row(cells: Cells, one: PredictedCrash) -> tuple[Cell, ...]:
    cell = (one.install, one.workload, one.variant)
    away = cells.median(cell, "recovery_s")
    texts = (
        one.variant,
        _bytes(cells.median(cell, "recovery_wal_bytes")),
        _bytes(one.wal_bytes),
        number(cells.median(cell, "recovery_redo_s")),
        number(one.redo_s),
        number(cells.median(cell, "recovery_checkpoint_s")),
        number(one.checkpoint_s),
        number(away),
        number(one.away_s),
        _error(one.away_s, away),
    )
    return tuple(Cell(text) for text in texts)


def _error(predicted: float | None, measured: float | None) -> str:
    return UNKNOWN if predicted is None or not measured else f"{100 * (predicted / measured - 1):+.1f} %"


def _row(cells: Cells, cell: tuple[str, str, str], crash: Crash) -> tuple[Cell, ...]:
    wal, redo = cells.values(cell, "recovery_wal_bytes"), cells.values(cell, "recovery_redo_s")
    texts = [
        str(len(wal)),
        _bytes(cells.median(cell, "recovery_wal_bytes")),
        _bytes(max(wal, default=None)),
        number(cells.median(cell, "recovery_redo_s")),
        number(max(redo, default=None)),
        number(cells.median(cell, "recovery_cpu_s")),
        _rate(cells.median(cell, "recovery_wal_bytes"), cells.median(cell, "recovery_cpu_s")),
        number(cells.median(cell, "recovery_checkpoint_s")),
        number(cells.median(cell, "recovery_s")),
    ]
    for more in more_recoveries(crash):
        texts += [
            number(cells.median(cell, f"recovery_{more.prefix}_redo_s")),
            number(cells.median(cell, f"recovery_{more.prefix}_s")),
        ]
    durability = class_cell(cells.plan.variant(cell[2]).durability)
    return (Cell(cell[2]), durability, *(Cell(text) for text in texts))


def _beside(cells: Cells, cell: tuple[str, str, str], published: Reference | None) -> tuple[Cell, ...]:
    theirs = {} if published is None else published.metrics
    wal, redo = cells.median(cell, "recovery_wal_bytes"), cells.median(cell, "recovery_redo_s")
    texts = (
        _bytes(theirs.get("recovery_wal_bytes")),
        _bytes(wal),
        number(theirs.get("recovery_redo_s")),
        number(redo),
        _rate(theirs.get("recovery_wal_bytes"), theirs.get("recovery_redo_s")),
        _rate(wal, redo),
    )
    return (Cell(cell[2]), *(Cell(text) for text in texts))


def _bytes(count: float | None) -> str:
    return UNKNOWN if count is None else format_bytes(count)


def _rate(count: float | None, seconds: float | None) -> str:
    return UNKNOWN if not count or not seconds else number(count / _MEGABYTE / seconds)

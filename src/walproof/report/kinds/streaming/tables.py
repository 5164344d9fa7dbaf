"""The tables of a study of a live stream: rows, WAL, what replay cost, how far the standby was behind.

They have the figure of published benchmarks, WAL rate over CPU of the startup process, and what it leaves
out: a primary that writes fewer rows relieves its standby, and a row is no cheaper to replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from walproof.analysis.effect import Conclusion
from walproof.analysis.replication import KEEPING_UP_S
from walproof.analysis.summary import Analysis
from walproof.facts import Cell, StreamingConditions
from walproof.report.answer import Answer
from walproof.report.blocks import Block, Column, Table, TableCell, text_cells
from walproof.report.cells import Cells
from walproof.report.kinds.replay.tables import CORE_WAIT_NOTE, REPLAY_METRIC, core_wait, version_sentences
from walproof.report.kinds.streaming.lag import STAGES
from walproof.report.numbers import UNKNOWN, number, percent, rate, ratio, shown
from walproof.report.variants import compared, variant_tables
from walproof.sentences import say_count
from walproof.units import format_bytes

_RELIEVED = 0.95
"""A startup process that takes this share of the baseline's CPU, or less, passes for relieved; a primary that
writes this share of its rows, or less, writes fewer."""
_FALLING_SHARE = 0.05
"""Share of the WAL: a standby that lags by more than this share of what is written never catches up."""
_TOLD_MOST = 2
"""Most variants that fell behind and are described one by one."""
_COLUMNS = (
    Column("variant"),
    Column("rows/s", numeric=True),
    Column("WAL rate", numeric=True),
    Column("WAL bytes/row", numeric=True),
    Column("images/row", numeric=True, terminal=False),
    Column("startup core", numeric=True),
    Column("CPU us/row", numeric=True),
    Column("ratio to baseline", numeric=True),
    Column("WAL MB/CPU s", numeric=True),
    Column("no core", numeric=True, terminal=False),
    Column("trials", numeric=True, terminal=False),
)
_NOTE = (
    "Medians over trials; the ratio is the geometric mean of ratios within rounds, of CPU a row. CPU of the "
    "startup process is counted until all rows of the load are replayed. WAL MB/CPU s, of 10^6 bytes, is the "
    "speed of published benches: compare it only where rows/s are equal. "
    f"{CORE_WAIT_NOTE}"
)
_LAG_COLUMNS = (
    Column("variant"),
    Column("behind at most", numeric=True),
    Column("for s at most", numeric=True),
    Column("unsent at most", numeric=True, terminal=False),
    Column("unflushed there at most", numeric=True, terminal=False),
    Column("unreplayed at most", numeric=True, terminal=False),
    Column("falls behind", numeric=True),
    Column("s behind at the end", numeric=True),
    Column("caught up after s", numeric=True),
    Column("kept up", numeric=True),
)
_LAG_NOTE = (
    "Medians over trials. Falls behind: WAL written minus WAL replayed, in the second half of the load. "
    f"Kept up: trials in which replay was less than {KEEPING_UP_S:g} s behind when the "
    "load ended. Time behind: since the primary had more WAL than was replayed, by one clock."
)
_PUBLISHED = (
    ("CPU of the primary, of its machine", "primary_cpu_share"),
    ("CPU of the standby, of its machine", "standby_cpu_share"),
    ("CPU of startup, of a core", "startup_core_share"),
    ("WAL, GB", "wal_bytes"),
    ("WAL rate, MB/s", "wal_bytes_per_s"),
    ("WAL rate over startup, MB/CPU s", "replay_mb_per_cpu_s"),
    ("rows/s", "rows_per_s"),
    ("WAL bytes/row", "wal_bytes_per_row"),
    ("images/row", "fpi_per_row"),
    ("CPU of startup, us/row", REPLAY_METRIC),
)


def streaming_tables(cells: Cells, analysis: Analysis) -> list[Block]:
    """What a row cost, a table a workload and install."""
    return variant_tables(cells, _COLUMNS, partial(_row, cells, analysis), _NOTE)


def lag_tables(cells: Cells) -> list[Block]:
    """How far the standby was behind, a table a workload and install."""
    return variant_tables(cells, _LAG_COLUMNS, partial(_lag_row, cells), _LAG_NOTE, about="Behind")


def beside_published(cells: Cells) -> list[Block]:
    """The published table in its own form, with ours beside it and the rows that it leaves out."""
    blocks: list[Block] = []
    for install, workload in cells.groups():
        figures = cells.plan.references_of(workload)
        theirs = {
            figure.variant: dict(figure.metrics)
            for figure in figures
            if "startup_core_share" in figure.metrics
        }
        theirs = {variant: metrics for variant, metrics in theirs.items() if variant in _names(cells)}
        if not theirs:
            continue
        for metrics in theirs.values():
            # The speed that the publication compares: MB of WAL for each second that the process ran.
            metrics["replay_mb_per_cpu_s"] = metrics["wal_bytes_per_s"] / 1e6 / metrics["startup_core_share"]
        columns = [Column("")]
        for whose in ("published", "here"):
            columns += [Column(f"{whose}: {variant}", numeric=True) for variant in theirs]
        rows = tuple(
            (
                TableCell(title),
                *(TableCell(_in_its_form(metric, metrics.get(metric))) for metrics in theirs.values()),
                *(
                    TableCell(_in_its_form(metric, cells.median(Cell(install, workload, variant), metric)))
                    for variant in theirs
                ),
            )
            for title, metric in _PUBLISHED
        )
        blocks.append(
            Table(
                f"Published and here: {cells.group_title(install, workload)}",
                tuple(columns),
                rows,
                f"Published: {cells.plan.reference_source}. {UNKNOWN}: not published. Here both servers and "
                "the load generator share one machine. MB and GB are of 10^6 and 10^9 bytes.",
            )
        )
    return blocks


def streaming_answers(cells: Cells, analysis: Analysis) -> tuple[Answer, ...]:
    """Whether standbys kept up, what a row costs, and which standby only seems to have less to do."""
    found = []
    for install, workload in cells.groups():
        group = [Cell(install, workload, variant.name) for variant in cells.variants()]
        if not any(cells.values(cell, "lag_bytes_max") for cell in group):
            continue
        base = Cell(install, workload, cells.plan.baseline)
        rows, us = cells.median(base, "rows_per_s"), cells.median(base, REPLAY_METRIC)
        sentences: list[str] = []
        if rows is not None and us is not None:
            sentences.append(
                f"With {cells.plan.baseline} the primary wrote {number(rows)} rows/s and the startup process "
                f"took {cells.shown(base, 'startup_core_share')} of a core, {number(us)} us a row."
            )
        sentences.append(_kept_up(cells, group))
        sentences += _relief(cells, analysis, install, workload)
        found.append(Answer(cells.group_title(install, workload), tuple(sentences)))
    versions = version_sentences(cells, analysis, cells.plan.baseline)
    if versions:
        found.append(Answer("versions", versions))
    return tuple(found)


def _in_its_form(metric: str, value: float | None) -> str:
    """As the publication has it, whose MB are of 10^6 bytes and whose GB are of 10^9."""
    if metric == "wal_bytes":
        return number(None if value is None else value / 1e9)
    return shown(metric, value)


def _names(cells: Cells) -> set[str]:
    return {variant.name for variant in cells.variants()}


def _kept_up(cells: Cells, group: Sequence[Cell]) -> str:
    lags = {cell: cells.values(cell, "replay_lag_s_end") for cell in group}
    behind = {
        cell: max(seconds) for cell, seconds in lags.items() if seconds and max(seconds) >= KEEPING_UP_S
    }
    failed = {cell[2]: len(cells.failed(cell)) for cell in group if cells.failed(cell)}
    unknown = ""
    if failed:
        # A standby that is too far behind to catch up in time makes its trial fail.
        unknown = (
            f" {say_count(sum(failed.values()), 'trial')} failed ({', '.join(failed)}): whether the standby "
            "kept up there is not known."
        )
    if not behind:
        most = max(value for cell in group for value in cells.values(cell, "lag_bytes_max"))
        which = "trial that finished" if failed else "trial"
        return f"Every standby kept up in every {which}; the largest lag was {format_bytes(most)}.{unknown}"
    worst = sorted(behind, key=lambda cell: -behind[cell])
    told = [_fell_behind(cells, cell) for cell in worst[:_TOLD_MOST]]
    others = len(behind) - len(told)
    rest = f" {say_count(others, 'other variant')} fell behind too." if others else ""
    return f"Not every standby kept up. {' '.join(told)}{rest}{unknown}"


def _fell_behind(cells: Cells, cell: Cell) -> str:
    """How fast it fell behind, where the WAL was, and how long it took to catch up."""
    made, replayed = (cells.median(cell, f"wal_{what}_bytes_per_s") for what in ("made", "replayed"))
    behind_s, caught_up_s = (cells.median(cell, name) for name in ("replay_lag_s_end", "catch_up_s"))
    rests = {stage: cells.median(cell, f"lag_bytes_end.{stage}") or 0.0 for stage in STAGES}
    text = f"With {cell[2]}"
    falling = _falling_behind(cells, cell)
    if made is not None and replayed is not None and falling is not None:
        text += f" {rate(replayed)} were replayed of {rate(made)} that were made: it "
        # Both rates are of a few seconds: a difference below that is none.
        if falling > _FALLING_SHARE * made:
            text += "never catches up at these rates and "
    else:
        text += " it "
    text += f"was {number(behind_s)} s behind when the load ended"
    if sum(rests.values()):
        most = max(rests, key=lambda stage: rests[stage])
        share = rests[most] / sum(rests.values())
        text += f", {format_bytes(sum(rests.values()))}, {percent(share)} of that {STAGES[most]}"
    return f"{text}; it had caught up {number(caught_up_s)} s later."


def _falling_behind(cells: Cells, cell: Cell) -> float | None:
    """Bytes per second by which the distance grew."""
    made, replayed = (cells.median(cell, f"wal_{what}_bytes_per_s") for what in ("made", "replayed"))
    return None if made is None or replayed is None else max(0.0, made - replayed)


def _relief(cells: Cells, analysis: Analysis, install: str, workload: str) -> list[str]:
    """Say which startup processes have less to do although their rows are not cheaper, with the missing
    rows."""
    base = Cell(install, workload, cells.plan.baseline)
    share_base, rows_base = cells.median(base, "startup_core_share"), cells.median(base, "rows_per_s")
    seeming = []
    for variant in cells.variants():
        held = variant.conditions_as(StreamingConditions)
        if held.replay_cpu_share < 1 or held.distance_s or held.bandwidth_bytes_per_s is not None:
            continue
        cell = Cell(install, workload, variant.name)
        effect = analysis.effect(*cell)
        share, rows = cells.median(cell, "startup_core_share"), cells.median(cell, "rows_per_s")
        if effect is None or effect.conclusion is Conclusion.LOWER:
            continue
        if not share or not share_base or not rows or not rows_base:
            continue
        if share / share_base <= _RELIEVED and rows / rows_base <= _RELIEVED:
            seeming.append((share, rows / rows_base, variant.name, effect))
    if not seeming:
        return []
    share, rows_ratio, name, effect = min(seeming, key=lambda found: found[0])
    others = [found[2] for found in seeming if found[2] != name]
    so_do = f" So do {', '.join(others)}." if others else ""
    return [
        f"{name} seems to relieve the standby, {percent(share)} of a core instead of "
        f"{percent(share_base)}: its primary wrote {ratio(rows_ratio)} the rows, and a row took "
        f"{ratio(effect.ratio, effect.interval)} the CPU.{so_do}"
    ]


def _row(cells: Cells, analysis: Analysis, cell: Cell) -> tuple[TableCell, ...]:
    texts = (
        cell[2],
        cells.shown(cell, "rows_per_s"),
        rate(cells.median(cell, "wal_bytes_per_s")),
        cells.shown(cell, "wal_bytes_per_row"),
        cells.shown(cell, "fpi_per_row"),
        cells.shown(cell, "startup_core_share"),
        cells.shown(cell, REPLAY_METRIC),
        compared(analysis, cell),
        cells.shown(cell, "replay_mb_per_cpu_s"),
        core_wait(cells, cell),
        str(len(cells.finished(cell))),
    )
    return text_cells(texts)


def _lag_row(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    ends = cells.values(cell, "replay_lag_s_end")
    kept = sum(end < KEEPING_UP_S for end in ends)

    texts = (
        cell[2],
        cells.shown(cell, "lag_bytes_max"),
        cells.shown(cell, "replay_lag_s_max"),
        cells.shown(cell, "lag_bytes_max.network"),
        cells.shown(cell, "lag_bytes_max.flush"),
        cells.shown(cell, "lag_bytes_max.replay"),
        rate(_falling_behind(cells, cell)),
        cells.shown(cell, "replay_lag_s_end"),
        cells.shown(cell, "catch_up_s"),
        f"{kept} of {len(ends)}" if ends else UNKNOWN,
    )
    return text_cells(texts)

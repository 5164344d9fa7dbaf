"""The tables of a study of replay: what replaying costs, a row and a record, and what makes it so.

MB a CPU second is the figure of published comparisons. It rises with the share of full-page images and falls
with the share of small records, so what a row costs stands beside it, and the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from walproof.advise.wording import reach_both, say_conclusion, say_none
from walproof.analysis.effect import Conclusion
from walproof.analysis.factors import FactorTerm
from walproof.analysis.summary import Analysis
from walproof.facts import Cell
from walproof.facts.replication import STARVED_SHARE
from walproof.report.answer import Answer
from walproof.report.blocks import Block, Column, Table, TableCell, text_cells
from walproof.report.cells import Cells
from walproof.report.numbers import number, percent, ratio
from walproof.report.variants import compared, variant_tables
from walproof.sentences import say_count

REPLAY_METRIC = "startup_us_per_row"
"""Metric of the comparison: all variants replay the same rows, but their WAL differs."""

_TERMINAL_VARIANTS_MOST = 12

_COLUMNS = (
    Column("variant"),
    Column("CPU us/row", numeric=True),
    Column("ratio to baseline", numeric=True),
    Column("CPU us/record", numeric=True),
    Column("WAL MB/CPU s", numeric=True),
    Column("most rows/s", numeric=True),
    Column("WAL bytes/row", numeric=True),
    Column("images/row", numeric=True),
    Column("faults", numeric=True, terminal=False),
    Column("MB read", numeric=True, terminal=False),
    Column("wall s", numeric=True, terminal=False),
    Column("no core", numeric=True, terminal=False),
    Column("trials", numeric=True),
)
CORE_WAIT_NOTE = "No core: time ready to run but without a core, relative to time running."
_NOTE = (
    "Medians over trials; the ratio is the geometric mean of ratios within rounds, of CPU a row. "
    "Most rows/s: the load at which replay fills one core. MB are of 10^6 bytes, as published. "
    f"{CORE_WAIT_NOTE}"
)
_CALLS = ("syscalls", "lseek", "pread64", "pwrite64", "fadvise64")


def replay_tables(cells: Cells, analysis: Analysis) -> list[Block]:
    """One table an install."""
    return variant_tables(cells, _COLUMNS, partial(_row, cells, analysis), _NOTE, terminal=_fits(cells))


def syscall_tables(cells: Cells) -> list[Block]:
    """System calls per record, counted by strace in a separate replay."""
    rows = tuple(
        (
            TableCell(f"PostgreSQL {install}"),
            TableCell(variant.name),
            *(TableCell(cells.shown(Cell(install, workload, variant.name), f"{call}_per_record"))
              for call in _CALLS),
        )
        for install, workload in cells.groups()
        for variant in cells.variants()
        if cells.median(Cell(install, workload, variant.name), "syscalls_per_record") is not None
    )  # fmt: skip
    if not rows:
        return []
    columns = (
        Column("install"), Column("variant"), Column("all calls", numeric=True),
        *(Column(call, numeric=True) for call in _CALLS[1:]),
    )  # fmt: skip
    note = "Calls of the startup process per WAL record, in a traced replay that is in no other table."
    return [Table("System calls a record", columns, rows, note, terminal=_fits(cells))]


def _fits(cells: Cells) -> bool:
    """Whether a row for each variant is still readable in a terminal; a factorial's factors are."""
    return len(cells.variants()) <= _TERMINAL_VARIANTS_MOST


def replay_answers(cells: Cells, analysis: Analysis) -> tuple[Answer, ...]:
    """What replay costs at the baseline, the largest factor, the versions, and the cheapest variant."""
    found = []
    for install, workload in cells.groups():
        base = Cell(install, workload, cells.plan.baseline)
        us, most = cells.median(base, REPLAY_METRIC), cells.median(base, "rows_per_s_max")
        sentences = []
        if us is not None:
            sentences.append(
                f"Replaying a row takes {number(us)} us of CPU with {cells.plan.baseline}: one core replays "
                f"{number(most)} rows/s at most."
            )
        sentences += _largest_factor(analysis, install, workload)
        sentences += _extremes(analysis, install, workload)
        sentences += _audited(cells, install, workload)
        if sentences:
            found.append(Answer(cells.group_title(install, workload), tuple(sentences)))
    versions = version_sentences(cells, analysis)
    if versions:
        found.append(Answer("versions", versions))
    return tuple(found)


def _audited(cells: Cells, install: str, workload: str) -> list[str]:
    """What the kernel's audit did for each record, where it was on and a rule matched."""
    built = {
        variant.name: cells.median(Cell(install, workload, variant.name), "audit_records_per_record")
        for variant in cells.variants()
    }
    return [
        f"With {name} the kernel built {number(count)} audit records for each record of WAL."
        for name, count in built.items()
        if count
    ]


def version_sentences(cells: Cells, analysis: Analysis, only: str | None = None) -> tuple[str, ...]:
    """What a row costs in each version, relative to the first; with ``only``, for that variant alone."""
    several = len(cells.plan.workloads) > 1
    return tuple(
        f"PostgreSQL {effect.install} takes {ratio(effect.ratio, effect.interval)} the CPU a row of "
        f"{cells.plan.installs[0].label} ({effect.variant}{f', {effect.workload}' if several else ''}): "
        f"{say_conclusion(effect)}."
        for effect in analysis.install_effects
        if effect.ratio is not None and only in (None, effect.variant)
    )


def core_wait(cells: Cells, cell: Cell) -> str:
    """Time that the startup process was ready and had no core, relative to the time that it ran."""
    waited, ran = cells.median(cell, "run_queue_s"), cells.median(cell, "startup_cpu_s")
    return percent(waited / ran if waited is not None and ran else None)


def starved_sentences(cells: Cells, who: str) -> tuple[str, ...]:
    """How many trials lacked a core; ``who`` says who had it."""
    count = total = 0
    for install, workload in cells.groups():
        for variant in cells.variants():
            for trial in cells.finished(Cell(install, workload, variant.name)):
                total += 1
                count += _starved(trial.metrics.get("run_queue_s"), trial.metrics.get("startup_cpu_s"))
    if not count:
        return ()
    return (
        f"In {say_count(count, 'trial')} of {total} the startup process waited for a core for more than "
        f"{percent(STARVED_SHARE)} of the time that it ran: {who}. CPU time is compared, but caches are "
        "shared.",
    )


def _starved(waited_s: float | None, ran_s: float | None) -> bool:
    return waited_s is not None and ran_s is not None and waited_s > STARVED_SHARE * ran_s


def _largest_factor(analysis: Analysis, install: str, workload: str) -> list[str]:
    """Which term of each kind is largest, of those that differ with all terms of the model counted."""
    sentences = []
    for model in analysis.factors:
        if (model.install, model.workload) != (install, workload):
            continue
        if model.terms and all(term.interval is None for term in model.terms):
            sentences.append("Not known yet what each factor does: too few trials to judge the spread by.")
            continue
        for count, noun in ((1, "factor"), (2, "interaction")):
            terms = [term for term in model.terms if len(term.factors) == count]
            clear = [term for term in terms if term.p_holm is not None and term.p_holm <= 1 - analysis.level]
            if clear:
                sentences.append(f"The largest {noun} is {_term(max(clear, key=_size))}.")
            elif terms:
                found = [(term.name, term.interval) for term in terms]
                none = f"No {noun} makes a measurable difference"
                sentences.append(
                    f"{say_none(none, f'Whether any {noun} makes a difference', found, reach_both)}."
                )
    return sentences


def _size(term: FactorTerm) -> float:
    return max(term.ratio, 1 / term.ratio)


def _term(term: FactorTerm) -> str:
    levels = " with ".join(
        f"{factor}={level} (against {reference})"
        for factor, level, reference in zip(term.factors, term.levels, term.references, strict=True)
    )
    return f"{levels}: {ratio(term.ratio, term.interval)} the CPU a row"


def _extremes(analysis: Analysis, install: str, workload: str) -> list[str]:
    usable = [
        effect
        for effect in analysis.effects
        if (effect.install, effect.workload) == (install, workload)
        and effect.ratio is not None
        and effect.conclusion is not Conclusion.SAME
    ]
    clear = [e for e in usable if e.conclusion in (Conclusion.HIGHER, Conclusion.LOWER)]
    if not clear:
        found = [(effect.variant, effect.interval) for effect in usable]
        none = "No variant differs measurably from the baseline"
        said = say_none(none, "Whether a variant differs from the baseline", found, reach_both)
        return [f"{said}."] if said else []
    low, high = min(clear, key=lambda e: e.ratio or 0), max(clear, key=lambda e: e.ratio or 0)
    sentences = []
    if low.conclusion is Conclusion.LOWER:
        sentences.append(f"Cheapest is {low.variant}: {ratio(low.ratio, low.interval)}.")
    if high.conclusion is Conclusion.HIGHER:
        sentences.append(f"Most expensive is {high.variant}: {ratio(high.ratio, high.interval)}.")
    return sentences


def _row(cells: Cells, analysis: Analysis, cell: Cell) -> tuple[TableCell, ...]:
    texts: Sequence[str] = (
        cell[2],
        cells.shown(cell, REPLAY_METRIC),
        compared(analysis, cell),
        cells.shown(cell, "startup_us_per_record"),
        cells.shown(cell, "replay_mb_per_cpu_s"),
        cells.shown(cell, "rows_per_s_max"),
        cells.shown(cell, "wal_bytes_per_row"),
        cells.shown(cell, "fpi_per_row"),
        cells.shown(cell, "minor_faults"),
        cells.shown(cell, "read_bytes"),
        cells.shown(cell, "replay_wall_s"),
        core_wait(cells, cell),
        str(len(cells.finished(cell))),
    )
    return text_cells(texts)

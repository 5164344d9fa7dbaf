"""How reliable slices are: how even, what a variant leaves to the next one, where they lie."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.carry_over import NOTABLE, CarryOver, WindowPlace, say_lasting
from walproof.analysis.effect import Effect
from walproof.analysis.summary import Analysis
from walproof.facts import Design, Placing, Plan, Trial
from walproof.facts.metrics import metric
from walproof.report.blocks import Block, Column, Table, TableCell, text_cells
from walproof.report.cells import Cells
from walproof.report.numbers import UNKNOWN, number, p_value, percent, ratio
from walproof.report.variants import GROUPED_COLUMNS, grouped_cells
from walproof.sentences import say_count
from walproof.units import format_duration

_AMONG = {
    Design.FRESH: ", the same for every variant",
    Design.TOGGLED: ", in each pass one of every variant",
    Design.SLICED: " of each server, by the time that it was loaded, in each pass one of every server",
}


def slice_tables(cells: Cells, analysis: Analysis) -> list[Block]:
    """A row for each toggled variant; empty without any."""
    cut = cells.plan.toggling or cells.plan.slicing
    shown = [
        effect
        for effect in (*analysis.effects, *analysis.install_effects)
        if effect.toggled is not None or (effect.design is Design.SLICED and effect.components is not None)
    ]
    if cut is None or not shown:
        return []
    baseline = cut.baseline if cells.plan.turning != "install" else f"PostgreSQL {cells.plan.turn_baseline}"
    columns = (
        *GROUPED_COLUMNS,
        Column("passes of starts", numeric=True),
        Column("ratio of each start", numeric=True),
        Column("spread of a pair", numeric=True),
        Column("correlation", numeric=True),
        Column("spread of starts", numeric=True),
        Column("starts agree, p", numeric=True),
        Column("left to the next slice", numeric=True),
    )
    note = (
        f"{metric(analysis.metric).heading.capitalize()} of slices of "
        f"{format_duration(cut.slice_s)} beside the slice of {baseline} in the same pass. "
        "Spread of a pair: standard deviation of the ratio of two slices; correlation: of a pass with the "
        "next; spread of starts: what the ratio of a start varies by beyond that. "
        "Left to the next slice: what slices after the variant's reach, relative to slices after "
        f"{baseline}; {_beyond()} is marked (!), and the variant then belongs on servers of its own."
        f"{_empty(cells)}"
    )
    rows = tuple(_row(cells, analysis, effect) for effect in shown)
    return [Table("Slices", columns, rows, note, terminal=False, grouped=True)]


def place_sentence(place: WindowPlace, placing: Placing = Placing.AFTER_CHECKPOINT) -> str:
    """Where slices or windows lie after the checkpoint, and how steady that place is."""
    noun = "Windows" if place.design is Design.FRESH else "Slices"
    if place.after_checkpoint_s is None:
        where = f"{noun} lie wherever the server was in its checkpoint cycle: no CHECKPOINT was asked for"
    else:
        first, last = place.after_checkpoint_s
        where = (
            f"{noun} lie {number(first)} to {number(last)} s after the checkpoint before the load"
            f"{_AMONG[place.design]}"
        )
        if placing is Placing.STEADY:
            where += " (steady)"
    meanwhile = (
        "no other checkpoint began meanwhile"
        if not place.checkpoints
        else f"{say_count(place.checkpoints, 'checkpoint')} began meanwhile"
    )
    change = (
        ""
        if place.wal_change is None
        else "; from the first third of slices to the last, WAL bytes of a transaction changed by "
        f"{(place.wal_change - 1) * 100:+.0f} %"
    )
    return f"{where}; {meanwhile}{change}."


def carry_over_sentences(analysis: Analysis) -> list[str]:
    """What variants leave to the slices after theirs, or that it cannot be told from zero."""
    if not analysis.carry_overs:
        return []
    notable = [over for over in analysis.carry_overs if over.is_notable]
    if notable:
        return [
            f"{over.variant} leaves something to the slice after it: {_left(over)} ({over.workload}); "
            "--design fresh measures it on separate servers."
            for over in notable
        ]
    told = [over for over in analysis.carry_overs if not over.interval.contains(1.0)]
    most = max(told or analysis.carry_overs, key=lambda over: abs(over.ratio - 1))
    named = f"{most.variant}, the most, {_left(most)}"
    if not told:
        return [f"What variants leave to the slice after theirs cannot be told from zero: {named}."]
    if most.is_small:
        return [
            "Where what variants leave to the slice after theirs can be told from zero, it is not more than "
            f"{percent(NOTABLE)}: {named}."
        ]
    return [
        f"Whether variants leave something to the slice after theirs is in doubt: {named}, but of "
        f"{len(analysis.carry_overs)} such ratios one looks so by chance."
    ]


def lasting_sentences(plan: Plan, trials: Sequence[Trial]) -> list[str]:
    """That transactions are too long for toggled slices, for each load of which that is so; ``trials`` as
    stored."""
    groups = dict.fromkeys((install.label, work.name) for install in plan.installs for work in plan.workloads)
    said = [(workload, say_lasting(plan, trials, install, workload)) for install, workload in groups]
    return [
        f"{workload}: {why}; --design fresh measures each variant on servers of its own."
        for workload, why in dict.fromkeys(said)
        if why is not None
    ]


def design_of(plan: Plan, variant: str) -> str:
    """The design of a variant, as a table shows it."""
    return plan.variant(variant).design.value


def _row(cells: Cells, analysis: Analysis, effect: Effect) -> tuple[TableCell, ...]:
    found, parts = effect.toggled, effect.components
    known = found or parts
    assert known is not None
    left = next(
        (over for over in analysis.carry_overs if (over.install, over.workload, over.variant) == effect.cell),
        None,
    )
    texts = (
        f"{known.passes} of {known.starts}",
        ", ".join(ratio(pair.ratio) for pair in effect.ratios),
        percent(found.pair_spread) if found else percent(parts.slice) if parts else UNKNOWN,
        _correlation(found.pair_correlation if found else parts.correlation if parts else None),
        percent(parts.start) if parts else UNKNOWN,
        p_value(found.start_p) + (" (!)" if found.contradicting else "") if found else UNKNOWN,
        UNKNOWN if left is None else _left(left) + (" (!)" if left.is_notable else ""),
    )
    return (*grouped_cells(cells, effect.cell), *text_cells(texts))


def _correlation(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _left(over: CarryOver) -> str:
    return ratio(over.ratio, over.interval)


def _empty(cells: Cells) -> str:
    """How many slices of servers that take turns ended nothing, where some did."""
    slices = [
        slice_
        for cell in cells.plan.cells
        if cells.plan.variant(cell.variant).design is Design.SLICED
        for trial in cells.finished(cell)
        for slice_ in trial.slices
    ]
    count = sum(slice_.transactions == 0 for slice_ in slices)
    if not count:
        return ""
    said = f" {count} of {say_count(len(slices), 'slice')} ended no transaction"
    return f"{said}: what such a start measured is from the sums over its slices."


def _beyond() -> str:
    return f"more than {percent(NOTABLE)} that is not chance"

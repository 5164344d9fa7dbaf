"""What was measured: the main table, and the published figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from walproof.advise.finding import Finding, FindingKind
from walproof.advise.wording import say_conclusion
from walproof.analysis.effect import Conclusion
from walproof.analysis.power_cut import CutSummary
from walproof.analysis.summary import Analysis
from walproof.facts import Cell, Plan, Reference
from walproof.facts.metrics import metric
from walproof.report.blocks import Block, Column, Table, TableCell, text_cells
from walproof.report.cells import Cells
from walproof.report.figures.ratios import means_over
from walproof.report.kinds.power_cuts.tables import SURVIVAL_NOTE, say_survival
from walproof.report.kinds.throughput.waits import CPU
from walproof.report.numbers import UNKNOWN, number, p_value, percent, ratio
from walproof.report.published import published_columns, say_source
from walproof.report.slices import design_of
from walproof.report.variants import VARIANT_COLUMNS, variant_cells, variant_table

_LIMITS = {
    FindingKind.FLUSH: "WAL flush",
    FindingKind.LOCK: "row lock",
    FindingKind.CPU: "CPU",
    FindingKind.OTHERS: "other programs",
    FindingKind.DISK: "disk",
    FindingKind.IDLE: "load generator",
    FindingKind.WAIT: "other waits",
}

_THROUGHPUT = "tps"
_RATIO = Column("ratio to baseline", numeric=True)
_COLUMNS = (
    *VARIANT_COLUMNS,
    Column("tps", numeric=True),
    Column("trials", numeric=True),
    _RATIO,
    Column("avg ms", numeric=True),
    Column("stddev ms", numeric=True, terminal=False),
    Column("p95 ms", numeric=True, terminal=False),
    Column("p99 ms", numeric=True, terminal=False),
)
_COST_COLUMNS = (
    *VARIANT_COLUMNS,
    Column("WAL bytes/txn", numeric=True),
    Column("page images/txn", numeric=True),
)
_LIMIT_COLUMNS = (
    Column("limit"),
    Column("top wait", terminal=False),
)


def result_tables(
    cells: Cells, analysis: Analysis, findings: Sequence[Finding], cuts: Sequence[CutSummary] = ()
) -> list[Block]:
    """Two tables per workload and install: speed, and with ``cuts`` what survives a power cut; then what a
    transaction costs and what it waits for."""
    blocks: list[Block] = []
    for install, workload in cells.groups():
        note = _note(cells, analysis, install, workload)
        speed = variant_table(cells, (install, workload), _COLUMNS, partial(_row, cells, analysis), note)
        speed = _with_compared(speed, analysis)
        speed = _without_unknown(_with_design(speed, cells)) if cells.plan.has_slices else speed
        of_group = [cut for cut in cuts if (cut.install, cut.workload) == (install, workload)]
        blocks.append(_with_survival(speed, of_group) if of_group else speed)
        cost = _cost_table(cells, findings, (install, workload))
        if any(cell.text != UNKNOWN for row in cost.rows for cell in row[len(VARIANT_COLUMNS) :]):
            blocks.append(cost)  # a failover has none of it
    return blocks


def _cost_table(cells: Cells, findings: Sequence[Finding], group: tuple[str, str]) -> Table:
    """What a transaction costs; with probes, also what limits and what is waited for."""
    if cells.plan.slices_all:
        note = "Medians over trials. What limits needs probes: --design fresh."
        row = partial(_cost_row, cells)
        return _without_unknown(variant_table(cells, group, _COST_COLUMNS, row, note, about="Cost"))

    def both(cell: Cell) -> tuple[TableCell, ...]:
        return (
            *_cost_row(cells, cell),
            TableCell(_limit(findings, cell)),
            TableCell(_top_wait(cells, cell)),
        )

    note = (
        "Medians over trials. Limit: what the verdicts name; "
        "top wait: the largest share of active-backend samples."
    )
    columns = (*_COST_COLUMNS, *_LIMIT_COLUMNS)
    return variant_table(cells, group, columns, both, note, about="Cost and limit")


def _without_unknown(table: Table) -> Table:
    """The table without columns in which nothing is known, as latencies are not of loads that are stopped."""
    known = [
        place for place in range(len(table.columns)) if any(row[place].text != UNKNOWN for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in known),
        rows=tuple(tuple(row[place] for place in known) for row in table.rows),
    )


def _with_design(table: Table, cells: Cells) -> Table:
    """The table of speed with the design of each row before its ratio."""
    place = _COLUMNS.index(_RATIO)
    columns = [
        replace(column, terminal=column.terminal and column.title != "avg ms") for column in table.columns
    ]
    return replace(
        table,
        columns=(*columns[:place], Column("design"), *columns[place:]),
        rows=tuple(
            (*row[:place], TableCell(design_of(cells.plan, variant.name)), *row[place:])
            for row, variant in zip(table.rows, cells.variants(), strict=True)
        ),
        note=" ".join([table.note or "", *_said_of_designs(cells.plan)]),
    )


def _said_of_designs(plan: Plan) -> list[str]:
    said = []
    if plan.toggling is not None:
        said.append(
            "In a toggled design a trial is a start of the server that all of its variants share, and "
            "ratios are formed from slices of the same pass."
        )
    if plan.slicing is not None:
        said.append("In a sliced design a trial is a start of all servers; their loads take turns.")
    return said


def _with_compared(table: Table, analysis: Analysis) -> Table:
    """The table of speed, whose ratios are named where they are not of throughput."""
    if analysis.metric == _THROUGHPUT:
        return table
    named = replace(_RATIO, title=f"ratio of {metric(analysis.metric).heading}")
    return replace(table, columns=tuple(named if column == _RATIO else column for column in table.columns))


def _with_survival(table: Table, cuts: Sequence[CutSummary]) -> Table:
    """The table of speed with another column beside its ratios. ``cuts`` belong to the same variants in that
    order."""
    place = _COLUMNS.index(_RATIO) + 1
    # The terminal has no room for all; how many trials failed is in the note.
    columns = [
        replace(column, terminal=column.terminal and column.title not in ("trials", "avg ms"))
        for column in table.columns
    ]
    return replace(
        table,
        columns=(*columns[:place], Column("survives a power cut"), *columns[place:]),
        rows=tuple(
            (*row[:place], TableCell(say_survival(summary)), *row[place:])
            for row, summary in zip(table.rows, cuts, strict=True)
        ),
        note=f"{table.note} {SURVIVAL_NOTE}",
    )


def _row(cells: Cells, analysis: Analysis, cell: Cell) -> tuple[TableCell, ...]:
    variant = cells.plan.variant(cell[2])
    effect = analysis.effect(*cell)
    if effect is None:
        compared = "baseline"
    else:
        compared = ratio(effect.ratio, effect.interval)
        if say_conclusion(effect) == Conclusion.NO_DIFFERENCE.value:
            compared += " ="
        elif effect.conclusion is Conclusion.IN_DOUBT:
            compared += " ?"
    failed = len(cells.failed(cell))
    done = len(cells.finished(cell))
    trials = f"{done} of {done + failed}" if failed else str(done)

    return (
        *variant_cells(variant),
        TableCell(cells.shown(cell, "tps")),
        TableCell(trials),
        TableCell(compared),
        TableCell(cells.shown(cell, "latency_ms_avg")),
        TableCell(cells.shown(cell, "latency_ms_stddev")),
        TableCell(cells.shown(cell, "latency_ms_p95")),
        TableCell(cells.shown(cell, "latency_ms_p99")),
    )


def _cost_row(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    variant = cells.plan.variant(cell[2])
    return (
        *variant_cells(variant),
        TableCell(cells.shown(cell, "wal_bytes_per_txn")),
        TableCell(cells.shown(cell, "wal_fpi_per_txn")),
    )


def _top_wait(cells: Cells, cell: Cell) -> str:
    shares = cells.shares(cell, "wait_share.")
    if not shares:
        return UNKNOWN
    event, share = max(shares.items(), key=lambda pair: pair[1])
    return f"{'on CPU' if event == CPU else event} {percent(share)}"


def _limit(findings: Sequence[Finding], cell: Cell) -> str:
    found = [
        _LIMITS[f.kind] for f in findings if (f.install, f.workload, f.variant) == cell and f.kind in _LIMITS
    ]
    return " + ".join(dict.fromkeys(found)) or UNKNOWN


def _note(cells: Cells, analysis: Analysis, install: str, workload: str) -> str:
    is_timed = cells.plan.toggling is not None or not cells.plan.slices_all
    of = "" if analysis.metric == _THROUGHPUT else f" of {metric(analysis.metric).heading}"
    note = (
        f"{'tps and latency are medians' if is_timed else 'tps is the median'} over the trials of a variant. "
        f"The ratio{of} is the geometric mean over {means_over(cells.plan)}, with its "
        f"{percent(analysis.level)} interval; "
        "= marks one that holds 1 and is no wider than a factor of 2 (no measurable difference)."
    )
    if any(
        effect.conclusion is Conclusion.IN_DOUBT
        for effect in analysis.effects
        if (effect.install, effect.workload) == (install, workload)
    ):
        note += " ? marks a difference that so many comparisons show by chance."
    group_cells = [Cell(install, workload, v.name) for v in cells.plan.variants]
    # A start that several variants share is one trial.
    failed = len({trial.number for cell in group_cells for trial in cells.failed(cell)})
    done = len({trial.number for cell in group_cells for trial in cells.finished(cell)})
    if failed:
        note += f" {failed} of {failed + done} trials failed and {'is' if failed == 1 else 'are'} left out."
    return note


def published_tables(cells: Cells, analysis: Analysis) -> list[Block]:
    """Published figures beside ours, throughput then latency; empty without any in the plan, and at an
    offered rate, which none of them had."""
    plan = cells.plan
    if analysis.metric != _THROUGHPUT:
        return []
    blocks: list[Block] = []
    for install, workload in cells.groups():
        published = {r.variant: r for r in plan.references_of(workload) if r.tps is not None}
        if not published:
            continue
        group, note = (install, workload), say_source(plan)
        row = partial(_tps_row, cells, analysis, published)
        blocks.append(variant_table(cells, group, _PUBLISHED_TPS, row, note, about="Throughput"))
        if any(r.latency_ms_avg is not None or r.latency_ms_stddev is not None for r in published.values()):
            row = partial(_latency_row, cells, published)
            blocks.append(
                variant_table(cells, group, _PUBLISHED_LATENCY, row, note, about="Latency", terminal=False)
            )
    return blocks


_PUBLISHED_TPS = (
    *VARIANT_COLUMNS,
    *published_columns("tps", "ratio"),
    Column("published ratio is", terminal=False),
)
_PUBLISHED_LATENCY = (
    *VARIANT_COLUMNS,
    *published_columns("average ms", "stddev ms"),
)


def _tps_row(
    cells: Cells,
    analysis: Analysis,
    references: Mapping[str, Reference],
    cell: Cell,
) -> tuple[TableCell, ...]:
    published, base = references.get(cell[2]), references.get(cells.plan.baseline)
    effect = analysis.effect(*cell)
    theirs = published.tps / base.tps if published and published.tps and base and base.tps else None
    where = UNKNOWN
    if theirs is not None and effect is not None and effect.interval is not None:
        inside = effect.interval.contains(theirs)
        side = "above" if theirs > effect.interval.high else "below"
        where = "within our interval" if inside else f"{side} our interval"
    texts = (
        number(published.tps if published else None),
        cells.shown(cell, "tps"),
        "baseline" if effect is None else ratio(theirs),
        "baseline" if effect is None else ratio(effect.ratio, effect.interval),
        where,
    )
    return (*variant_cells(cells.plan.variant(cell[2])), *text_cells(texts))


def _latency_row(cells: Cells, references: Mapping[str, Reference], cell: Cell) -> tuple[TableCell, ...]:
    published = references.get(cell[2])
    texts = (
        number(published.latency_ms_avg if published else None),
        cells.shown(cell, "latency_ms_avg"),
        number(published.latency_ms_stddev if published else None),
        cells.shown(cell, "latency_ms_stddev"),
    )
    return (*variant_cells(cells.plan.variant(cell[2])), *text_cells(texts))


def install_table(cells: Cells, analysis: Analysis) -> list[Block]:
    """Later installs against the first; empty with one install."""
    if not analysis.install_effects:
        return []
    first = cells.plan.installs[0].label
    rows = []
    for effect in analysis.install_effects:
        rows.append(
            (
                TableCell(effect.install),
                TableCell(effect.workload),
                *variant_cells(cells.plan.variant(effect.variant)),
                TableCell(ratio(effect.ratio, effect.interval)),
                TableCell(str(effect.n)),
                TableCell(say_conclusion(effect)),
            )
        )
    columns = (
        Column("install"),
        Column("workload"),
        *VARIANT_COLUMNS,
        Column(f"ratio to {first}", numeric=True),
        Column("rounds", numeric=True),
        Column(f"{metric(analysis.metric).heading} is"),
    )
    return [Table(f"Every install against PostgreSQL {first}", columns, tuple(rows))]


def factor_tables(cells: Cells, analysis: Analysis) -> list[Block]:
    """The terms of the factorial model, what it cannot tell apart, and what it could not fit."""
    blocks: list[Block] = []
    for model in analysis.factors:
        rows = tuple(
            (
                TableCell(" * ".join(term.factors)),
                TableCell(
                    ", ".join(
                        f"{level} against {ref}"
                        for level, ref in zip(term.levels, term.references, strict=True)
                    )
                ),
                TableCell(ratio(term.ratio, term.interval)),
                TableCell(p_value(term.p_holm)),
                TableCell(", ".join(term.aliases) or "nothing"),
            )
            for term in model.terms
        )
        note = f"Fitted to {model.n} trials, {model.left_out} left out, {model.degrees} degrees of freedom."
        if model.residual_sd is not None:
            note += f" Unexplained by the model: {percent(model.residual_sd)} from trial to trial."
        for missing in model.unfitted:
            note += f" {'*'.join(missing.factors)} is not in the model: {missing.reason}."
        # Tables say tps where charts say throughput.
        noun = "tps" if model.metric == "tps" else metric(model.metric).heading
        columns = (
            Column("factor"),
            Column("level"),
            Column(f"effect on {noun}", numeric=True),
            Column("p, adjusted", numeric=True),
            Column("cannot be told from"),
        )
        blocks.append(
            Table(f"Factors: {cells.group_title(model.install, model.workload)}", columns, rows, note)
        )
    return blocks

"""The tables of a study of loading: speed, what was written, who was busy, what was postponed and risked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from walproof.analysis.effect import Conclusion
from walproof.analysis.loading import GAIN, Busy, who_was_busy
from walproof.analysis.summary import Analysis
from walproof.analysis.sweep import Climb, SweepStep, climb, sweeps_of
from walproof.facts import Cell, Trial, Variant
from walproof.report.answer import Answer
from walproof.report.blocks import Block, Column, Table, TableCell, class_cell, text_cells
from walproof.report.cells import Cells
from walproof.report.numbers import UNKNOWN, number, percent, ratio
from walproof.report.published import published_columns, say_source
from walproof.report.variants import compared, variant_cells, variant_table, variant_tables
from walproof.sentences import say_count, say_list
from walproof.settings.durability import DurabilityClass
from walproof.settings.risk import durability_class

LOAD_METRIC = "complete_rows_per_s"
"""Metric of the comparison: all time counts until the table is as good as after any other load."""

_COLUMNS = (
    Column("method"),
    Column("rows", numeric=True, terminal=False),
    Column("rows/s load", numeric=True),
    Column("rows/s complete", numeric=True),
    Column("ratio to baseline", numeric=True),
    Column("WAL B/row load", numeric=True),
    Column("WAL B/row complete", numeric=True),
    Column("busy"),
    Column("trials", numeric=True, terminal=False),
)
_BUSY = (
    Column("method"),
    Column("busy"),
    Column("client cores", numeric=True),
    Column("backend cores", numeric=True),
    Column("most frequent wait"),
    Column("share of samples", numeric=True),
)
_BUSY_NOTE = (
    "Cores: what each session's client process and its backend used during the load. Client, server: it "
    "fills one. In turn: both together fill one. Disk, locks: three samples in ten wait for them. Neither: "
    "other work on the machine, or waits too short to see."
)
_NOTE = (
    "Medians over trials; the ratio is of complete rows/s, the geometric mean of ratios within rounds. "
    '"load": until the last row is committed. "complete": with what is done after it, the first full read '
    "after a checkpoint, and VACUUM ANALYZE. Busy: whose core was full; see below. "
    "Methods that load fewer rows fill smaller indexes."
)
_STEPS = (
    Column("sweep"),
    Column("from", numeric=True),
    Column("to", numeric=True),
    Column("gain", numeric=True),
    Column("rounds", numeric=True),
    Column("so"),
)
_STEPS_NOTE = (
    "Rates of the load within rounds that have both. Three points are always tried; a larger one only until "
    f"two steps in a row are shown to gain less than {100 * GAIN:g} %, by the upper end of the interval."
)
_PARTS = (
    Column("method"),
    Column("load s", numeric=True),
    Column("after it s", numeric=True),
    Column("first read s", numeric=True),
    Column("vacuum s", numeric=True),
    Column("WAL load", numeric=True),
    Column("after it", numeric=True),
    Column("first read", numeric=True),
    Column("vacuum", numeric=True),
    Column("table", numeric=True, terminal=False),
    Column("files at most", numeric=True, terminal=False),
)
_PARTS_NOTE = (
    "After it: indexes, constraints, SET LOGGED, triggers. First read: of every row after a checkpoint; it "
    "sets hint bits. Most files: data files added to those before, checked five times a second."
)
_RISKS = (
    Column("method"),
    Column("during the load"),
    Column("after it"),
    Column("killed halfway"),
    Column("power cut halfway"),
)
_RISKS_NOTE = (
    "Killed halfway: every process of the server by SIGKILL when half of the rows were on their way, "
    "once a method; what is in the table after recovery. Power cut: on a simulated disk, with few rows, and "
    "what servers found on images of it, from nothing that was not flushed to a random half of it."
)
_PUBLISHED = (
    Column("method"),
    *published_columns("rows/s", "ratio", "WAL B/row"),
)
_FINISHED, _FINISHED_WAL = "finished_rows_per_s", "finished_wal_bytes_per_row"


def busy_of(cells: Cells, cell: Cell) -> Busy | None:
    """What limited most of the cell's trials."""
    found = Counter(busy for trial in cells.finished(cell) if (busy := who_was_busy(trial.metrics)))
    return found.most_common(1)[0][0] if found else None


def load_tables(cells: Cells, trials: Sequence[Trial], analysis: Analysis) -> list[Block]:
    """Rates, WAL and who was busy; one table an install."""
    climbs = [climb(sweep, trials, cells.plan.rounds) for sweep in sweeps_of(cells.plan)]
    skipped = {point.cell for climb in climbs for point in climb.skipped if climb.has_ended}
    return variant_tables(cells, _COLUMNS, partial(_row, cells, analysis, skipped), _NOTE)


def busy_tables(cells: Cells) -> list[Block]:
    """Who was busy, and with what."""
    return variant_tables(
        cells, _BUSY, partial(_busy, cells), _BUSY_NOTE, about="Who was busy", terminal=False
    )


def sweep_tables(cells: Cells, trials: Sequence[Trial]) -> list[Block]:
    """Every step of each sweep, and which points were skipped."""
    climbs = [climb(sweep, trials, cells.plan.rounds) for sweep in sweeps_of(cells.plan)]
    rows = []
    for reached in climbs:
        name = f"{reached.sweep.feed} by {reached.sweep.swept}"
        if len(cells.plan.installs) > 1:
            name += f", PostgreSQL {reached.sweep.install}"
        rows += [_step(name, step) for step in reached.steps]
        rows += [
            (
                name,
                "",
                f"{point.at:,}",
                "",
                "0",
                "skipped: more gains nothing" if reached.has_ended else "not tried yet",
            )
            for point in reached.skipped
        ]
    if not rows:
        return []
    return [Table("Tried upward", _STEPS, tuple(tuple(map(TableCell, row)) for row in rows), _STEPS_NOTE)]


def _step(name: str, step: SweepStep) -> tuple[str, ...]:
    if step.interval is None:
        verdict = "one round says nothing about the spread"
    elif step.is_gainless:
        verdict = f"gains less than {100 * GAIN:g} %"
    elif step.interval.low > 1:
        verdict = "a gain"
    else:
        verdict = "may gain"
    gain = ratio(step.ratio, step.interval)
    return (name, f"{step.below.at:,}", f"{step.above.at:,}", gain, str(step.rounds), verdict)


def part_tables(cells: Cells) -> list[Block]:
    """Where the time and the WAL go until the table is complete."""
    return variant_tables(
        cells, _PARTS, partial(_parts, cells), _PARTS_NOTE, about="Until the table is complete"
    )


def risk_tables(cells: Cells) -> list[Block]:
    """Durability classes, and what a crash halfway leaves."""
    return variant_tables(cells, _RISKS, partial(_risks, cells), _RISKS_NOTE, about="What is at risk")


def load_published_tables(cells: Cells) -> list[Block]:
    """Our figures beside published ones, which end when the table is indexed and logged."""
    blocks: list[Block] = []
    note = say_source(cells.plan, "Load and what is done after it, without first read and VACUUM.")
    for group in cells.groups():
        published = {reference.variant: reference.metrics for reference in cells.plan.references_of(group[1])}
        if published:
            row = partial(_published, cells, published)
            blocks.append(variant_table(cells, group, _PUBLISHED, row, note, about="Published and here"))
    return blocks


def load_answers(cells: Cells, trials: Sequence[Trial], analysis: Analysis) -> tuple[Answer, ...]:
    """The fastest way in each durability class, what limits it, and what it leaves for later."""
    found = []
    climbs = [climb(sweep, trials, cells.plan.rounds) for sweep in sweeps_of(cells.plan)]
    for install, workload in cells.groups():
        sentences = []
        rates = {
            v.name: rate
            for v in cells.variants()
            if (rate := cells.median(Cell(install, workload, v.name), LOAD_METRIC)) is not None
        }
        if not rates:
            continue
        sentences += _range(cells, analysis, install, workload, rates)
        sentences += _gains(cells, analysis, install, workload)
        bound = [
            v.name for v in cells.variants() if busy_of(cells, Cell(install, workload, v.name)) is Busy.CLIENT
        ]
        skipped = [climb for climb in climbs if climb.skipped and climb.sweep.install == install]
        sentences += [_say_skipped(climb) for climb in skipped if climb.has_ended]
        if bound:
            sentences.append(
                f"{say_count(len(bound), 'method')} of {len(rates)} are bound by the client, a full core: "
                f"{', '.join(bound[:4])}{' and others' if len(bound) > 4 else ''}."
            )
        found.append(Answer(cells.group_title(install, workload), tuple(sentences)))
    return tuple(found)


def _range(
    cells: Cells, analysis: Analysis, install: str, workload: str, rates: Mapping[str, float]
) -> list[str]:
    """From the slowest to the fastest: who is not shown to differ from the baseline is no end of it."""
    base = cells.plan.baseline
    if base not in rates:
        return []
    shown: dict[Conclusion, list[str]] = {Conclusion.LOWER: [base], Conclusion.HIGHER: [base]}
    for name in rates:
        effect = analysis.effect(install, workload, name)
        if effect is not None and effect.conclusion in shown:
            shown[effect.conclusion].append(name)
    slowest = min(shown[Conclusion.LOWER], key=lambda name: rates[name])
    fastest = max(shown[Conclusion.HIGHER], key=lambda name: rates[name])
    if slowest == fastest:
        said = "; no other method is shown to be slower or faster" if len(rates) > 1 else ""
        return [f"{number(rates[base])} complete rows/s ({base}){said}."]
    return [
        f"From {number(rates[slowest])} complete rows/s ({slowest}) to {number(rates[fastest])} ({fastest})."
    ]


def _say_skipped(climb: Climb) -> str:
    skipped = say_list([f"{point.at:,}" for point in climb.skipped])
    return (
        f"{climb.sweep.feed}: {skipped} {climb.sweep.swept} were skipped, because the two steps up to "
        f"{climb.sweep.points[climb.reached - 1].at:,} each gain less than {100 * GAIN:g} %."
    )


def _gains(cells: Cells, analysis: Analysis, install: str, workload: str) -> list[str]:
    sentences = []
    for durability in DurabilityClass:
        in_class = [
            effect
            for variant in cells.variants()
            if variant.durability is durability
            and (effect := analysis.effect(install, workload, variant.name)) is not None
            and effect.conclusion is Conclusion.HIGHER
        ]
        if in_class:
            best = max(in_class, key=lambda effect: effect.ratio or 0.0)
            risk = "" if durability is DurabilityClass.NONE else f" (during the load: {durability.value})"
            sentences.append(
                f"{best.variant} completes {ratio(best.ratio, best.interval)} the rows/s of "
                f"{cells.plan.baseline}{risk}."
            )
    return sentences


def class_after(cells: Cells, variant: Variant) -> DurabilityClass:
    """What its settings risk after the load; unlogged tables are logged again by then."""
    return durability_class(cells.plan.settings_of(variant))


def _row(cells: Cells, analysis: Analysis, skipped: Collection[Cell], cell: Cell) -> tuple[TableCell, ...]:
    busy = busy_of(cells, cell)
    texts = (
        cell[2],
        cells.shown(cell, "rows"),
        cells.shown(cell, "rows_per_s"),
        cells.shown(cell, LOAD_METRIC),
        "skipped" if cell in skipped and not cells.finished(cell) else compared(analysis, cell),
        cells.shown(cell, "wal_bytes_per_row"),
        cells.shown(cell, "complete_wal_bytes_per_row"),
        UNKNOWN if busy is None else busy.value,
        str(len(cells.finished(cell))),
    )
    return text_cells(texts)


def _busy(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    busy = busy_of(cells, cell)
    waits = {name: share for name, share in cells.shares(cell, "wait_share.").items() if name != "CPU"}
    top = max(waits, key=lambda name: waits[name], default=None)
    texts = (
        cell[2],
        UNKNOWN if busy is None else busy.value,
        cells.shown(cell, "client_busy"),
        cells.shown(cell, "server_busy"),
        UNKNOWN if top is None else top,
        UNKNOWN if top is None else percent(waits[top]),
    )
    return text_cells(texts)


def _parts(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    phases = ("load", "finish", "first_read", "vacuum")
    seconds = [cells.shown(cell, f"{phase}_s") for phase in phases]
    wal = [cells.shown(cell, f"{phase}_wal_bytes") for phase in phases]
    sizes = [cells.shown(cell, name) for name in ("table_bytes", "data_bytes_max")]
    return text_cells((cell[2], *seconds, *wal, *sizes))


def _risks(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    variant = cells.plan.variant(cell[2])
    return (
        *variant_cells(variant),
        class_cell(class_after(cells, variant)),
        TableCell(_crash(cells, cell)),
        TableCell(_cut(cells, cell)),
    )


def _crash(cells: Cells, cell: Cell) -> str:
    shares, lacks = cells.values(cell, "crash_rows_share"), cells.values(cell, "crash_lacks")
    if not shares:
        return UNKNOWN
    share = shares[0]
    text = "empty" if share == 0 else "complete" if share == 1 else f"partial: {percent(share)} of the rows"
    if lacks and lacks[0]:
        text += f"; {say_count(round(lacks[0]), 'part')} of its definition to put right"
    return text


def _published(
    cells: Cells, published: Mapping[str, Mapping[str, float]], cell: Cell
) -> tuple[TableCell, ...]:
    install, workload, variant = cell
    base = cells.plan.baseline
    theirs, here = published.get(variant, {}), cells.median(cell, _FINISHED)
    texts = (
        variant,
        number(theirs.get(_FINISHED)),
        number(here),
        _times(theirs.get(_FINISHED), published.get(base, {}).get(_FINISHED)),
        _times(here, cells.median(Cell(install, workload, base), _FINISHED)),
        number(theirs.get(_FINISHED_WAL)),
        cells.shown(cell, _FINISHED_WAL),
    )
    return text_cells(texts)


def _cut(cells: Cells, cell: Cell) -> str:
    found = {
        name: values[0]
        for name in ("images", "broken", "rows_share_min", "rows_share_max", "lost_rows_max", "lacks_max")
        if (values := cells.values(cell, f"cut_{name}"))
    }
    if "images" not in found:
        return UNKNOWN
    parts = []
    if "rows_share_min" in found:
        low, high = found["rows_share_min"], found["rows_share_max"]
        if high == 0:
            parts.append("empty")
        elif low == 1:
            parts.append("complete")
        else:
            shares = percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}"
            parts.append(f"partial: {shares} of the rows")
    if lost := round(found["lost_rows_max"]):
        parts.append(f"up to {say_count(lost, 'acknowledged row')} lost")
    if lacks := round(found["lacks_max"]):
        parts.append(f"{say_count(lacks, 'part')} of its definition to put right")
    if broken := round(found["broken"]):
        parts.append(f"{broken} of {say_count(round(found['images']), 'image')} cannot be read")
    return "; ".join(parts)


def _times(value: float | None, base: float | None) -> str:
    return UNKNOWN if value is None or not base else ratio(value / base)

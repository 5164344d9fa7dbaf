"""How sure the report is: precision and missing rounds, drift, failed trials, what probes could not see."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.advise.wording import say_conclusion
from walproof.analysis.effect import Conclusion
from walproof.analysis.summary import Analysis
from walproof.facts import Cell, Trial, TrialState
from walproof.facts.metrics import metric
from walproof.report.blocks import Block, Column, Listing, Paragraph, Table, TableCell, text_cells
from walproof.report.cells import Cells
from walproof.report.numbers import number, p_value, percent, ratio
from walproof.report.variants import GROUPED_COLUMNS, grouped_cells, variant_cells
from walproof.sentences import say_count

_LOGS_MOST = 10
"""Number of logs shown in full: the others fail for the same few reasons, and the store has them."""


def precision_tables(cells: Cells, analysis: Analysis) -> list[Block]:
    """Per effect: how well it is known, and how many more rounds each half-width would take."""
    effects = (*analysis.effects, *analysis.install_effects)
    if not effects:
        return []
    widths = [needed.half_width for needed in analysis.precision[0].needed]
    known, needed_rows = [], []
    for effect, precision in zip(effects, analysis.precision, strict=True):
        where = cells.group_title(effect.install, effect.workload)
        if effect.baseline[0] != effect.install:
            where += f" against {effect.baseline[0]}"
        head = (TableCell(where), *variant_cells(cells.plan.variant(effect.variant)))
        texts = (
            ratio(effect.ratio, effect.interval),
            ratio(effect.median_ratio),
            str(effect.n) + (f" ({effect.left_out} left out)" if effect.left_out else ""),
            "-" if effect.half_width is None else f"± {percent(effect.half_width)}",
            p_value(effect.p_family),
            say_conclusion(effect),
        )
        is_chance = effect.conclusion is Conclusion.SAME
        more = [
            "-" if n.more is None or is_chance else "reached" if n.more == 0 else f"{n.more}"
            for n in precision.needed
        ]
        known.append((*head, *text_cells(texts)))
        needed_rows.append((*head, *text_cells(more)))
    columns = (
        *GROUPED_COLUMNS,
        Column("ratio", numeric=True),
        Column("median ratio", numeric=True),
        Column("rounds", numeric=True),
        Column("known within", numeric=True),
        Column("p, together", numeric=True),
        Column(f"{metric(analysis.metric).heading} is"),
    )
    note = (
        f"{percent(analysis.level)} t intervals of the mean log ratio, both trials from the same round"
        f"{_of_slices(cells)}; each is for its ratio alone."
    )
    note += _families(analysis)
    more_columns = (*GROUPED_COLUMNS, *(Column(f"to ± {percent(width)}", numeric=True) for width in widths))
    more_note = "How many more rounds each precision takes, if the spread stays as seen."
    return [
        Table("How well each ratio is known", columns, tuple(known), note, terminal=False, grouped=True),
        Table(
            "More rounds needed", more_columns, tuple(needed_rows), more_note, terminal=False, grouped=True
        ),
    ]


def _families(analysis: Analysis) -> str:
    """Which comparisons are counted together: those of installs are a family of their own."""
    of_variants, of_installs = (
        effects[0].comparisons if effects else 0 for effects in (analysis.effects, analysis.install_effects)
    )
    if not (of_variants or of_installs):
        return ""
    said = (
        f" p, and with it what the {metric(analysis.metric).heading} is said to be, holds for all "
        f"{say_count(of_variants or of_installs, 'comparison')}"
    )
    if of_variants and of_installs:
        said += f" with a baseline together, and apart from these for all {of_installs} of installs"
    return f"{said} together (the largest |t|, Dunnett)."


def _of_slices(cells: Cells) -> str:
    said = ""
    if cells.plan.toggling is not None:
        said += "; of design toggled, of groups of passes, and rounds are starts of the server"
    if cells.plan.slicing is not None:
        said += "; of design sliced, rounds are starts of all servers, each with one value of each variant"
    return said


def drift_paragraph(analysis: Analysis) -> list[Block]:
    """How steady the machine was, in figures."""
    drift = analysis.drift
    if not drift.points and analysis.places:
        return []  # Slices of one server are compared, and no trial with another.
    parts = [f"The machine over the run: {drift.steadiness.value}."]
    if drift.trend is not None:
        parts.append(f"Trend from the first trial to the last: {ratio(drift.trend, drift.trend_interval)}.")
    if drift.lag1_correlation is not None:
        parts.append(
            "Correlation of a trial with the next, beyond the trend: "
            f"{drift.lag1_correlation:.2f} (0 for a steady machine)."
        )
    if drift.baseline_spread is not None:
        parts.append(f"The baseline's own spread from round to round: {percent(drift.baseline_spread)}.")
    if drift.removed_share is not None:
        parts.append(
            f"Comparing within rounds removed {percent(drift.removed_share)} of the variance between trials."
        )
    return [Paragraph(" ".join(parts))]


def failure_blocks(cells: Cells, trials: Sequence[Trial], analysis: Analysis) -> list[Block]:
    """Failed trials by reason, with the server's last words."""
    if not analysis.failures:
        return []
    rows = []
    for failure in analysis.failures:
        rows.append(
            (
                *grouped_cells(cells, Cell(failure.install, failure.workload, failure.variant)),
                TableCell(str(len(failure.trials))),
                TableCell(", ".join(map(str, failure.trials))),
                TableCell(failure.reason),
            )
        )
    columns = (
        *GROUPED_COLUMNS,
        Column("failed", numeric=True),
        Column("trials", terminal=False),
        Column("reason"),
    )
    total = say_count(analysis.trials, "trial")
    note = f"{analysis.failed} of {total} failed; no figure of this report uses them."
    blocks: list[Block] = [Table("Failed trials", columns, tuple(rows), note)]
    logs = [t for t in trials if t.state is TrialState.FAILED and t.server_log]
    blocks += [
        Listing(f"Server log of trial {t.number} ({t.variant}), last lines", t.server_log or "", folded=True)
        for t in logs[:_LOGS_MOST]
    ]
    return blocks


def outlier_paragraph(analysis: Analysis) -> list[Block]:
    """Flagged rounds; they are used like the others."""
    flagged = [
        f"{effect.variant}, {effect.workload}, round {pair.round} ({number(pair.ratio)}x)"
        for effect in analysis.effects
        for pair in effect.ratios
        if pair.outlier
    ]
    if not flagged:
        return []
    return [Paragraph(f"Rounds that stand apart from the others (used like them): {'; '.join(flagged)}.")]


def warning_table(trials: Sequence[Trial]) -> list[Block]:
    """What probes could not see, once per text."""
    grouped: dict[str, list[int]] = {}
    for trial in trials:
        for warning in trial.warnings:
            grouped.setdefault(warning, []).append(trial.number)
    if not grouped:
        return []
    rows = tuple(
        (TableCell(text), TableCell(str(len(numbers))), TableCell(_ranges(numbers)))
        for text, numbers in grouped.items()
    )
    columns = (Column("warning"), Column("trials", numeric=True), Column("numbers"))
    return [Table("What could not be observed", columns, rows, terminal=False)]


def _ranges(numbers: Sequence[int]) -> str:
    """``1-5, 8``."""
    parts: list[list[int]] = []
    for number_ in sorted(numbers):
        if parts and number_ == parts[-1][-1] + 1:
            parts[-1][1:] = [number_]
        else:
            parts.append([number_])
    return ", ".join("-".join(map(str, part)) for part in parts)

"""A study of load: throughput under each variant, and everything that explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from walproof.advise.finding import Finding
from walproof.analysis.crashes import predicted_crashes
from walproof.analysis.offered import offers_rates
from walproof.analysis.power_cut import CutSummary, cut_summaries
from walproof.analysis.summary import Analysis
from walproof.analysis.toggled import by_variant
from walproof.facts import Plan, Run, Series, Trial
from walproof.report.answer import Answer, answers, how_sure, what_would_help
from walproof.report.blocks import Section, Verdict, Verdicts
from walproof.report.cells import Cells
from walproof.report.certainty import drift_paragraph
from walproof.report.components import noise_sentences
from walproof.report.kinds.comparison import factor_figure, install_figure, variant_figure
from walproof.report.kinds.power_cuts.tables import cut_answers
from walproof.report.kinds.power_cuts.view import cut_sections, outcome_figures
from walproof.report.kinds.throughput.causes import (
    checkpoint_table,
    disk_table,
    lock_paragraphs,
    process_tables,
    wait_table,
)
from walproof.report.kinds.throughput.figures import (
    away_figure,
    course_figure,
    latency_figure,
    seconds_figure,
    waits_figure,
    writers_figure,
    written_figure,
)
from walproof.report.kinds.throughput.flushes import flush_blocks
from walproof.report.kinds.throughput.offered import at_offered_rate, doubts
from walproof.report.kinds.throughput.prediction import prediction_blocks
from walproof.report.kinds.throughput.time_away import recovery_answers, recovery_tables, whatif_tables
from walproof.report.kinds.throughput.volume import volume_blocks
from walproof.report.layout import Body, FigureMaker, ReportView, certainty_section, lay_out
from walproof.report.results import factor_tables, install_table, published_tables, result_tables
from walproof.report.slices import lasting_sentences, slice_tables
from walproof.report.words import KindWords


def throughput_view(
    words: KindWords[Any],
    run: Run,
    trials: Sequence[Trial],
    series: Sequence[Series],
    analysis: Analysis,
    findings: Sequence[Finding],
    first: Sequence[Section] = (),
) -> ReportView:
    """Lay out facts that have been analysed; ``first`` comes before what explains throughput."""
    stored, trials = trials, by_variant(run.plan, trials)
    sliced = {trial.number for trial in stored if trial.slices}
    series = [of_trial for of_trial in series if of_trial.trial not in sliced]
    cells = Cells(run.plan, trials)
    summaries = cut_summaries(run.plan, trials)
    make = FigureMaker(run, analysis)
    overview = variant_figure(
        make,
        cells,
        analysis,
        _question(run.plan),
        ", hollow where it stands apart from the others. Colour and heading: durability class. The line at "
        f"1x is the baseline, of durability class {run.plan.variant(run.plan.baseline).durability.value}.",
    )
    factors = factor_figure(make, cells, analysis, "What does each factor do, and which act together?")
    installs = install_figure(make, cells, analysis, "Does the PostgreSQL version matter?")
    crashes = predicted_crashes(run.plan, trials)
    sections = (
        Section(
            "recovery",
            "Recovery after a crash",
            (*recovery_tables(cells), *written_figure(make, cells), *whatif_tables(cells, crashes)),
        ),
        *first,
        Section(
            "volume",
            "WAL volume",
            (*writers_figure(make, cells), *volume_blocks(cells, analysis, list(trials))),
        ),
        Section("flushes", "Flush rates", tuple(flush_blocks(run, cells))),
        Section(
            "results",
            "Results",
            (*result_tables(cells, analysis, findings, summaries), *latency_figure(make, cells)),
        ),
        Section(
            "published",
            "Beside the published figures",
            (*published_tables(cells, analysis), *prediction_blocks(run, cells, analysis)),
        ),
        *cut_sections(
            run, trials, cells, analysis, summaries, outcome_figures(run, cells, analysis, summaries)
        ),
        Section("factors", "Factors", (*factors, *factor_tables(cells, analysis))),
        Section("installs", "Installs", (*installs, *install_table(cells, analysis))),
        Section(
            "causes",
            "Where the time goes",
            (
                *waits_figure(make, cells),
                *lock_paragraphs(run.plan, analysis),
                *wait_table(cells),
                *process_tables(cells),
                *disk_table(cells),
            ),
        ),
        Section(
            "checkpoints",
            "Within the windows",
            (*seconds_figure(make, cells, series), *checkpoint_table(cells)),
        ),
        certainty_section(
            cells,
            stored,
            analysis,
            *slice_tables(cells, analysis),
            *drift_paragraph(analysis),
            *course_figure(make, cells, trials, analysis),
        ),
    )
    answered = at_offered_rate(answers(cells, analysis), cells, stored)
    body = Body(
        answers=(*recovery_answers(cells), *_with_cuts(answered, cells, summaries)),
        how_sure=(
            *doubts(cells, stored),
            *lasting_sentences(run.plan, stored),
            *how_sure(run, analysis, findings),
            *noise_sentences(run.plan, stored, analysis),
        ),
        what_would_help=what_would_help(run.plan, stored, analysis),
        findings=tuple(findings),
        overview=(*away_figure(make, cells, crashes), *overview) or installs,
        verdicts=_verdicts(cells, findings),
        sections=sections,
    )
    return lay_out(words, run, stored, analysis, body)


def _question(plan: Plan) -> str:
    if offers_rates(plan):
        return f"How long does a transaction take under each variant, relative to {plan.baseline}?"
    return f"How much throughput does each variant give, relative to {plan.baseline}?"


def _with_cuts(found: Sequence[Answer], cells: Cells, summaries: Sequence[CutSummary]) -> tuple[Answer, ...]:
    """Each answer with what power cuts left, where there were any: both are one for each group of cells."""
    if not summaries:
        return tuple(found)
    return tuple(
        replace(answer, sentences=(*answer.sentences, *cut.sentences))
        for answer, cut in zip(found, cut_answers(cells, summaries), strict=True)
    )


def _verdicts(cells: Cells, findings: Sequence[Finding]) -> tuple[Verdicts, ...]:
    """Findings by group and variant, in the order in which they were found."""
    groups = []
    for install, workload in cells.groups():
        of_group = []
        for variant in cells.variants():
            said = [
                f.sentence
                for f in findings
                if (f.install, f.workload, f.variant) == (install, workload, variant.name)
            ]
            if said:
                of_group.append(
                    Verdict(
                        variant.name,
                        variant.durability,
                        # The badge beside the name has the class.
                        tuple(
                            _sentence(text.removeprefix(f"{variant.durability.value}; "), variant.name)
                            for text in said
                        ),
                    )
                )
        if of_group:
            groups.append(Verdicts(cells.group_title(install, workload), tuple(of_group)))
    run_wide = tuple(_sentence(f.sentence) for f in findings if f.variant is None)
    if run_wide:
        groups.append(Verdicts("The run", (Verdict("", None, run_wide),)))
    return tuple(groups)


def _sentence(text: str, variant: str = "") -> str:
    """The sentence with a capital, unless it begins with the name of a variant or a setting, and a full
    stop."""
    begins_with_word = text.split(maxsplit=1)[:1] and text.split(maxsplit=1)[0].rstrip(",;:").isalpha()
    if begins_with_word and not (variant and text.startswith(variant)):
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."

"""A study of power cuts, and what it adds to a study of load."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.power_cut import CutSummary, cut_summaries
from walproof.analysis.summary import Analysis
from walproof.facts import Run, Trial
from walproof.report.blocks import Section
from walproof.report.cells import Cells
from walproof.report.certainty import failure_blocks
from walproof.report.figures.figure import Figure
from walproof.report.figures.losses import describe_losses, losses
from walproof.report.figures.outcomes import describe_outcomes, outcomes
from walproof.report.figures.style import symbol_key
from walproof.report.layout import Body, FigureMaker, ReportView, lay_out
from walproof.report.numbers import counted
from walproof.report.power_cut import (
    audit_blocks,
    cut_answers,
    failing_images,
    loss_tables,
    method_blocks,
    survival_tables,
    torn_tables,
)


def cut_view(run: Run, trials: Sequence[Trial], analysis: Analysis) -> ReportView:
    """The report of a study whose trials are power cuts: what is left instead of throughput."""
    cells = Cells(run.plan, trials)
    summaries = cut_summaries(run.plan, trials)
    sections = (
        *cut_sections(run, trials, cells, analysis, summaries),
        Section("failures", "Failed trials", tuple(failure_blocks(cells, trials, analysis))),
    )
    body = Body(
        answers=cut_answers(cells, summaries),
        how_sure=(
            f"{counted(sum(one.images for one in summaries), 'image')} of "
            f"{counted(sum(one.cuts for one in summaries), 'cut')}; "
            f"{counted(sum(one.void for one in summaries), 'trial')} void or failed.",
        ),
        what_would_help=(
            "More rounds: the bound on what was never seen to fail is 3 divided by the number of images.",
        ),
        overview=_outcome_figures(run, cells, analysis, summaries),
        sections=sections,
    )
    return lay_out(run, trials, analysis, body)


def _outcome_figures(
    run: Run, cells: Cells, analysis: Analysis, summaries: Sequence[CutSummary]
) -> tuple[Figure, ...]:
    return FigureMaker(run, analysis).figure(
        "outcomes",
        "What did servers make of what the power cuts left?",
        "Numbers in a bar are images. Durability class: " + symbol_key() + ".",
        outcomes(cells, summaries),
        describe_outcomes,
    )


def cut_sections(
    run: Run, trials: Sequence[Trial], cells: Cells, analysis: Analysis, summaries: Sequence[CutSummary]
) -> tuple[Section, ...]:
    """What survives, what is lost, and the cases; nothing without power cuts."""
    if not summaries:
        return ()
    windows = FigureMaker(run, analysis).figure(
        "losses",
        "How old is the oldest commit that a power cut loses?",
        "Circle: a cut; diamond: the median; bar: the bound for asynchronous commits, 3 x wal_writer_delay.",
        losses(cells, summaries),
        describe_losses,
    )
    is_only = run.plan.power_cut is not None and run.plan.power_cut.only
    bars = () if is_only else _outcome_figures(run, cells, analysis, summaries)
    return (
        Section(
            "survival",
            "Survives a power cut",
            (*bars, *survival_tables(cells, summaries), *torn_tables(cells, summaries)),
        ),
        Section("losses", "What is lost", (*windows, *loss_tables(cells, summaries))),
        Section(
            "cut-cases",
            "Cases",
            (*failing_images(trials), *audit_blocks(cells, summaries), *method_blocks(run, summaries)),
        ),
    )

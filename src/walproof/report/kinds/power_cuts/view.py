"""A study of power cuts, and what it adds to a study of load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walproof.analysis.power_cut import CutSummary, cut_summaries
from walproof.analysis.summary import Analysis
from walproof.facts import Run, Trial
from walproof.report.blocks import Block, Section
from walproof.report.cells import Cells
from walproof.report.certainty import failure_blocks
from walproof.report.figures.figure import Figure
from walproof.report.figures.style import symbol_key
from walproof.report.kinds.power_cuts.losses import losses
from walproof.report.kinds.power_cuts.outcomes import outcomes
from walproof.report.kinds.power_cuts.tables import (
    audit_blocks,
    cut_answers,
    failing_images,
    loss_tables,
    method_blocks,
    survival_tables,
    torn_tables,
)
from walproof.report.layout import Body, FigureMaker, ReportView, lay_out
from walproof.report.words import KindWords
from walproof.sentences import say_count


def cut_view(words: KindWords[Any], run: Run, trials: Sequence[Trial], analysis: Analysis) -> ReportView:
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
            f"{say_count(sum(summary.images for summary in summaries), 'image')} of "
            f"{say_count(sum(summary.cuts for summary in summaries), 'cut')}; "
            f"{say_count(sum(summary.void for summary in summaries), 'trial')} void or failed.",
        ),
        what_would_help=(
            "More rounds: where none of n cuts failed, less than 3/n of all cuts do, with 95 % confidence; "
            "more images of one cut prove no more.",
        ),
        overview=outcome_figures(run, cells, analysis, summaries),
        sections=sections,
    )
    return lay_out(words, run, trials, analysis, body)


def outcome_figures(
    run: Run, cells: Cells, analysis: Analysis, summaries: Sequence[CutSummary]
) -> tuple[Figure, ...]:
    """What servers made of the images; nothing without power cuts."""
    if not summaries:
        return ()
    return FigureMaker(run, analysis).figure(
        "outcomes",
        "What did servers make of what the power cuts left?",
        "Numbers in a bar are images. Durability class: " + symbol_key() + ".",
        outcomes(cells, summaries),
    )


def cut_sections(
    run: Run,
    trials: Sequence[Trial],
    cells: Cells,
    analysis: Analysis,
    summaries: Sequence[CutSummary],
    bars: Sequence[Block] = (),
) -> tuple[Section, ...]:
    """The ``bars``, then what survives, what is lost, and the cases; nothing without power cuts."""
    if not summaries:
        return ()
    windows = FigureMaker(run, analysis).figure(
        "losses",
        "How old is the oldest commit that a power cut loses?",
        "Circle: a cut; diamond: the median; bar: the bound for asynchronous commits, 3 x wal_writer_delay.",
        losses(cells, summaries),
    )
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

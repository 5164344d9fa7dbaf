"""What studies of standbys have in common: CPU of the startup process instead of throughput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walproof.analysis.summary import Analysis
from walproof.facts import Run, Trial
from walproof.report.answer import Answer, how_sure, what_would_help
from walproof.report.blocks import Block, Section
from walproof.report.cells import Cells
from walproof.report.kinds.comparison import factor_figure, install_figure, variant_figure
from walproof.report.kinds.streaming.tables import beside_published
from walproof.report.layout import Body, FigureMaker, ReportView, certainty_section, lay_out
from walproof.report.results import factor_tables, install_table
from walproof.report.words import KindWords


@dataclass(frozen=True, slots=True)
class StandbyParts:
    """What differs between replay of fixed WAL and that of a live stream."""

    answers: tuple[Answer, ...]
    starved: tuple[str, ...]
    results: Sequence[Block]
    lag: Sequence[Block] = ()
    syscalls: Sequence[Block] = ()
    profile: Sequence[Block] = ()


def standby_view(
    words: KindWords[Any], run: Run, trials: Sequence[Trial], analysis: Analysis, parts: StandbyParts
) -> ReportView:
    """The report of a study whose standbys replay."""
    cells = Cells(run.plan, trials)
    make = FigureMaker(run, analysis)
    overview = variant_figure(
        make,
        cells,
        analysis,
        f"How much CPU does replaying a row take, relative to {run.plan.baseline}?",
        ". Less is faster. The line at 1x is the baseline.",
    )
    factors = factor_figure(
        make, cells, analysis, "What does each factor do to replay, and which act together?"
    )
    installs = install_figure(make, cells, analysis, "Does the PostgreSQL version matter to replay?")
    sections = (
        Section("results", "Results", tuple(parts.results)),
        Section("lag", "How far behind", tuple(parts.lag)),
        Section("published", "Beside the published figures", tuple(beside_published(cells))),
        Section("factors", "Factors", (*factors, *factor_tables(cells, analysis))),
        Section("installs", "Installs", (*installs, *install_table(cells, analysis))),
        Section("syscalls", "System calls", tuple(parts.syscalls)),
        Section("profile", "Where the CPU goes", tuple(parts.profile)),
        certainty_section(cells, trials, analysis),
    )
    body = Body(
        answers=parts.answers,
        how_sure=(*how_sure(run, analysis, ()), *parts.starved),
        what_would_help=what_would_help(run.plan, trials, analysis),
        overview=overview,
        sections=sections,
    )
    return lay_out(words, run, trials, analysis, body)

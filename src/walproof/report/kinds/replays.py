"""A study of replay: CPU of the startup process instead of throughput."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.summary import Analysis
from walproof.facts import Run, Series, Trial
from walproof.report.answer import how_sure, what_would_help
from walproof.report.blocks import Section
from walproof.report.cells import Cells
from walproof.report.figures.flame import describe_flames, flames
from walproof.report.figures.lag import describe_lag, lag
from walproof.report.figures.style import symbol_key
from walproof.report.kinds.comparison import factor_figure, install_figure, variant_figure
from walproof.report.layout import Body, FigureMaker, ReportView, certainty_section, lay_out
from walproof.report.profile import profile_tables
from walproof.report.replay import (
    replay_answers,
    replay_tables,
    starved_sentences,
    syscall_tables,
)
from walproof.report.results import factor_tables, install_table
from walproof.report.streaming import beside_published, lag_tables, streaming_answers, streaming_tables


def replay_view(
    run: Run, trials: Sequence[Trial], series: Sequence[Series], analysis: Analysis
) -> ReportView:
    """The report of a study whose standbys replay, recorded WAL or a live stream: CPU of the startup process
    instead of throughput."""
    cells = Cells(run.plan, trials)
    is_live = run.plan.streaming is not None
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
    behind = make.figure(
        "lag",
        "How far is the standby behind, and where is the WAL meanwhile?",
        "Of each variant the trial whose largest lag is the median. Dashed: the load ends. Panels of a group "
        "share their axes. Durability class: " + symbol_key() + ".",
        lag(cells, series),
        describe_lag,
    )
    profile = make.figure(
        "flames",
        "What does the startup process spend its CPU on?",
        "A box is a function, as wide as its share of the samples; what stands on it was called by it.",
        flames(cells),
        describe_flames,
    )
    results = streaming_tables(cells, analysis) if is_live else replay_tables(cells, analysis)
    sections = (
        Section("results", "Results", tuple(results)),
        Section("lag", "How far behind", (*behind, *(lag_tables(cells) if is_live else ()))),
        Section("published", "Beside the published figures", tuple(beside_published(cells))),
        Section("factors", "Factors", (*factors, *factor_tables(cells, analysis))),
        Section("installs", "Installs", (*installs, *install_table(cells, analysis))),
        Section("syscalls", "System calls", tuple(syscall_tables(cells))),
        Section("profile", "Where the CPU goes", (*profile, *(() if is_live else profile_tables(cells)))),
        certainty_section(cells, trials, analysis),
    )
    body = Body(
        answers=(streaming_answers if is_live else replay_answers)(cells, analysis),
        how_sure=(*how_sure(run, analysis, ()), *starved_sentences(cells)),
        what_would_help=what_would_help(run.plan, trials, analysis),
        overview=overview,
        sections=sections,
    )
    return lay_out(run, trials, analysis, body)

"""A study of loading: rows a second until the table is complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walproof.analysis.summary import Analysis
from walproof.facts import Run, Trial
from walproof.report.answer import how_sure, what_would_help
from walproof.report.blocks import Section
from walproof.report.cells import Cells
from walproof.report.kinds.comparison import install_figure, variant_figure
from walproof.report.kinds.loading.curve import load_curves
from walproof.report.kinds.loading.tables import (
    busy_tables,
    load_answers,
    load_published_tables,
    load_tables,
    part_tables,
    risk_tables,
    sweep_tables,
)
from walproof.report.layout import Body, FigureMaker, ReportView, certainty_section, lay_out
from walproof.report.results import install_table
from walproof.report.words import KindWords


def load_view(words: KindWords[Any], run: Run, trials: Sequence[Trial], analysis: Analysis) -> ReportView:
    """The report of a study whose trials fill a table: rows a second until it is complete."""
    cells = Cells(run.plan, trials)
    make = FigureMaker(run, analysis)
    overview = variant_figure(
        make,
        cells,
        analysis,
        f"How fast is the table complete, relative to {run.plan.baseline}?",
        ". Colour and heading: durability class during the load. The line at 1x is the baseline.",
    )
    curves = make.figure(
        "curves",
        "How large need a batch be, and how many sessions help?",
        "Filled: median over trials; hollow: a trial. Knee: the smallest value within 5 % of the best.",
        load_curves(cells),
    )
    installs = install_figure(make, cells, analysis, "Does the PostgreSQL version matter to loading?")
    sections = (
        Section("results", "Results", (*load_tables(cells, trials, analysis), *busy_tables(cells))),
        Section("curves", "Batches and sessions", (*curves, *sweep_tables(cells, trials))),
        Section("parts", "What is put off", tuple(part_tables(cells))),
        Section("risk", "Durability", tuple(risk_tables(cells))),
        Section("published", "Beside the published figures", tuple(load_published_tables(cells))),
        Section("installs", "Installs", (*installs, *install_table(cells, analysis))),
        certainty_section(cells, trials, analysis),
    )
    body = Body(
        answers=load_answers(cells, trials, analysis),
        how_sure=how_sure(run, analysis, ()),
        what_would_help=what_would_help(run.plan, trials, analysis),
        overview=overview,
        sections=sections,
    )
    return lay_out(words, run, trials, analysis, body)

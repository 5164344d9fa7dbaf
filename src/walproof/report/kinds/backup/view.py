"""A study of backup: what it costs, how large it is, how long until back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from walproof.analysis.summary import Analysis, analyse
from walproof.facts import Run, Series, Trial
from walproof.facts.kinds import BackupConditions
from walproof.report.answer import how_sure, what_would_help
from walproof.report.blocks import Section
from walproof.report.cells import Cells
from walproof.report.figures.ratios import variant_ratios
from walproof.report.kinds.backup.answers import KEPT, SIZE, backup_answers
from walproof.report.kinds.backup.tables import BACKUP_METRIC, back_tables, backup_tables, load_tables
from walproof.report.kinds.comparison import install_figure, variant_figure
from walproof.report.kinds.throughput.seconds import seconds
from walproof.report.layout import Body, FigureMaker, ReportView, certainty_section, lay_out
from walproof.report.results import install_table
from walproof.report.words import KindWords


def backup_view(
    words: KindWords[Any], run: Run, trials: Sequence[Trial], series: Sequence[Series], analysis: Analysis
) -> ReportView:
    """The report of a study whose trials take a base backup and restore it."""
    plan = run.plan
    cells = Cells(plan, trials)
    analyses = {BACKUP_METRIC: analysis, **{metric: analyse(plan, trials, metric) for metric in (SIZE, KEPT)}}
    loaded = tuple(variant for variant in plan.variants if variant.conditions_as(BackupConditions).is_loaded)
    make = FigureMaker(run, analysis)
    overview = variant_figure(
        make,
        cells,
        analysis,
        f"How long until a server is back, relative to {plan.baseline}?",
        ". Less is sooner. Colour and heading: durability class. The line at 1x is the baseline.",
    )
    sizes = make.figure(
        "sizes",
        f"How large is the backup, relative to {plan.baseline}?",
        "As above. An incremental backup is of no use without the full one before it, which is not counted.",
        variant_ratios(cells, analyses[SIZE]),
    )
    lengths = make.figure(
        "lengths",
        f"How long does taking it last, relative to {plan.baseline}?",
        "As above.",
        variant_ratios(cells, analyse(plan, trials, "backup_s")),
    )
    kept = make.figure(
        "kept",
        f"How much of its throughput does the load keep meanwhile, relative to {plan.baseline}?",
        "As above; variants whose load pauses are not in it.",
        # The others have no throughput that could be compared.
        variant_ratios(Cells(replace(plan, variants=loaded), trials), analyses[KEPT])
        if plan.variant(plan.baseline) in loaded
        else None,
    )
    by_second = make.figure(
        "seconds",
        "What does the load feel, second by second?",
        "Line: median over trials; band: lowest to highest. The backup begins where the load before it ends: "
        + "; ".join(f"{workload.name}, second {workload.duration_s:g}" for workload in plan.workloads)
        + ". Each panel has its own axis from 0.",
        seconds(cells, series),
    )
    installs = install_figure(make, cells, analysis, "Does the PostgreSQL version matter to the way back?")
    sections = (
        Section("results", "Results", (*backup_tables(cells, analysis), *sizes, *lengths)),
        Section("load", "What the load feels", (*kept, *by_second, *load_tables(cells))),
        Section("back", "The way back", tuple(back_tables(cells))),
        Section("installs", "Installs", (*installs, *install_table(cells, analysis))),
        certainty_section(cells, trials, analysis),
    )
    body = Body(
        answers=backup_answers(cells, analyses),
        how_sure=how_sure(run, analysis, ()),
        what_would_help=what_would_help(plan, trials, analysis),
        overview=overview,
        sections=sections,
    )
    return lay_out(words, run, trials, analysis, body)

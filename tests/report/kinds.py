"""A report of each kind from stored facts, and pages about WAL: what charts and terminals have to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.analysis.test_whatif import make as make_whatif
from tests.report.facts import durability, factorial_facts, hostile_facts, two_installs_facts
from tests.report.test_load import load_facts
from tests.report.test_power_cut import cut_run
from tests.report.test_profile import STACKS, profile_view
from tests.report.test_statements import statement_run
from tests.report.test_streaming import streaming_facts
from tests.report.test_time_away import crash_view
from walproof.report.blocks import Section
from walproof.report.figures.figure import Figure, FigureData
from walproof.report.figures.narrowing import NarrowingData, NarrowingPoint
from walproof.report.figures.run_ratios import RunMark, RunPanel, RunRatioData, RunRow
from walproof.report.figures.run_trend import TrendChange, TrendData, TrendPoint
from walproof.report.kinds.throughput.writers import WRITERS
from walproof.report.layout import ReportView
from walproof.report.view import build_view
from walproof.report.wal.rows import By
from walproof.report.wal.view import wal_view
from walproof.report.wal.whatif import whatif_view
from walproof.settings.durability import DurabilityClass
from walproof.wal import WalStats


def every_report() -> list[ReportView]:
    """A report of each kind."""
    stored = (durability(), factorial_facts(), two_installs_facts(), hostile_facts())
    return [
        *(build_view(run.run, run.trials, run.series) for run in stored),
        build_view(*load_facts()),
        build_view(*cut_run()),
        build_view(*statement_run()),
        build_view(*streaming_facts(50_000.0, 2.4, 3.0)),
        crash_view(),
        profile_view({f"profile_perf.{stack}": count for stack, count in STACKS.items()}),
        _writers_view(),
    ]


def every_page(wal: WalStats) -> list[Sequence[Section]]:
    """Sections of pages about that WAL, stretched over an hour, and of one about other settings."""
    first = wal.minutes[0]
    hour = tuple(replace(first, start_at=first.start_at + 60 * minute) for minute in range(60))
    long = replace(wal, minutes=hour)
    return [*(wal_view(long, by).sections for by in By), whatif_view(make_whatif()).sections]


def every_figure(wal: WalStats) -> list[Figure]:
    """The figures of all of them, with ids of their own."""
    reports = every_report()
    found = [figure for view in reports for figure in view.overview]
    for sections in (*(view.sections for view in reports), *every_page(wal)):
        found += [block for section in sections for block in section.blocks if isinstance(block, Figure)]
    found += [Figure(type(data).__name__, "?", "", "", "", data) for data in _of_several_runs()]
    return [replace(figure, id=f"{figure.id}-{number}") for number, figure in enumerate(found)]


def _of_several_runs() -> list[FigureData]:
    """Charts of the page that no report has."""
    runs = ("2026-11-20 18.4", "2026-11-21 19rc1")
    marks = tuple(RunMark(run, 1.5, 1.4, 1.6, "1.50x") for run in runs)
    row = RunRow("synchronous_commit=off", DurabilityClass.LAST_COMMITS, marks)
    points = tuple(
        TrendPoint(86_400.0 * day, f"r{day}", runs[day % 2], 1.5, 1.4, 1.6, "1.50x") for day in range(4)
    )
    narrowing = tuple(NarrowingPoint(n, "synchronous_commit=off", 0.2 / n) for n in range(2, 6))
    return [
        RunRatioData("throughput relative to the baseline (x)", runs, (RunPanel("scale 10", (row, row)),)),
        TrendData(
            "throughput / default (x)",
            points,
            (TrendChange(86_400.0, 172_800.0, "-8.1 % (-9.0 % to -7.2 %)"),),
        ),
        NarrowingData(narrowing, 0.05),
    ]


def _writers_view() -> ReportView:
    """A study of compression that counts the bytes of every process."""
    facts = factorial_facts()
    written = {f"write_bytes.{kind}": 1e6 * place for place, kind in enumerate(WRITERS, start=1)}
    trials = [replace(trial, metrics={**trial.metrics, **written}) for trial in facts.trials]
    return build_view(facts.run, trials, facts.series)

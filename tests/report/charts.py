"""Every kind of chart, as reports from stored facts have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.analysis.test_whatif import make as make_whatif
from tests.report.facts import durability, factorial_facts, hostile_facts, two_installs_facts
from tests.report.test_load import load_facts
from tests.report.test_power_cut import cut_run
from tests.report.test_profile import STACKS, profile_view
from tests.report.test_recovery import crash_view
from tests.report.test_statements import statement_run
from tests.report.test_streaming import streaming_facts
from walproof.report import ReportView, build_view
from walproof.report.blocks import Section
from walproof.report.figures.figure import Figure
from walproof.report.figures.writers import WRITERS
from walproof.report.wal import By, wal_view
from walproof.report.wal.whatif import whatif_view
from walproof.wal import WalStats


def every_figure(wal: WalStats) -> list[Figure]:
    """Figures of a report of each kind, with ids of their own; ``wal`` gives those of a page about WAL."""
    stored = (durability(), factorial_facts(), two_installs_facts(), hostile_facts())
    views = [build_view(one.run, one.trials, one.series) for one in stored]
    views += [
        build_view(*load_facts()),
        build_view(*cut_run()),
        build_view(*statement_run()),
        build_view(*streaming_facts(50_000.0, 2.4, 3.0)),
        crash_view(),
        profile_view({f"profile_perf.{stack}": count for stack, count in STACKS.items()}),
        _writers_view(),
    ]
    found = [figure for view in views for figure in (*view.overview, *_figures(view.sections))]
    first = wal.minutes[0]
    hour = tuple(replace(first, start_at=first.start_at + 60 * minute) for minute in range(60))
    for page in (wal_view(replace(wal, minutes=hour), By.relation), whatif_view(make_whatif())):
        found += _figures(page.sections)
    return [replace(figure, id=f"{figure.id}-{number}") for number, figure in enumerate(found)]


def _writers_view() -> ReportView:
    """A study of compression that counts the bytes of every process."""
    facts = factorial_facts()
    written = {f"write_bytes.{kind}": 1e6 * place for place, kind in enumerate(WRITERS, start=1)}
    trials = [replace(one, metrics={**one.metrics, **written}) for one in facts.trials]
    return build_view(facts.run, trials, facts.series)


def _figures(sections: Sequence[Section]) -> Iterator[Figure]:
    return (block for section in sections for block in section.blocks if isinstance(block, Figure))

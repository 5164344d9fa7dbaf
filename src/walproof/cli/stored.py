"""From a stored run to its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from walproof.cli import options

if TYPE_CHECKING:
    from walproof.facts import Run
    from walproof.facts.store import Store
    from walproof.report.layout import ReportView


def view_of(run: Run, store: Store) -> ReportView:
    """The report on what ``store`` holds of the run."""
    from walproof.report.kinds.registry import report_kind
    from walproof.report.view import build_view

    return build_view(run, store.trials(run.id), store.series(run.id, report_kind(run.plan.kind).series))


def read_view(name: str, out: Path, url: str | None) -> ReportView:
    """The same for the run of that name. Raises StoreError."""
    from walproof.report.view import read_from

    store = options.open_existing_store(out, url)
    try:
        return read_from(view_of(store.run(name), store), options.place_words(out, url))
    finally:
        store.close()

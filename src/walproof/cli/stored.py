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
        return read_from(view_of(_run(name, store, out), store), options.place_words(out, url))
    finally:
        store.close()


def _run(name: str, store: Store, out: Path) -> Run:
    """The run of that name. Raises StoreError; for the name of a tuning, whose steps are runs, it says where
    the tuning's page is."""
    from walproof.errors import StoreError

    try:
        return store.run(name)
    except StoreError:
        from walproof.facts.tuning_journal import JOURNAL_FILE

        folder = out / "tunings" / name
        if not (folder / JOURNAL_FILE).is_file():
            raise
        raise StoreError(
            f'"{name}" is a tuning, not a run',
            detail=f"Its steps are runs: {name}-2 and so on.",
            hint=f'When it has ended its page is "{folder / "report.html"}". "walproof tune" with the same '
            'options shows its answer again, "walproof web" where it stands.',
        ) from None

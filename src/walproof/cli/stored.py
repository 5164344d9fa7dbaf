"""From a stored run, or a stored tuning, to its report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.cli import options

if TYPE_CHECKING:
    from walproof.facts import Run
    from walproof.facts.store import Store
    from walproof.report.layout import ReportView
    from walproof.report.tune.view import TuneView


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


def find_tuning(name: str, out: Path) -> Path | None:
    """Folder of the tuning of that name; None if there is none."""
    folder = out / "tunings" / name
    # Path.is_dir and Path.is_file raise OSError for a name that is too long and where nobody may look.
    if Path(name).name != name or not os.path.isdir(folder):  # noqa: PTH112
        return None
    from walproof.facts.tuning_journal import JOURNAL_FILE

    return folder if os.path.isfile(folder / JOURNAL_FILE) else None  # noqa: PTH113


def read_tuning(folder: Path, out: Path, url: str | None) -> TuneView:
    """The tuning of that folder as far as it has been answered; on stderr how far, if it goes on.

    Raises StoreError.
    """
    from walproof.errors import StoreError
    from walproof.facts.tuning_answers import tuning_facts
    from walproof.facts.tuning_journal import JournalFile
    from walproof.report.tune.kept import kept_answer
    from walproof.report.tune.stored import stored_view

    journal, kept = JournalFile(folder).read(), kept_answer(folder)
    view = None
    if journal is not None and kept is not None:
        store = options.open_existing_store(out, url)
        try:
            view = stored_view(tuning_facts(journal, store, None), kept)
        finally:
            store.close()
    if journal is None or view is None:
        raise StoreError(
            f'tuning "{folder.name}" has no answer yet',
            hint='"walproof web" shows where it stands. "walproof tune" with the same options goes on.',
        )
    if not journal.finished:
        sys.stderr.write(f'warning: tuning "{folder.name}" has not ended; this is its last answer\n')
    return view

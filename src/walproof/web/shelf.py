"""The store as the page reads it: opened once it exists, never made, and summed up run by run.

A summary takes the analysis of a run. A thread makes the summaries, newest run first, so that a list of a
thousand runs is shown at once and fills up. A summary is shown only while its run is as it was then: once
the run has another trial or has ended, the summary is made anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from walproof.errors import WalproofError
from walproof.facts import Request, RequestKind, Run
from walproof.facts.run import Extent
from walproof.facts.store import Store
from walproof.facts.tuning import TuningFacts
from walproof.facts.tuning_answers import tuning_facts
from walproof.facts.tuning_journal import Journal
from walproof.report.kinds.registry import report_kind
from walproof.report.layout import ReportView
from walproof.report.view import build_view, read_from
from walproof.web.course import RunCourse, course_of
from walproof.web.flights import Flight, flights
from walproof.web.listed import ListedRun
from walproof.web.summary import RunSummary, summarise

_NOTHING = Extent(0, 0, 0, None, None)


class Shelf:
    """Runs of one store. ``open_store`` returns None while the store does not exist."""

    def __init__(self, open_store: Callable[[], Store | None], shown: str, place: Sequence[str] = ()) -> None:
        """``place``: ``--out`` and ``--store`` for commands that are shown."""
        self.shown = shown
        """Name of the store, without secrets."""
        self._place = place
        self._open = open_store
        self._store: Store | None = None
        self._runs: dict[str, Run] = {}
        self._finished: dict[str, float | None] = {}
        self._summaries: dict[str, tuple[Extent, RunSummary]] = {}
        self._courses: dict[str, tuple[Extent, RunCourse]] = {}
        """The progress of the run that was asked for last."""
        self._wanted: dict[str, Extent] = {}
        self._lock = threading.Lock()
        self._wake = threading.Condition()
        self._is_over = False
        self._worker: threading.Thread | None = None
        self.version = 0
        """The number of summaries made."""

    @property
    def is_there(self) -> bool:
        """Whether there is a store with a run."""
        return bool(self.extents())

    def extents(self) -> Mapping[str, Extent]:
        """How much of each run is stored. Raises StoreError."""
        store = self._opened()
        return {} if store is None else store.extents()

    def listed(self) -> list[ListedRun]:
        """Every run, the newest first. Raises StoreError."""
        extents = self._refresh()
        runs = sorted(self._runs.values(), key=lambda run: (-run.created_at, run.id))
        found, wanted = [], {}
        for run in runs:
            extent = extents.get(run.id, _NOTHING)
            seen, summary = self._summaries.get(run.id, (None, None))
            if seen != extent:
                wanted[run.id] = extent
            found.append(ListedRun(run, extent, summary if seen == extent else None))
        self._want(wanted)
        return found

    @property
    def is_reading(self) -> bool:
        """Whether summaries are still to come."""
        with self._wake:
            return bool(self._wanted)

    def run(self, run_id: str) -> ListedRun | None:
        """The run with this whole id. Raises StoreError."""
        return next((entry for entry in self.listed() if entry.run.id == run_id), None)

    def view(self, run_id: str) -> ReportView | None:
        """The report on a run as it is stored now. Raises StoreError or AnalysisError."""
        self._refresh()
        store, run = self._opened(), self._runs.get(run_id)
        if store is None or run is None:
            return None
        series = store.series(run_id, report_kind(run.plan.kind).series)
        return read_from(build_view(run, store.trials(run_id), series), self._place)

    def course(self, run_id: str) -> RunCourse | None:
        """How a run has gone so far. Raises StoreError."""
        listed, store = self.run(run_id), self._opened()
        if listed is None or store is None:
            return None
        with self._lock:
            seen, course = self._courses.get(run_id, (None, None))
        if course is None or seen != listed.extent:
            course = course_of(listed, store.trials(run_id))
            with self._lock:
                self._courses = {run_id: (listed.extent, course)}
        return replace(course, listed=listed)

    def flights(self) -> list[Flight]:
        """Unfinished runs, and who carries them out. Raises StoreError."""
        store = self._opened()
        if store is None:
            return []
        return flights(store, {entry.run.id: entry for entry in self.listed()}, time.time())

    def tuning(self, journal: Journal) -> tuple[TuningFacts, ListedRun | None] | None:
        """What a tuning has measured, and the run of its present step if that has begun.

        None while the store does not exist. Raises StoreError.
        """
        store = self._opened()
        if store is None:
            return None
        found = tuning_facts(journal, store, None)
        pending = journal.pending
        study = "" if pending is None else f"{journal.name}-{pending.step.number}"
        begun = [entry for entry in self.listed() if entry.run.plan.study == study]
        return found, next((entry for entry in begun if entry.extent.finished_at is None), None)

    def ask(self, run_id: str, kind: RequestKind, rounds: int) -> Request | None:
        """Make a request to a run in progress; None if there is no such run.

        Raises StoreError for a request that no run would grant. Nothing else writes to the store.
        """
        store = self._opened()
        if store is None or run_id not in self.extents():
            return None
        return store.ask(run_id, kind, rounds)

    def summarised(self, run_id: str) -> ListedRun | None:
        """A run with its summary, which is made now if necessary. Raises StoreError."""
        found = self.run(run_id)
        store = self._opened()
        if found is None or store is None or found.summary is not None:
            return found
        return ListedRun(found.run, found.extent, self._summarise(store, found.run, found.extent))

    def close(self) -> None:
        """End the thread and release the store."""
        with self._wake:
            self._is_over = True
            self._wake.notify_all()
        if self._worker is not None:
            self._worker.join(timeout=2.0)
        if self._store is not None:
            self._store.close()

    def _opened(self) -> Store | None:
        with self._lock:
            if self._store is None:
                self._store = self._open()
            return self._store

    def _refresh(self) -> Mapping[str, Extent]:
        """Read plans again when a run was added or has ended; what was asked of runs, each time."""
        extents = self.extents()
        finished = {run_id: extent.finished_at for run_id, extent in extents.items()}
        with self._lock:
            if self._store is None:
                return extents
            if finished != self._finished:
                self._runs = {run.id: run for run in self._store.runs()}
                self._finished = finished
            asked = self._store.all_requests()
            self._runs |= {
                run.id: replace(run, requests=asked.get(run.id, ()))
                for run in self._runs.values()
                if run.requests != asked.get(run.id, ())
            }
        return extents

    def _want(self, wanted: dict[str, Extent]) -> None:
        with self._wake:
            self._wanted = wanted
            if not wanted or self._is_over:
                return
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="summaries", daemon=True)
                self._worker.start()
            self._wake.notify()

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._is_over or self._wanted)
                if self._is_over:
                    return
                run_id = next(iter(self._wanted))
                extent = self._wanted[run_id]
            run, store = self._runs.get(run_id), self._store
            if run is not None and store is not None:
                try:
                    self._summarise(store, run, extent)
                except Exception as error:  # a run that cannot be read does not hide the others
                    said = error.message if isinstance(error, WalproofError) else f"a defect: {error!r}"
                    self._summaries[run_id] = (extent, RunSummary("", (), (), "", (), said))
            with self._wake:
                # The list may have been asked for meanwhile, after another trial.
                if self._wanted.get(run_id) == extent:
                    del self._wanted[run_id]
                self.version += 1

    def _summarise(self, store: Store, run: Run, extent: Extent) -> RunSummary:
        summary = summarise(run, store.trials(run.id))
        self._summaries[run.id] = (extent, summary)
        return summary

"""What a run is asked by those who look at it: requests in the store, looked for between trials."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Protocol

from walproof.facts import Request, RequestKind, Run
from walproof.lab.schedule import Progress


class Requests(Protocol):
    """Where requests of a run are read and answered."""

    def requests(self, run_id: str) -> tuple[Request, ...]:
        """What was asked of the run, in that order."""

    def answer(self, run_id: str, request: Request, words: str, *, is_granted: bool) -> None:
        """Store what the run answers to a request that has no answer yet."""


class Hearing:
    """The requests of one run, from the moment at which a process begins to carry it out. A stop that was
    requested earlier is not granted: whoever gave the command again meant the run to go on. Rounds that were
    granted to an earlier process are still to be run."""

    def __init__(self, store: Requests, run: Run, progress: Progress) -> None:
        self._store, self._run, self._progress = store, run, progress
        self._answered: list[Request] = [
            request for request in run.requests if request.answered_at is not None
        ]
        self.is_stopped = run.stopped is not None
        """Whether no further trial may begin."""
        for request in store.requests(run.id):
            if request.kind is RequestKind.STOP and request.answered_at is None:
                self._answer(request, "the run was begun again after that", is_granted=False)

    @property
    def rounds_more(self) -> int:
        """Rounds beyond the plan's that were granted."""
        return replace(self._run, requests=tuple(self._answered)).rounds_more

    @property
    def trials_most(self) -> int:
        """How many trials there can be."""
        return replace(self._run, requests=tuple(self._answered)).trials_most

    def listen(self) -> None:
        """Grant or refuse what was asked since the last time. Raises StoreError."""
        for request in self._store.requests(self._run.id):
            if request.answered_at is not None:
                continue
            if request.kind is RequestKind.STOP:
                self.is_stopped = True
                self._answer(request, "the run ends here", is_granted=True)
            elif self._run.why_no_rounds is not None:
                self._answer(request, self._run.why_no_rounds, is_granted=False)
            else:
                count = (
                    "1 more round follows" if request.rounds == 1 else f"{request.rounds} more rounds follow"
                )
                self._answer(request, f"{count} after the planned ones", is_granted=True)

    def end(self) -> None:
        """Refuse requests that came too late, because the run has ended. Raises StoreError."""
        for request in self._store.requests(self._run.id):
            if request.answered_at is None:
                self._answer(request, "the run had ended", is_granted=False)

    def _answer(self, request: Request, words: str, *, is_granted: bool) -> None:
        self._store.answer(self._run.id, request, words, is_granted=is_granted)
        told = replace(request, answered_at=time.time(), is_granted=is_granted, words=words)
        self._answered.append(told)
        self._progress.request_heard(told, self.trials_most)

"""Trials of a run whose store is away: kept as files until it is back, then stored once each.

A file holds one trial with its series, whole or not at all. What a process kept before it ended is stored by
the next one that carries out the run. A trial that the store already has, because only its answer was lost,
is not stored again; nor is what the run has answered to a request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from walproof.errors import StoreAwayError, StoreError
from walproof.facts.codec import from_json, to_json
from walproof.facts.run import BegunTrial, Request, Series, Trial
from walproof.facts.store import Store
from walproof.files import private_folder, sync_folder, write_whole

_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class KeptTrial:
    """What a file holds."""

    run_id: str
    trial: Trial
    series: tuple[Series, ...]


class KeptTrials:
    """Stores trials as a `Store` does, and continues while the store is away."""

    def __init__(self, store: Store, folder: Path, patience_s: float) -> None:
        """``folder`` is this machine's own. ``patience_s``: how long the end of a run waits for the store."""
        self._store, self._folder, self._patience_s = store, folder, patience_s
        self._answers: list[tuple[str, Request, str, bool]] = []
        """Answers given while the store was away."""
        private_folder(folder)

    def trials(self, run_id: str) -> tuple[Trial, ...]:
        """Every trial of the run, including those that were kept before. Raises StoreError."""
        self._deliver(run_id)
        return self._store.trials(run_id)

    def begin_trial(self, run_id: str, begun: BegunTrial) -> None:
        """Store that a trial begins, unless the store is away. Raises StoreError."""
        with suppress(StoreAwayError):
            self._store.begin_trial(run_id, begun)

    def add_trial(self, run_id: str, trial: Trial, series: Sequence[Series] = ()) -> None:
        """Store a finished trial, or keep it. Raises StoreError."""
        if not self._files(run_id):
            try:
                self._store.add_trial(run_id, trial, series)
            except StoreAwayError:
                pass
            else:
                return
        finite = {name: value for name, value in trial.metrics.items() if math.isfinite(value)}
        kept = KeptTrial(run_id, replace(trial, metrics=finite), tuple(series))
        try:
            write_whole(self._folder / f"{run_id}.{trial.number:06d}.json", to_json(kept))
            sync_folder(self._folder)
        except OSError as error:
            raise StoreError(
                f'the store is away, and a trial could not be kept in "{self._folder}": {error.strerror}'
            ) from error
        with suppress(StoreAwayError):
            self._deliver(run_id)

    def requests(self, run_id: str) -> tuple[Request, ...]:
        """What was asked of the run; nothing while the store is away. Raises StoreError."""
        try:
            self._deliver_answers()
            return self._store.requests(run_id)
        except StoreAwayError:
            return ()

    def answer(self, run_id: str, request: Request, words: str, *, is_granted: bool) -> None:
        """Store what the run answers, or keep it until the store is back. Raises StoreError."""
        self._answers.append((run_id, request, words, is_granted))
        with suppress(StoreAwayError):
            self._deliver_answers()

    def finish_run(self, run_id: str) -> None:
        """Store that no round is missing, once all trials are stored. Raises StoreError."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                self._deliver(run_id)
                self._deliver_answers()
                if self._store.run(run_id).finished_at is None:
                    self._store.finish_run(run_id)
            except StoreAwayError as error:
                if time.monotonic() > deadline:
                    raise StoreAwayError(
                        error.message,
                        detail=f'{len(self._files(run_id))} trials are kept in "{self._folder}".',
                        hint="When the store is back, the same command stores them and continues.",
                    ) from None
                time.sleep(_LOOK_S)
            else:
                return

    def _deliver_answers(self) -> None:
        while self._answers:
            run_id, request, words, is_granted = self._answers[0]
            given = (request.number, words, is_granted)
            # Its own acknowledgement may be all that was lost.
            if given not in {
                (asked.number, asked.words, asked.is_granted)
                for asked in self._store.requests(run_id)
                if asked.answered_at is not None
            }:
                self._store.answer(run_id, request, words, is_granted=is_granted)
            del self._answers[0]

    def _files(self, run_id: str) -> list[Path]:
        return sorted(self._folder.glob(f"{run_id}.*.json"))

    def _deliver(self, run_id: str) -> None:
        files = self._files(run_id)
        if not files:
            return
        begun = {trial.number: trial.started_at for trial in self._store.trials(run_id)}
        for file in files:
            kept = from_json(KeptTrial, file.read_text(encoding="utf-8"))
            trial = kept.trial
            if trial.number not in begun:
                self._store.add_trial(run_id, trial, kept.series)
            elif begun[trial.number] != trial.started_at:
                raise StoreError(
                    f"run {run_id} was continued by another process while its store was away",
                    detail=f'Trial {trial.number} differs there from the one in "{file}".',
                    hint="Remove that file, and the same command continues with what is stored.",
                )
            file.unlink()

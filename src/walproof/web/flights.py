"""Who runs what now: runs that have not ended, whether a live process carries them out, and its trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from walproof.facts.run import BegunTrial
from walproof.facts.store import Store
from walproof.units import format_duration
from walproof.web.listed import ListedRun

_MOST = 100
"""The most unfinished runs that are looked at, the newest first."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A run that has not ended."""

    listed: ListedRun
    begun: BegunTrial | None
    """The trial that began last; None before the first, and for runs of an earlier walproof."""
    lives: bool
    """Whether a live process carries it out."""
    is_shared: bool
    """Whether processes on all machines would be seen."""
    now: float

    @property
    def host(self) -> str:
        """The host's name if several machines carry out the same plan, otherwise what the machine is."""
        host = self.listed.run.environment.facts.get("host", "")
        return host or self.listed.machine or "unknown"

    @property
    def trial(self) -> BegunTrial | None:
        """The trial in progress; None between two trials, and without a live process."""
        begun = self.begun
        is_open = begun is not None and begun.number > self.listed.extent.trials
        return begun if self.lives and is_open else None

    @property
    def since(self) -> str:
        """How long the trial has been in progress."""
        trial = self.trial
        return "" if trial is None else format_duration(max(0.0, self.now - trial.began_at))

    @property
    def word(self) -> str:
        """In a word or two, whether it is being carried out."""
        if self.lives:
            return "runs"
        return "interrupted" if self.is_shared else "no process of this machine"

    @property
    def sentence(self) -> str:
        """The same as a sentence, for the page of the run."""
        if self.lives:
            return "A process carries it out: it holds the lock of the run."
        where = "No process" if self.is_shared else "No process of this machine"
        return (
            f"{where} carries it out: nobody holds the lock of the run. "
            "The same command continues where it stopped."
        )


def flights(store: Store, listed: Mapping[str, ListedRun], now: float) -> list[Flight]:
    """The unfinished runs of ``listed``, which is by id: live ones first, by host. Raises StoreError."""
    unfinished = [entry for entry in listed.values() if entry.extent.finished_at is None][:_MOST]
    ids = [entry.run.id for entry in unfinished]
    lives, begun = (store.claimed(ids), store.begun(ids)) if ids else (frozenset[str](), {})
    found = [
        Flight(entry, begun.get(entry.run.id), entry.run.id in lives, store.is_shared, now)
        for entry in unfinished
    ]
    return sorted(found, key=lambda flight: (not flight.lives, flight.host, -flight.listed.run.created_at))

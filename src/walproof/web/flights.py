"""Who runs what now: runs that have not ended, whether a process lives that carries them out, its trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from walproof.facts.run import BegunTrial
from walproof.facts.store import Store
from walproof.units import format_duration
from walproof.web.listed import ListedRun

_MOST = 100
"""Runs that have not ended; of a store with more, the newest are looked at."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A run that has not ended."""

    listed: ListedRun
    begun: BegunTrial | None
    """The trial that was begun last; None of runs of an earlier walproof, and before the first."""
    lives: bool
    """Whether a process carries it out."""
    is_shared: bool
    """Whether processes of every machine would be seen."""
    now: float

    @property
    def host(self) -> str:
        """Among several machines that carry out the same plan; else what the machine is."""
        host = self.listed.run.environment.facts.get("host", "")
        return host or self.listed.machine or "unknown"

    @property
    def trial(self) -> BegunTrial | None:
        """The one that goes on; None between two, and where no process lives."""
        begun = self.begun
        is_open = begun is not None and begun.number > self.listed.extent.trials
        return begun if self.lives and is_open else None

    @property
    def since(self) -> str:
        """For how long the trial goes on."""
        trial = self.trial
        return "" if trial is None else format_duration(max(0.0, self.now - trial.began_at))

    @property
    def word(self) -> str:
        """Whether it lives."""
        if self.lives:
            return "runs"
        return "interrupted" if self.is_shared else "no process of this machine"

    @property
    def sentence(self) -> str:
        """The same for the page of the run."""
        if self.lives:
            return "A process carries it out: it holds the lock of the run."
        where = "No process" if self.is_shared else "No process of this machine"
        return (
            f"{where} carries it out: nobody holds the lock of the run. "
            "The same command goes on where it stopped."
        )


def flights(store: Store, listed: Mapping[str, ListedRun], now: float) -> list[Flight]:
    """Of these runs, by id, those that have not ended: first those that live, by host. Raises StoreError."""
    unfinished = [entry for entry in listed.values() if entry.extent.finished_at is None][:_MOST]
    ids = [entry.run.id for entry in unfinished]
    lives, begun = (store.claimed(ids), store.begun(ids)) if ids else (frozenset[str](), {})
    found = [
        Flight(entry, begun.get(entry.run.id), entry.run.id in lives, store.is_shared, now)
        for entry in unfinished
    ]
    return sorted(found, key=lambda flight: (not flight.lives, flight.host, -flight.listed.run.created_at))

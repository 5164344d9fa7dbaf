"""A tuning's journal: what was asked and which run answered. Each tuning has its own folder.

TUNINGS/NAME/tuning.json     this journal; measured values are in the runs that it names
TUNINGS/NAME/recording/      WAL of the load under the default
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from walproof.errors import StoreError
from walproof.facts.codec import from_json, to_data, to_json
from walproof.facts.tuning import Step, TuningPlan
from walproof.files import private_folder, write_whole

JOURNAL_FILE, RECORDING_FOLDER = "tuning.json", "recording"
JOURNAL_FORMAT = 1


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """The recording of the load."""

    metrics: Mapping[str, float]
    """Metrics of its window."""
    settings: Mapping[str, str]
    """Settings of the recorded server, over its defaults."""
    start_lsn: int
    """Insert position before the load began."""
    load_s: float
    """Length of the load, warm-up included."""
    before_s: float = 0.0
    """Wall time from the copy of the tables to the server that takes the load; 0 in older journals."""


@dataclass(frozen=True, slots=True)
class HostRun:
    """The run of a step on a host."""

    host: str
    run: str


@dataclass(frozen=True, slots=True)
class StepTaken:
    """A step that was asked for, and the runs that answer it."""

    step: Step
    run: str | None = None
    """Id of the run that answers it, over hosts the first host's; None for the recording or if unfinished."""
    seconds: float = 0.0
    """Wall time of all attempts, as far as known."""
    finished: bool = False
    hosts: tuple[HostRun, ...] = ()
    """Over hosts: the run of each host that finished."""

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of the runs of all hosts, or of this machine."""
        return tuple(host_run.run for host_run in self.hosts) or (() if self.run is None else (self.run,))


@dataclass(frozen=True, slots=True)
class Journal:
    """A tuning as far as it has come."""

    name: str
    """``tune-shop-1a2b3c4d``."""
    plan: TuningPlan
    load: str
    """Name of the load."""
    command: tuple[str, ...]
    """Command that resumes the tuning."""
    install: str
    """Label of the PostgreSQL install."""
    device: str | None
    recorded: RecordedFacts | None = None
    steps: tuple[StepTaken, ...] = ()
    notes: tuple[str, ...] = ()
    finished: bool = False
    format: int = field(default=JOURNAL_FORMAT)
    asking_s: float = 0.0
    """Wall time between steps: judging configurations, choosing what to measure, making answers."""
    answer_s: float = 0.0
    """The longest that making an answer took, but the first: so much time is left for the last one."""

    @property
    def pending(self) -> StepTaken | None:
        """The step that was asked for and has no answer yet."""
        return next((step for step in self.steps if not step.finished), None)

    @property
    def spent_s(self) -> float:
        """Wall time of all steps and of what was computed between them."""
        return sum(step.seconds for step in self.steps) + self.asking_s

    def asked(self, step: Step) -> Journal:
        """The journal with one more step."""
        return replace(self, steps=(*self.steps, StepTaken(step)))

    def without(self, step: Step) -> Journal:
        """The journal without a step that cannot be carried out."""
        return replace(
            self, steps=tuple(earlier for earlier in self.steps if earlier.step.number != step.number)
        )

    def changed(self, taken: StepTaken) -> Journal:
        """The journal with this step replaced."""
        return replace(
            self,
            steps=tuple(
                taken if earlier.step.number == taken.step.number else earlier for earlier in self.steps
            ),
        )


def tuning_name(load: str, plan: TuningPlan, others: Sequence[str]) -> str:
    """Name of a tuning: the load's name, and a hash of everything that the tuning depends on."""
    text = json.dumps([to_data(plan), *others], sort_keys=True)
    return f"tune-{load}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


class JournalFile:
    """The journal on disk: written whole after each change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / JOURNAL_FILE

    @property
    def recording(self) -> Path:
        """Folder of the recorded WAL."""
        return self.folder / RECORDING_FOLDER

    def read(self) -> Journal | None:
        """The journal; None if there is none. Raises StoreError."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f'could not read "{self.path}": {error}') from error
        return from_json(Journal, text)

    def write(self, journal: Journal) -> Journal:
        """Write the journal and return it. Raises StoreError."""
        try:
            private_folder(self.folder)
            write_whole(self.path, to_json(journal) + "\n")
        except OSError as error:
            raise StoreError(
                f'could not write "{self.path}": {error.strerror}', hint="Name another folder with --out."
            ) from error
        return journal


def journal_file(tunings: Path, name: str, *, new: bool, taken: Collection[str] = ()) -> JournalFile:
    """The journal of a tuning in that folder: the last one that was begun under the name, or else a file that
    is not there yet.

    ``new``: never one that was begun. ``taken``: names of tunings whose runs are stored; those without a
    journal here are somebody else's, or were given up. ``NAME-2`` follows a name that cannot be used.
    """
    files = (JournalFile(tunings / (name if number == 1 else f"{name}-{number}")) for number in count(1))
    begun = None
    for file in files:
        if file.path.exists():
            begun = file
        elif file.folder.name not in taken:
            break
    return file if new or begun is None else begun

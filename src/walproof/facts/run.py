"""The facts of a run: what happened (Trial, Series), on what (Environment), and what was asked (Run.plan).

These frozen values are the narrow waist of walproof. Everything that touches a server writes them;
everything that concludes something is a function of them. They know nothing of storage or of servers.

Names of metrics and series carry their unit last (``latency_ms_p99``, ``wal_bytes``); a dot separates a
breakdown (``wait_share.IO:WalSync``, ``cpu_s.checkpointer``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from walproof.facts.plan import Cell, Plan


class ImageState(Enum):
    """What a server made of one state of the disk, from the best to the worst."""

    CLEAN = "clean"
    BENIGN = "benign"
    """A page of a visibility or free space map fails its checksum; the server repairs it."""
    LOST = "lost last commits"
    """The newest acknowledged commits are gone, all older ones are there."""
    HOLES = "holes"
    """Acknowledged commits are gone while later ones are there."""
    CORRUPT = "corrupt"
    """It runs with wrong data: a checksum, an index, an invariant, or an error while reading."""
    NO_START = "does not start"

    @property
    def is_sound(self) -> bool:
        """Whether nothing acknowledged is gone, and nothing is damaged except what the server repairs."""
        return self in (ImageState.CLEAN, ImageState.BENIGN)

    @property
    def is_failure(self) -> bool:
        """Whether only a dangerous setting may lead to it: more is wrong than the last commits."""
        return self in (ImageState.HOLES, ImageState.CORRUPT, ImageState.NO_START)


@dataclass(frozen=True, slots=True)
class CheckedImage:
    """One state that the disk could have been left in, and what a server made of it."""

    number: int
    """Number within its trial, from 1."""
    seed: int
    survival: str
    """What survived: ``random 0.5 of 512 B``, ``by age, 4 KiB``, ``nothing unflushed``."""
    state: ImageState
    reason: str | None
    """What is wrong, in one line."""
    torn_pages: int
    """Pages of relations whose checksum was wrong before recovery; 0 where the cluster has no checksums."""
    lost_commits: int
    loss_window_ms: float | None
    """Time from the acknowledgement of the oldest lost commit to the cut; None when no commit is lost."""
    check_s: float
    """Time to build, recover and check it."""
    kept: str | None = None
    """Folder in which it was kept."""


@dataclass(frozen=True, slots=True)
class CutFacts:
    """One power cut: when it came, what was promised before it, and what was left of that."""

    seed: int
    moment: str
    """``wal flush 812``: the 812th since the load began; ``time 3 s`` if no such moment came before."""
    pace: str
    """``busy``: sessions at full speed, and checkpoints; ``trickle``: one that thinks between commits."""
    acknowledged: int
    """Commits that clients had been told of."""
    load_s: float
    undo_bytes_max: int
    """Most bytes of old contents that were kept: the memory that the simulation took."""
    checkpoints: int
    """Checkpoints that ended before the cut."""
    unflushed: tuple[str, ...]
    """Files that the last two checkpoints should have flushed and did not, by the fsync audit."""
    images: tuple[CheckedImage, ...]

    @property
    def is_audited(self) -> bool:
        """Whether there were the two checkpoints that the fsync audit needs."""
        return self.checkpoints > 1

    @property
    def counts(self) -> Mapping[ImageState, int]:
        """Images by state; every state is named, from the best to the worst."""
        return {state: sum(image.state is state for image in self.images) for state in ImageState}


@dataclass(frozen=True, slots=True)
class Slice:
    """A short stretch of load of one variant, build or version of the load."""

    number: int
    """Order in its trial, from 1."""
    pass_number: int
    """From 1."""
    position: int
    """Number within its pass, from 1."""
    variant: str
    """Or the workload, or the label of the install, where servers of these take turns."""
    predecessor: str | None
    """The same of the slice before it; None for the first."""
    began_at: float
    """When its first LSN was read."""
    ended_at: float
    lsn_begin: int
    """WAL insert position."""
    lsn_end: int
    transactions: int
    """Transactions that ended within it."""
    latency_ms_sum: float
    """Sum over those transactions; 0 where the load is stopped between slices, because its clock
    continues."""
    latency_ms_p50: float | None
    latency_ms_p95: float | None
    latency_ms_p99: float | None
    cpu_s: float | None
    """CPU time of all processes of the server; None where it cannot be read."""

    @property
    def length_s(self) -> float:
        """Seconds from begin to end."""
        return self.ended_at - self.began_at


class TrialState(Enum):
    """How a trial ended. A trial that was interrupted is not stored: it is run again."""

    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one variant, as it happened."""

    number: int
    """Order in the run, from 1."""
    round: int
    """From 1."""
    install: str
    workload: str
    variant: str
    state: TrialState
    started_at: float
    """Unix time in seconds, as every time in the facts."""
    ended_at: float
    window_start: float | None
    window_s: float | None
    metrics: Mapping[str, float]
    settings: Mapping[str, str]
    """pg_settings that differed from their boot values while the trial ran (setting with unit)."""
    warnings: tuple[str, ...] = ()
    reason: str | None = None
    """Why it failed, in one line."""
    server_log: str | None = None
    """Last lines of the server's log, when it failed."""
    cut: CutFacts | None = None
    """Its power cut, when the plan has them."""
    slices: tuple[Slice, ...] = ()
    """Slices of a start whose variants are toggled or take turns, in their order."""

    @property
    def cell(self) -> Cell:
        """The cell that it is a trial of."""
        return Cell(self.install, self.workload, self.variant)


def next_round_s(trials: Sequence[Trial]) -> float:
    """How long another round takes, in seconds: as long as the longest so far. The first counts only where
    there is no other, because it may prepare what later ones use."""
    lengths: dict[int, float] = {}
    for trial in trials:
        lengths[trial.round] = lengths.get(trial.round, 0.0) + trial.ended_at - trial.started_at
    if len(lengths) > 1:
        del lengths[min(lengths)]
    return max(lengths.values(), default=0.0)


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one quantity over one trial's window."""

    trial: int
    name: str
    t_s: tuple[float, ...]
    """Seconds since the window opened."""
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Environment:
    """What the run ran on."""

    facts: Mapping[str, str]
    """Ordered ``name -> text``: cpu, cores, memory_bytes, kernel, filesystem, disk, flush rate, ..."""
    installs: Mapping[str, Mapping[str, str]]
    """Install label -> version text, configure options, and the like."""
    flush_rates: Mapping[str, float | None] = field(default_factory=dict)
    """wal_sync_method -> flushes a second of one 8 kB write (pg_test_fsync); None where the platform lacks
    it. Empty when the plan did not ask."""


class RequestKind(Enum):
    """What may be asked of a run while it is under way."""

    STOP = "stop"
    """End after the present trial."""
    ROUNDS = "rounds"
    """Add rounds after those of the plan."""


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked of a run, and what the run answered. Runs hear requests between trials."""

    number: int
    """Within the run, from 1."""
    kind: RequestKind
    rounds: int
    """Number of rounds to add; 0 for a stop."""
    asked_at: float
    answered_at: float | None = None
    """Unix time of the answer; None while the run has not heard the request."""
    is_granted: bool = False
    words: str = ""
    """Words of the answer."""


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a plan."""

    id: str
    plan: Plan
    command: tuple[str, ...]
    """The command that repeats it, without the program's path."""
    created_at: float
    walproof_version: str
    environment: Environment
    study_text: str | None = None
    """The TOML that the plan was made from; None for a study without a file."""
    finished_at: float | None = None
    """When the run ended; None while rounds are missing: the same command resumes it."""
    requests: tuple[Request, ...] = ()
    """Requests in the order in which they were made."""

    @property
    def stopped(self) -> Request | None:
        """The request that ended it; None where it ended by itself or is under way."""
        return next(
            (request for request in self.requests if request.kind is RequestKind.STOP and request.is_granted),
            None,
        )

    @property
    def rounds_more(self) -> int:
        """Rounds that it was granted in addition to its plan."""
        return sum(
            request.rounds
            for request in self.requests
            if request.kind is RequestKind.ROUNDS and request.is_granted
        )

    @property
    def trials_most(self) -> int:
        """Trials of all rounds, including granted ones."""
        return self.plan.trials_most + self.rounds_more * len(self.plan.round_cells(1))

    @property
    def why_no_rounds(self) -> str | None:
        """Why it takes no more rounds; None if it does."""
        if self.plan.gate is not None:
            return "the looks of a gate are planned before it begins, and more rounds would make them wrong"
        if self.command[:2] == ("walproof", "tune"):
            return "a step of a tuning has the rounds that the search asks for"
        return None


@dataclass(frozen=True, slots=True)
class BegunTrial:
    """A trial that began; whether it ended is told by the stored trial of that number."""

    number: int
    round: int
    install: str
    workload: str
    variant: str
    began_at: float

    @property
    def cell(self) -> tuple[str, str, str]:
        """(install, workload, variant)."""
        return self.install, self.workload, self.variant


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a run is stored."""

    trials: int
    failed: int
    rounds: int
    """Number of the newest round that has a trial."""
    newest_at: float | None
    """When its newest trial ended; None without trials."""
    finished_at: float | None
    """As `Run.finished_at`."""

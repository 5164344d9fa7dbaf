"""The facts of a run: what was asked (Plan), what happened (Trial, Series), on what (Environment).

These frozen values are the narrow waist of walproof. Everything that touches a server writes them;
everything that concludes something is a function of them. They know nothing of storage or of servers.

Names of metrics and series carry their unit last (``latency_ms_p99``, ``wal_bytes``); a dot separates a
breakdown (``wait_share.IO:WalSync``, ``cpu_s.checkpointer``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from walproof.facts.kinds import (
    Failover,
    Kind,
    Load,
    PowerCuts,
    Replay,
    Statements,
    Streaming,
    Throughput,
)
from walproof.settings.durability import DurabilityClass

PLAN_FORMAT = 1
"""Part of a plan's identity: raised whenever a trial begins to mean something else."""


@dataclass(frozen=True, slots=True)
class Install:
    """A PostgreSQL binary directory as a plan names it."""

    label: str
    """How tables call it: ``18.3``, or ``18.3 (system)`` where two have the same version."""
    version: str
    version_num: int
    """As ``SHOW server_version_num``: 180003."""
    bindir: str
    origin: str
    """Where it was found: ``given``, ``pg_config``, ``system``, ``installed`` or ``embedded``."""


@dataclass(frozen=True, slots=True)
class Script:
    """A pgbench script with its weight among the scripts of a workload."""

    name: str
    text: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Statement:
    """An SQL statement whose WAL is measured by itself."""

    name: str
    sql: str
    setup: tuple[str, ...] = ()
    """Statements that are run before it and not measured."""
    explain: bool = False
    """Whether it is run under EXPLAIN (ANALYZE, WAL), which counts too."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A pgbench load, or statements one after the other on a quiet server.

    Exactly one of ``builtin``, ``scripts`` and ``statements``; a load has ``duration_s`` or ``transactions``.
    """

    name: str
    builtin: str | None
    scripts: tuple[Script, ...]
    scale: int
    clients: int
    threads: int
    duration_s: float | None
    """Length of the measurement window; None when each client runs ``transactions``."""
    transactions: int | None
    """Transactions per client; the window is then the whole run."""
    rate_tps: float | None
    """Offered load (pgbench --rate); None runs flat out."""
    protocol: str
    """``simple``, ``extended`` or ``prepared``."""
    warmup_s: float
    """Load before the window opens; not measured."""
    setup_sql: str | None = None
    """SQL that makes the workload's own tables, run after pgbench's initialisation."""
    statements: tuple[Statement, ...] = ()


UnitBytes: TypeAlias = Literal[512, 4096, 8192]
"""A write that is whole or not there: of a sector, of a page of the kernel, of a page of PostgreSQL."""
NameRule: TypeAlias = Literal["journal", "strict"]
"""When created, renamed and removed files are durable: as on ext4 and xfs, or as POSIX guarantees."""


@dataclass(frozen=True, slots=True)
class CutConditions:
    """The simulated disk and the cluster under a variant whose power is cut."""

    unit_bytes: UnitBytes | None = None
    """The smallest write that is whole or not there; at 8192 a page is never torn. None: both 512 and 4096,
    image by image."""
    writeback_s: float | None = 30.0
    """Age at which the kernel writes dirty data by itself (Linux: 30 s); None: never."""
    names: NameRule = "journal"
    failing_flush: bool = False
    """No cut: one flush fails with EIO and loses what it should have written; then the power is cut."""
    checksums: bool = True
    """Data checksums of the cluster."""
    unlogged: bool = False
    """The ledger's tables are unlogged."""


@dataclass(frozen=True, slots=True)
class PowerCut:
    """Power cuts as part of each trial."""

    images: int
    """States of the disk that are built and checked after each cut."""
    only: bool
    """The trial is the cut; otherwise it follows the measured window, on a server of its own."""


KernelAuditLevel: TypeAlias = Literal["off", "quiet", "recording"]
"""The kernel's audit while a standby replays: off; on, with a rule that is compared with each system call and
matches none; or with one that matches each lseek of its user."""


@dataclass(frozen=True, slots=True)
class ReplayConditions:
    """What a variant's WAL is made with and replayed under, beside settings."""

    checksums: bool = False
    """Data checksums of the cluster (initdb)."""
    is_cold: bool = False
    """No block of the base is in the page cache when replay begins."""
    kernel_audit: KernelAuditLevel = "off"


@dataclass(frozen=True, slots=True)
class Crash:
    """Each trial's server is killed when its load ends, and the time until it is back is measured."""

    cold: bool
    """It is recovered once more with nothing in the page cache."""
    predict: bool = False
    """All WAL of the load is kept, and what every variant would have written predicted from it."""
    iops: int | None = None
    """It is recovered once more, cache cold, with so many reads a second at most."""
    power_cut: bool = False
    """It runs on a simulated disk, and is recovered once more, cache cold, from what was flushed."""


LoadFeed: TypeAlias = Literal[
    "insert", "prepared insert", "pipeline", "executemany", "values", "unnest",
    "copy rows", "copy binary", "copy", "stage", "merge", "adbc",
]  # fmt: skip
"""How rows get to the server (:mod:`walproof.workload.loading`)."""
LoadStep: TypeAlias = Literal[
    "truncate", "freeze", "unlogged", "late indexes", "late foreign keys", "triggers off"
]
"""What is done to the table around the load, and undone after it."""


@dataclass(frozen=True, slots=True)
class LoadMethod:
    """How a variant of a study of loading brings the rows into the table."""

    feed: LoadFeed = "copy"
    batch_rows: int | None = None
    """Rows of one statement, or of one transaction where a statement has one row; None: all of them."""
    sessions: int = 1
    """Client processes that load at the same time, each its part of the rows."""
    steps: tuple[LoadStep, ...] = ()
    rows_most: int | None = None
    """Only that many of the rows: a slow method need not load them all."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration under comparison."""

    name: str
    settings: Mapping[str, str]
    """What the variant sets, as typed; base settings and implied ones are apart."""
    implied: Mapping[str, str] = field(default_factory=dict)
    """What had to come along for the server to start (wal_level=minimal brings max_wal_senders=0)."""
    durability: DurabilityClass = DurabilityClass.NONE
    note: str | None = None
    levels: Mapping[str, str] = field(default_factory=dict)
    """Level of each factor, when the variant is a cell of a factorial design."""
    cut: CutConditions = CutConditions()
    """What its power cuts, if any, happen on."""
    replay: ReplayConditions = ReplayConditions()
    """What its WAL, in a study of replay, is made with."""
    distance_s: float = 0.0
    """In a study of failover or of a live stream: delay one way between primary and standby."""
    bandwidth_bytes_per_s: int | None = None
    """In a study of failover or of a live stream: what passes between them, each way; None is no limit."""
    standby_device: str | None = None
    """In a study of failover: the emulated disk of the standby alone, as typed."""
    replay_cpu_share: float = 1.0
    """In a study of a live stream: share of one core that the standby's startup process gets at most."""
    load: LoadMethod = LoadMethod()
    """In a study of loading: how."""
    waldir: str | None = None
    """Folder that pg_wal is moved to, as on a disk of its own; None: it stays in the data directory."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A published figure that a study can be read beside."""

    variant: str
    workload: str | None
    tps: float | None = None
    latency_ms_avg: float | None = None
    latency_ms_stddev: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Other figures, under the names that our own metrics have."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An optional variant that one of the installs cannot run."""

    variant: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A study after every default, override and name has been resolved; its hash identifies the run."""

    study: str
    title: str
    description: str
    installs: tuple[Install, ...]
    driver: Install
    """The install whose pgbench makes the load in every trial."""
    workloads: tuple[Workload, ...]
    base_settings: Mapping[str, str]
    variants: tuple[Variant, ...]
    baseline: str
    """Name of the variant that the others are compared with."""
    factors: Mapping[str, tuple[str, ...]]
    """Setting -> its levels, the first being the reference level; empty unless the design is factorial."""
    fraction: str
    """``full``, or the name of the fraction of the factorial that is run."""
    aliases: tuple[str, ...]
    """What a fraction cannot tell apart, for instance ``fsync*wal_level = full_page_writes``."""
    rounds: int
    """Rounds to run; the most rounds when ``half_width`` or ``budget_s`` may stop earlier."""
    half_width: float | None
    """Stop once every effect's interval is within +- this share (0.03 = 3 %) of its ratio."""
    budget_s: float | None
    """Begin no round that would end after this much time."""
    initdb_options: tuple[str, ...]
    checkpoint_before: bool
    """CHECKPOINT right before the window."""
    probes: tuple[str, ...]
    seed: int
    folder: str
    """Where the clusters live: the disk under it is the disk that is measured."""
    references: tuple[Reference, ...] = ()
    reference_source: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    flush_rates: bool = False
    """Measure how fast the disk flushes, by method, before the first trial (pg_test_fsync)."""
    quick: bool = False
    device: str | None = None
    """The emulated disk, as typed (``doc-000-vm``, ``flush=1.43ms,write=200MB/s``); None: the disk itself."""
    power_cut: PowerCut | None = None
    replay: Replay | None = None
    streaming: Streaming | None = None
    failover: Failover | None = None
    crash: Crash | None = None
    load: Load | None = None
    format: int = PLAN_FORMAT

    @property
    def kind(self) -> Kind:
        """What its trials are."""
        for kind in (self.replay, self.streaming, self.failover, self.load):
            if kind is not None:
                return kind
        if self.power_cut is not None and self.power_cut.only:
            return PowerCuts()
        return Statements() if any(workload.statements for workload in self.workloads) else Throughput()

    def settings_of(self, variant: Variant) -> dict[str, str]:
        """Everything that a server of the variant is started with: base, own and implied settings."""
        return {**self.base_settings, **variant.settings, **variant.implied}

    @property
    def cells(self) -> tuple[tuple[str, str, str], ...]:
        """(install, workload, variant) of every trial of a round, in the order of the study."""
        return tuple(
            (install.label, workload.name, variant.name)
            for install in self.installs
            for workload in self.workloads
            for variant in self.variants
        )

    def variant(self, name: str) -> Variant:
        """The variant of that name. Raises KeyError."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(name)

    def workload(self, name: str) -> Workload:
        """The workload of that name. Raises KeyError."""
        for workload in self.workloads:
            if workload.name == name:
                return workload
        raise KeyError(name)

    def references_of(self, workload: str) -> tuple[Reference, ...]:
        """The published figures of that workload; one that names none is about the first."""
        first = self.workloads[0].name
        return tuple(one for one in self.references if (one.workload or first) == workload)

    def install(self, label: str) -> Install:
        """The install of that label. Raises KeyError."""
        for install in self.installs:
            if install.label == label:
                return install
        raise KeyError(label)


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
    """It runs, with wrong data: a checksum, an index, an invariant, an error while reading."""
    NO_START = "does not start"

    @property
    def is_sound(self) -> bool:
        """Whether nothing acknowledged is gone, and nothing damaged but what the server repairs."""
        return self in (ImageState.CLEAN, ImageState.BENIGN)

    @property
    def is_failure(self) -> bool:
        """Whether only a dangerous setting may leave it: more is wrong than the last commits."""
        return self in (ImageState.HOLES, ImageState.CORRUPT, ImageState.NO_START)


@dataclass(frozen=True, slots=True)
class CheckedImage:
    """One state that the disk could have been left in, and what a server made of it."""

    number: int
    """Within its trial, from 1."""
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
    """From the acknowledgement of the oldest lost commit to the cut; None when none is lost."""
    check_s: float
    """To build, recover and check it."""
    kept: str | None = None
    """Folder in which it was kept."""


@dataclass(frozen=True, slots=True)
class CutFacts:
    """One power cut: when it came, what was promised before it, and what was left of that."""

    seed: int
    moment: str
    """``wal flush 812``: the 812th since the load began; ``time 3 s`` when none came before."""
    pace: str
    """``busy``: sessions at full speed, and checkpoints; ``trickle``: one that thinks between commits."""
    acknowledged: int
    """Commits that clients had been told of."""
    load_s: float
    undo_bytes_max: int
    """Old contents that were kept at most: the memory that the simulation took."""
    checkpoints: int
    """Checkpoints that ended before the cut."""
    unflushed: tuple[str, ...]
    """Files that the last checkpoint should have flushed and did not, by the fsync audit."""
    images: tuple[CheckedImage, ...]

    @property
    def counts(self) -> Mapping[ImageState, int]:
        """Images by state; every state is named, from the best to the worst."""
        return {state: sum(image.state is state for image in self.images) for state in ImageState}


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

    @property
    def cell(self) -> tuple[str, str, str]:
        """(install, workload, variant)."""
        return (self.install, self.workload, self.variant)


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
    """None while rounds are missing: the same command resumes it."""

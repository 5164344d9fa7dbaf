"""What an experiment is: the kind of a study, what can be added to its trials, and its variants' conditions.

A plan is of one kind (``Plan.kind``). What is measured follows from it, and so do the conditions that its
variants may have beside settings. A crash or a power cut can be added only to the trials of a throughput
study, which leave a server with the traces of its load.

Every value has its name, which tells stored values apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

UnitBytes: TypeAlias = Literal[512, 4096, 8192]
"""Size of an atomic write: a sector, a page of the kernel, a page of PostgreSQL."""
NameRule: TypeAlias = Literal["journal", "strict"]
"""When created, renamed and removed files are durable: as on ext4 and xfs, or as POSIX guarantees."""


CutEvent: TypeAlias = Literal[
    "wal write", "wal flush", "relation write", "relation flush", "rename", "torn write", "torn page",
    "torn map",
]  # fmt: skip
"""A kind of moment at which power is cut; ``torn``: within a write, the last one of a visibility map."""


@dataclass(frozen=True, slots=True)
class CutConditions:
    """The simulated disk and the cluster under a variant whose power is cut."""

    unit_bytes: UnitBytes | None = None
    """The size of an atomic write; at 8192 a page is never torn. None: 512 and 4096 in turn, image by
    image."""
    writeback_s: float | None = 30.0
    """Age at which the kernel writes dirty data by itself (Linux: 30 s); None: never."""
    names: NameRule = "journal"
    failing_flush: bool = False
    """No cut: one flush fails with EIO and loses what it should have written; then the power is cut."""
    checksums: bool = True
    """Data checksums of the cluster."""
    unlogged: bool = False
    """The ledger's tables are unlogged."""
    event: CutEvent | None = None
    """The kind of moment; None: one of all but the last is drawn for each cut."""
    name: Literal["power cut"] = field(default="power cut", kw_only=True)


KernelAuditLevel: TypeAlias = Literal["off", "quiet", "recording"]
"""The kernel's audit while a standby replays: off; on, with a rule that is compared with each system call and
matches none; or with one that matches each lseek of its user."""


@dataclass(frozen=True, slots=True)
class ReplayConditions:
    """How a variant's WAL is made and replayed, apart from settings."""

    checksums: bool = False
    """Data checksums of the cluster (initdb)."""
    is_cold: bool = False
    """No block of the base is in the page cache when replay begins."""
    kernel_audit: KernelAuditLevel = "off"
    name: Literal["replay"] = field(default="replay", kw_only=True)


@dataclass(frozen=True, slots=True)
class StreamingConditions:
    """What is between a variant's servers, and how its standby replays, apart from settings."""

    checksums: bool = False
    """Data checksums of the cluster (initdb)."""
    distance_s: float = 0.0
    """Delay one way between primary and standby."""
    bandwidth_bytes_per_s: int | None = None
    """Bytes per second between them, each way; None is no limit."""
    replay_cpu_share: float = 1.0
    """Largest share of one core that the standby's startup process gets."""
    between_hosts: bool = False
    """The standby is on another host, and the network itself is between them."""
    name: Literal["streaming"] = field(default="streaming", kw_only=True)

    @property
    def count(self) -> int:
        """Number of standbys."""
        return 1


StandbysLayout: TypeAlias = Literal["one", "any 2 of 3", "cascade"]
"""Who follows a primary, and for whom its commits wait: one standby; a quorum of three; or one standby with a
standby of its own at another site, which is all that is left when the other two end."""


@dataclass(frozen=True, slots=True)
class FailoverConditions:
    """What is between a variant's servers, and the standby's disk."""

    distance_s: float = 0.0
    """Delay one way between primary and standby."""
    bandwidth_bytes_per_s: int | None = None
    """Bytes per second between them, each way; None is no limit."""
    standby_device: str | None = None
    """The emulated disk of the standby alone, as typed."""
    between_hosts: bool = False
    """The standbys are on other hosts, and the network itself is between them."""
    standbys: StandbysLayout = "one"
    name: Literal["failover"] = field(default="failover", kw_only=True)

    @property
    def count(self) -> int:
        """Number of standbys."""
        return {"one": 1, "any 2 of 3": 3, "cascade": 2}[self.standbys]


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
    """Rows per statement, or per transaction where a statement has one row; None: all rows."""
    sessions: int = 1
    """Client processes that load at the same time, each its part of the rows."""
    steps: tuple[LoadStep, ...] = ()
    rows_most: int | None = None
    """Load only this many rows: a slow method need not load them all."""
    name: Literal["loading"] = field(default="loading", kw_only=True)


BackupMode: TypeAlias = Literal["full", "incremental"]
BackupCheckpoint: TypeAlias = Literal["fast", "spread"]
"""How fast the checkpoint runs that begins a base backup."""
BackupCompression: TypeAlias = Literal["none", "gzip", "server gzip"]
"""Who compresses a base backup: nobody, pg_basebackup, or the server before it sends."""


@dataclass(frozen=True, slots=True)
class BackupConditions:
    """How a variant's base backup is taken, beside settings."""

    mode: BackupMode = "full"
    """Take an incremental backup of what has changed since a full one, and combine both to restore."""
    checkpoint: BackupCheckpoint = "fast"
    compress: BackupCompression = "none"
    rate_bytes_per_s: int | None = None
    """The fastest that the server may send; None is no limit."""
    is_loaded: bool = True
    """The load goes on while the backup is taken; else it pauses."""
    name: Literal["backup"] = field(default="backup", kw_only=True)


Conditions: TypeAlias = (
    CutConditions
    | ReplayConditions
    | StreamingConditions
    | FailoverConditions
    | LoadMethod
    | BackupConditions
)


@dataclass(frozen=True, slots=True)
class Crash:
    """Each trial's server is killed when its load ends, and the time until it is back is measured."""

    cold: bool
    """Recover the server once more with nothing in the page cache."""
    predict: bool = False
    """Keep all WAL of the load, and predict from it what every variant would have written."""
    iops: int | None = None
    """Recover it once more, with a cold cache and at most this many reads per second."""
    power_cut: bool = False
    """Run it on a simulated disk, and recover it once more, with a cold cache, from what was flushed."""
    name: Literal["crash"] = field(default="crash", kw_only=True)


@dataclass(frozen=True, slots=True)
class PowerCut:
    """Each trial's window is followed by a power cut, on a server of its own."""

    images: int
    """Number of disk states that are built and checked after each cut."""
    name: Literal["power cut"] = field(default="power cut", kw_only=True)


class _Kind:
    """What holds for a kind unless it says otherwise."""

    __slots__ = ()

    @property
    def conditions(self) -> type[Conditions] | None:
        """The class of conditions that its variants may have."""
        return None

    @property
    def added_crash(self) -> Crash | None:
        """The crash that ends each trial."""
        return None

    @property
    def cut_images(self) -> int:
        """Number of disk states that are built and checked after the power cut of each trial; 0 without power
        cuts."""
        return 0


@dataclass(frozen=True, slots=True)
class Throughput(_Kind):
    """Each trial measures a window of pgbench's load."""

    noun: ClassVar[str] = "throughput"

    added: Crash | PowerCut | None = None
    """What comes after each window."""
    name: Literal["throughput"] = field(default="throughput", kw_only=True)

    @property
    def conditions(self) -> type[CutConditions] | None:
        """The conditions of its power cuts."""
        return CutConditions if self.cut_images else None

    @property
    def added_crash(self) -> Crash | None:
        """What was added, if it is a crash."""
        return self.added if isinstance(self.added, Crash) else None

    @property
    def cut_images(self) -> int:
        """The states of the power cut that was added."""
        return self.added.images if isinstance(self.added, PowerCut) else 0


@dataclass(frozen=True, slots=True)
class Statements(_Kind):
    """Each trial runs statements one by one on a quiet server."""

    noun: ClassVar[str] = "statements"
    name: Literal["statements"] = field(default="statements", kw_only=True)


@dataclass(frozen=True, slots=True)
class PowerCuts(_Kind):
    """Each trial is a power cut."""

    noun: ClassVar[str] = "power cuts"

    images: int
    """Number of disk states that are built and checked after each cut."""
    name: Literal["power cuts"] = field(default="power cuts", kw_only=True)

    @property
    def conditions(self) -> type[CutConditions]:
        """What a variant has beside settings."""
        return CutConditions

    @property
    def cut_images(self) -> int:
        """What a trial is about."""
        return self.images


@dataclass(frozen=True, slots=True)
class Replay(_Kind):
    """Each trial replays fixed WAL: that of ``rows`` INSERTs into five partitioned tables."""

    noun: ClassVar[str] = "replay"

    rows: int
    preloaded_rows: int
    """Rows loaded before, so that the WAL finds leaf pages to fill and to write images of."""
    rows_per_commit: int
    name: Literal["replay"] = field(default="replay", kw_only=True)

    @property
    def conditions(self) -> type[ReplayConditions]:
        """What a variant has beside settings."""
        return ReplayConditions


@dataclass(frozen=True, slots=True)
class Streaming(_Kind):
    """Each trial loads a primary with INSERTs into five partitioned tables while its standby streams."""

    noun: ClassVar[str] = "a live stream"

    preloaded_rows: int
    """Rows loaded before, as in a study of replay."""
    rows_per_commit: int
    name: Literal["streaming"] = field(default="streaming", kw_only=True)

    @property
    def conditions(self) -> type[StreamingConditions]:
        """What a variant has beside settings."""
        return StreamingConditions


@dataclass(frozen=True, slots=True)
class Failover(_Kind):
    """Each trial is a pair under the ledger's load whose primary dies and whose standby is promoted."""

    noun: ClassVar[str] = "failover"

    load_s: float
    sessions: int
    name: Literal["failover"] = field(default="failover", kw_only=True)

    @property
    def conditions(self) -> type[FailoverConditions]:
        """What a variant has beside settings."""
        return FailoverConditions


@dataclass(frozen=True, slots=True)
class Load(_Kind):
    """Each trial loads rows into a table, until the table is as good as after any other method."""

    noun: ClassVar[str] = "loading"

    table: str
    """As SQL names it."""
    ddl: str
    """SQL that makes the table and what it needs."""
    rows: int
    file: str | None = None
    """CSV or Parquet file of the user's own rows; None: they are generated."""
    file_digest: str | None = None
    """SHA-256 of it."""
    replay: str | None = None
    """SQL that does for the whole table what its triggers would have done row by row."""
    crash: bool = False
    """In the first round each load is also interrupted halfway, by killing the server."""
    filled: int = 0
    """Rows that the table holds before, generated as the loaded ones are."""
    ddl_as_superuser: bool = False
    """Run the DDL and the loads as superuser, not as a separate role."""
    power_cut: int = 0
    """In the first round the power of each load is also cut halfway, and this many images are checked."""
    columns: tuple[str, ...] = ()
    """Names of the file's columns, in its order; without a file none."""
    name: Literal["loading"] = field(default="loading", kw_only=True)

    @property
    def conditions(self) -> type[LoadMethod]:
        """How a variant loads."""
        return LoadMethod


@dataclass(frozen=True, slots=True)
class Backup(_Kind):
    """Each trial takes a base backup of a server that archives its WAL, and restores it to a moment.

    A workload's duration is that of its load before the backup.
    """

    noun: ClassVar[str] = "backup"

    after_s: float
    """Load after the backup, before the moment that is restored to."""
    name: Literal["backup"] = field(default="backup", kw_only=True)

    @property
    def conditions(self) -> type[BackupConditions]:
        """How a variant's backup is taken."""
        return BackupConditions


Kind: TypeAlias = Throughput | Statements | PowerCuts | Replay | Streaming | Failover | Load | Backup

"""What `walproof watch` saw of one server at one moment, and what it then said about it (`WatchRecord`).

``observe`` reads it; it is all that ``analysis/watch`` knows of a server. Positions in WAL are bytes since
its beginning, sizes bytes, ages seconds. A time carries its clock: seconds of the epoch by the server's clock
(``at``, ``..._at``), or seconds of the observer's monotonic clock (``seen_s``), which alone makes rates: a
server's clock may jump. None stands for what the role may not see or the version does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from walproof.facts.replication import ReplicationWindow
from walproof.facts.transactions import PreparedTransaction, SynchronousWait
from walproof.facts.wal_causes import WalCauses
from walproof.units import parse_bytes, parse_duration_s


@dataclass(frozen=True, slots=True)
class WatchedSlot:
    """A row of pg_replication_slots."""

    name: str
    kind: str
    """``physical`` or ``logical``."""
    is_active: bool
    is_temporary: bool
    restart: int | None
    """Oldest position from which it keeps WAL; None when it keeps nothing."""
    wal_status: str | None
    """reserved, extended, unreserved, lost."""
    safe_bytes: int | None
    """Bytes of WAL until it may be invalidated (max_slot_wal_keep_size); None without that limit."""
    inactive_s: float | None = None
    """Seconds since it was last used, or synchronised (17 and newer)."""
    database: str | None = None
    """Of a logical slot."""
    confirmed: int | None = None
    """Position up to which the consumer of a logical slot has confirmed."""
    pid: int | None = None
    """pid of the process that uses it."""
    is_synced: bool = False
    """Whether this standby keeps it in step with the primary's slot, for a failover (17 and newer)."""
    invalidation: str | None = None
    """Why it is lost, as pg_replication_slots.invalidation_reason says it; ``conflict`` in 16."""

    @property
    def held_from(self) -> int | None:
        """Position from which the server keeps WAL for it; None for a lost slot, which keeps nothing."""
        return None if self.wal_status == "lost" else self.restart


@dataclass(frozen=True, slots=True)
class WatchedStandby:
    """A row of pg_stat_replication."""

    name: str
    """Its application_name."""
    pid: int
    """pid of the walsender."""
    state: str
    sync_state: str
    slot: str | None
    sent: int
    written: int
    flushed: int
    replayed: int
    reply_age_s: float | None
    """Seconds since its last message, by the server's clock alone."""
    wait: str
    """What the walsender waits for: ``Type/Event`` or ``running``."""
    is_logical: bool = False
    """Whether it decodes a logical slot, so that it is not a standby."""
    host: str | None = None
    """Address from which it connects; None over a Unix socket."""


@dataclass(frozen=True, slots=True)
class WatchedReceiver:
    """What a standby knows about the walsender that serves it."""

    name: str
    """Its application_name there."""
    slot: str | None
    port: int | None
    """Of the server that it streams from; None while it does not stream, or where it is not shown."""


@dataclass(frozen=True, slots=True)
class WatchedArrival:
    """How a standby gets its WAL, as it shows itself."""

    streams: bool
    """Whether a walreceiver streams."""
    should_stream: bool
    """Whether primary_conninfo is set."""
    restores: bool
    """Whether restore_command is set."""
    wait: str
    """What the startup process waits for: ``Type/Event`` or ``running``."""


@dataclass(frozen=True, slots=True)
class WatchedSubscription:
    """A row of pg_subscription, and of its statistics."""

    name: str
    is_enabled: bool
    slot: str | None
    """Slot on the publisher."""
    has_worker: bool
    """Whether a process applies what arrives."""
    message_age_s: float | None
    """Since the publisher's last message."""
    errors: int | None
    """How often applying ended with an error since statistics were reset; None before 15."""
    id: int | None = None
    """Its oid; names are unique within a database alone."""


@dataclass(frozen=True, slots=True)
class WatchedArchiver:
    """A row of pg_stat_archiver, and what waits for it."""

    archived: int
    failed: int
    last_segment: str | None
    """The last file that was archived: a segment, or a history or backup file."""
    last_at: float | None
    failed_segment: str | None
    failed_at: float | None
    ready: int | None
    """Files in archive_status that end with .ready; None where the role may not list them."""
    ready_since: float | None = None
    """When the oldest of them was written, by the server's clock; None without any, or as ``ready``."""
    is_unset: bool | None = None
    """Whether archive_command and archive_library are empty, so that nothing can be archived."""


@dataclass(frozen=True, slots=True)
class WatchedCheckpoint:
    """The last completed checkpoint, from pg_control_checkpoint()."""

    redo: int
    at: float
    """When it began."""
    timeline: int


@dataclass(frozen=True, slots=True)
class WatchLook:
    """One server at one moment."""

    seen_s: float
    at: float
    version: str
    version_num: int
    system_identifier: str | None
    started_at: float | None
    is_in_recovery: bool
    lsn: int | None
    """Position up to which WAL was written; on a standby, received. None where the server does not tell it,
    as Aurora may."""
    settings: Mapping[str, str]
    """Watched settings as SHOW prints them (``observe/watch_queries.py``)."""
    checkpoint: WatchedCheckpoint | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    """Name as in ``observe/counters.py`` -> count."""
    pg_wal_bytes: int | None = None
    archiver: WatchedArchiver | None = None
    slots: tuple[WatchedSlot, ...] = ()
    standbys: tuple[WatchedStandby, ...] = ()
    """Standbys, including logical walsenders."""
    receiver: WatchedReceiver | None = None
    """Of a standby."""
    subscriptions: tuple[WatchedSubscription, ...] = ()
    lacks: tuple[str, ...] = ()
    """``what: the server's reason`` for everything that could not be read."""
    replayed: int | None = None
    """Position up to which a standby has replayed; None on a primary."""
    is_paused: bool | None = None
    """Whether somebody has paused its replay; None on a primary."""
    synchronous: SynchronousWait | None = None
    """Who confirms commits; None where none waits for a standby."""
    prepared: tuple[PreparedTransaction, ...] = ()
    marks: tuple[str, ...] = ()
    """What tells on which platform it runs (``observe/marks.py``)."""
    arrival: WatchedArrival | None = None
    """Of a standby."""
    has_recovery_target: bool = False
    """Whether a recovery target is set on a standby."""

    @property
    def major(self) -> int:
        """The major version."""
        return self.version_num // 10000

    @property
    def segment_bytes(self) -> int:
        """Size of a WAL segment."""
        return parse_bytes(self.settings.get("wal_segment_size", "16MB"))

    def size(self, name: str) -> int | None:
        """A setting that is a size, in bytes; None where it is absent, or -1 for no limit."""
        value = self.settings.get(name)
        return None if value is None or value.startswith("-") else parse_bytes(value)

    def seconds(self, name: str) -> float | None:
        """A setting that is a time, in seconds; None where it is absent."""
        value = self.settings.get(name)
        return None if value is None or value.startswith("-") else parse_duration_s(value)

    def since(self, position: int) -> int | None:
        """Bytes of WAL from a position to the end; None where the end is not known."""
        return None if self.lsn is None else self.lsn - position

    def lacks_of(self, what: str) -> str | None:
        """Why something could not be read; None if it could."""
        return next((lack.partition(": ")[2] for lack in self.lacks if lack.startswith(f"{what}: ")), None)


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A server that cannot be looked at."""

    seen_s: float
    since: float
    """Seconds of the epoch by the observer's clock: when it answered last, or, if it never did, when it was
    first asked in vain."""
    reason: str
    """The reason in the words of libpq or of the server, without secrets."""
    hint: str | None = None


class StreamPhase(StrEnum):
    """How a stream of WAL is doing."""

    OFF = "off"
    """No stream was asked for."""
    BEGINNING = "beginning"
    """No WAL has come yet."""
    CATCHING_UP = "catching up"
    """WAL since the redo point is being read."""
    LIVE = "live"
    BROKEN = "broken"
    """The stream was refused or ended; it is tried again."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """The stream of WAL by which a server is watched."""

    phase: StreamPhase
    reason: str = ""
    """Why there is no stream, in the words of the server or of libpq, without secrets."""
    hint: str | None = None
    since: float | None = None
    """When it entered this phase, seconds since the epoch by the observer's clock."""
    received: int | None = None
    """Position up to which WAL was read."""
    received_bytes: int = 0
    """Bytes of WAL read since watching began."""


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds, with the interval that should hold the measured time in 9 of 10 cases."""

    seconds: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """What a crashed server syncs before redo."""

    is_synced: bool
    """Whether files are synced; false with fsync=off."""
    method: str
    """``fsync`` or ``syncfs`` (recovery_init_sync_method)."""
    files: int
    dirty_files: int | None
    """Files with pages that may not be on the disk; None where this cannot be seen."""
    dirty_bytes: int | None
    """Dirty bytes of the whole machine."""
    is_seen: bool
    """Whether the files were counted; otherwise the figures come from pg_class."""


@dataclass(frozen=True, slots=True)
class SyncForecast:
    """The phase before redo: the server syncs its data directory."""

    span: Span
    method: str
    """``fsync``, ``syncfs`` (recovery_init_sync_method), or ``off`` (fsync=off)."""
    files: int
    dirty_bytes: int | None
    """Dirty bytes of the whole machine; None where this cannot be seen."""
    is_seen: bool
    """Whether the files were counted; otherwise the figures come from pg_class."""


@dataclass(frozen=True, slots=True)
class CrashClock:
    """What a crash at this moment would cost."""

    warm: Span
    """Time from a kill of the server until connections are accepted."""
    redo_s: float
    checkpoint_s: float
    cold: Span
    """Machine lost."""
    cold_redo_s: float
    cold_checkpoint_s: float
    distance_bytes: int
    """Bytes of WAL from the redo point to the end."""
    dominating: str
    """Parts of warm redo that take the most time."""
    costs: str
    """``calibrated``, ``own crash`` or ``shipped``."""
    is_recomputing: bool
    """A checkpoint has completed whose redo point was not known before (13 to 16): these are the figures from
    before it, a little too long, until all is simulated again."""
    sync: SyncForecast | None = None
    """The phase before redo, included in ``warm``; None where the data directory is not known and nothing is
    included."""


@dataclass(frozen=True, slots=True)
class OtherPrimary:
    """Another watched server of the same system that takes writes, too."""

    name: str
    timeline: int
    """That of its last checkpoint."""
    own_timeline: int


@dataclass(frozen=True, slots=True)
class SaidConcern:
    """A concern as it was stated at that moment (`walproof.advise.watch`)."""

    key: str
    """What it is about; the same from look to look: ``slot etl``."""
    severity: int
    """1 warning, 2 critical."""
    sentence: str
    since: float | None
    """Seconds of the epoch."""


@dataclass(frozen=True, slots=True)
class WatchRecord:
    """One server at one moment, with what was seen and said: what a history keeps."""

    at: float
    """Seconds of the epoch by the observer's clock."""
    session: int
    """Run of walproof: ``seen_s`` of looks can be compared only within a run."""
    seen: WatchLook | NoAnswer
    stream: StreamState
    clock: CrashClock | None = None
    causes: WalCauses | None = None
    windows: tuple[ReplicationWindow, ...] = ()
    """Pairs of this server with its standbys, where both are watched."""
    pair_names: tuple[str, ...] = ()
    """What their standbys are called."""
    concerns: tuple[SaidConcern, ...] = ()
    notes: tuple[str, ...] = ()
    target_s: float | None = None
    """Longest crash recovery that was acceptable."""
    room_bytes: int | None = None
    """Room for pg_wal at that moment."""
    walsenders: dict[int, str] = field(default_factory=dict)
    """pid of a walsender -> what its standby was called; empty in records of an earlier walproof."""
    promoted: dict[int, str | None] = field(default_factory=dict)
    """pid of a walsender -> the watched server that was promoted (`analysis.watch.missing.with_promoted`)."""
    primaries: tuple[OtherPrimary, ...] = ()
    """Other primaries of its system. It and ``promoted`` are empty in records of an earlier walproof."""

    @property
    def look(self) -> WatchLook | None:
        """None where the server did not answer."""
        return self.seen if isinstance(self.seen, WatchLook) else None

    @property
    def severity(self) -> int:
        """Severity of the worst concern; 0 where there is none."""
        return max((concern.severity for concern in self.concerns), default=0)

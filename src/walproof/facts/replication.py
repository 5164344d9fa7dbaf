"""What was seen of a running pair, a standby and the server that it follows, between two moments.

Positions in WAL are bytes since its beginning. A time names its clock: seconds of the epoch of the upstream's
or the standby's clock, which may differ, or seconds of the observer's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RECOVERY_TARGETS = (
    "recovery_target",
    "recovery_target_lsn",
    "recovery_target_name",
    "recovery_target_time",
    "recovery_target_xid",
)
"""Settings one of which names where a recovery ends (manual, "Recovery Target")."""
RUNNING = "running"
"""The wait event shown for a process that waits for nothing that PostgreSQL names."""


@dataclass(frozen=True, slots=True)
class Sender:
    """The upstream's walsender of the standby: a row of pg_stat_replication."""

    pid: int
    application_name: str
    state: str
    sync_state: str
    sent: int
    write_lag_s: float | None
    """The lag as the server reports it. It stands still while nothing moves: a hint, not a measure."""
    flush_lag_s: float | None
    replay_lag_s: float | None
    reply_age_s: float | None
    """Seconds since the standby's last message, by the upstream's clock alone."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """One look at the server that is followed: a primary, or a standby in a cascade."""

    clock_s: float
    """Time by its clock, seconds since the epoch."""
    inserted: int
    """End of the WAL that exists; in a cascade, of what the upstream has itself."""
    flushed: int
    """Up to where WAL may be sent."""
    sender: Sender | None
    oldest_segment: str | None = None
    """The oldest segment in pg_wal, as the last 16 digits of its name; None when it was not looked for."""
    slot_status: str | None = None
    """wal_status of the standby's slot: reserved, extended, unreserved, lost; None without a slot."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """The standby's walreceiver: pg_stat_wal_receiver."""

    pid: int
    status: str
    written: int
    flushed: int
    message_age_s: float | None
    """Seconds since a message of the upstream came, by the standby's clock alone."""


STARVED_SHARE = 0.3
"""Share of its CPU time: a startup process that waited longer than this for a core is said to lack CPU."""


@dataclass(frozen=True, slots=True)
class StartupProcess:
    """The kernel's account of the process that replays, where it runs on the observer's machine.

    proc(5): /proc/PID/stat, schedstat, io.
    """

    cpu_s: float
    run_queue_s: float
    """Time in which it was ready to run while another process had the core."""
    minor_faults: int
    read_bytes: int | None
    """Bytes read from the device; None where the kernel does not show them to us."""
    read_calls: int | None


@dataclass(frozen=True, slots=True)
class Standby:
    """One look at the standby."""

    clock_s: float
    """Time by its clock, seconds since the epoch."""
    received: int | None
    """pg_last_wal_receive_lsn(): what was streamed and is flushed; None when nothing was ever streamed."""
    replayed: int
    replayed_commit_s: float | None
    """When the last replayed transaction committed, by the primary's clock."""
    pause_state: str
    """``not paused``, ``pause requested`` or ``paused``."""
    receiver: Receiver | None
    conflicts: Mapping[str, int] = field(default_factory=dict)
    """Kind (snapshot, lock, ...) -> queries cancelled so far, all databases."""
    prefetch: Mapping[str, int] | None = None
    """pg_stat_recovery_prefetch; None before 15."""
    startup_reads: int | None = None
    """Blocks that the startup process read (pg_stat_io); None before 16."""
    startup: StartupProcess | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """Both servers at one moment, the upstream first."""

    at_s: float
    """Time by the observer's monotonic clock."""
    upstream: Upstream
    standby: Standby


@dataclass(frozen=True, slots=True)
class Session:
    """A session on the standby that could hold replay up: one with a snapshot or a transaction."""

    pid: int
    user: str
    application_name: str
    state: str
    transaction_s: float
    """Age of its transaction, seconds."""


@dataclass(frozen=True, slots=True)
class ReplicationWindow:
    """What a pair did between two looks, and what was seen of its processes meanwhile."""

    first: Look
    last: Look
    waits: Mapping[str, Mapping[str, int]]
    """Process (startup, walreceiver, walsender) -> ``Type/Event`` or ``running`` -> how often it was seen."""
    states: Mapping[str, Mapping[str, int]]
    """Process -> state of the kernel (R, S, D, T) -> how often; only of processes of this machine."""
    trail: tuple[tuple[float, int], ...]
    """(observer's clock, upstream's ``inserted``), oldest first, from before the window on."""
    upstream_settings: Mapping[str, str]
    standby_settings: Mapping[str, str]
    segment_bytes: int
    is_cascade: bool
    """Whether the upstream is itself a standby."""
    is_local: bool
    """Whether the standby's processes are on the observer's machine."""
    clock_skew_s: float
    """Standby's clock minus upstream's, as seen between two answers."""
    clock_skew_error_s: float
    """Half of the time that the two questions took: the most ``clock_skew_s`` can be off."""
    blockers: tuple[Session, ...] = ()
    """Oldest transactions of the standby, looked for while replay waited for one."""
    notes: tuple[str, ...] = ()
    """What could not be seen, and why."""

    @property
    def window_s(self) -> float:
        """Length of the window in seconds."""
        return self.last.at_s - self.first.at_s

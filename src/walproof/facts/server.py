"""What was seen of a running server that walproof did not start: settings, counters, objects.

Read by ``observe``, stored as JSON beside a recording, and all that rules of advice know of a server. Sizes
are bytes, ages seconds, counters what the server has counted since its statistics were last reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from walproof.facts.transactions import HorizonHolder, PreparedTransaction, SynchronousWait
from walproof.units import format_duration

SERVER_FILE = "server.json"
"""The file that ``advise --save`` keeps beside a recording; alone, where the WAL could not be recorded."""
FLUSH_WAITS = ("IO/WALSync", "IO/WalSync", "LWLock/WALWrite", "LWLock/WALWriteLock", "Timeout/CommitDelay")
"""Waits for a flush of WAL, by the session itself or another one, in every version. From 19 on the sleep of
commit_delay before a flush is a wait, too."""
LEAST_STATISTICS_S = 7 * 86400
"""Statistics younger than a week have not seen a weekly job that needs an index."""
_OF_SESSION = ("session", "client", "global", "database", "user", "database user")
"""Sources in pg_settings of what was set for a session; ``global`` is ALTER ROLE ALL (guc_tables.c)."""


def counted_since(
    started_at: float | None, reset_at: float | None, version_num: int, *, is_in_recovery: bool
) -> float | None:
    """The time from which on a server's statistics count; None where it is not known.

    Until 14 a standby drops them at each start (pgstat_reset_all in StartupXLOG).
    """
    since = started_at if reset_at is None else reset_at
    if since is None or started_at is None or not is_in_recovery or version_num >= 150000:
        return since
    return max(since, started_at)


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """A row of pg_settings."""

    value: str
    """The value as SHOW prints it, with its unit; empty for texts that are not read
    (``observe/objects.py``)."""
    boot: str | None
    """What the server would have without any configuration, in the setting's base unit."""
    base: str | None
    """The value in the setting's base unit, as pg_settings has it."""
    source: str
    """``default``, ``configuration file``, ``command line``, ``database``, ..."""
    context: str
    """``user``, ``superuser``, ``sighup``, ``postmaster``, ..."""
    is_pending: bool
    """Whether the file has another value that needs a restart."""
    file: str | None = None
    """Where it is set; None if the role may not see it, or nobody set it."""
    values: tuple[str, ...] = ()
    """Values of an enum that this build of the server takes."""

    @property
    def is_of_session(self) -> bool:
        """Whether it was set for the session that asked, by its role, its database or itself: the server's
        own value is another, and is not seen."""
        return self.source in _OF_SESSION


@dataclass(frozen=True, slots=True)
class ServerLook:
    """The server's counters at one moment."""

    at: float
    """Seconds since the epoch, by the server's clock."""
    lsn: int | None
    """Position up to which WAL was inserted; on a standby, received. None where the server does not tell it,
    as Aurora may."""
    redo: int | None
    """Redo point of the last completed checkpoint."""
    counters: Mapping[str, float]
    """Name as in ``observe/counters.py`` -> count; a name is absent where the version has no such figure."""
    pg_wal_bytes: int | None = None
    """Size of the files in pg_wal; None where the role may not list it."""
    unarchived: int | None = None
    """Segments that wait for the archiver."""


@dataclass(frozen=True, slots=True)
class ServerSlot:
    """A replication slot and what it holds."""

    name: str
    kind: str
    """``physical`` or ``logical``."""
    is_active: bool
    is_temporary: bool
    retained_bytes: int | None
    """WAL between its restart position and now; None when it holds nothing, or the server does not tell."""
    wal_status: str | None
    """reserved, extended, unreserved, lost."""
    inactive_s: float | None = None
    """Seconds since it was last used, or synchronised (17 and newer)."""
    is_synced: bool = False
    """Whether this standby keeps it in step with the primary's slot, for a failover (17 and newer)."""
    invalidation: str | None = None
    """Why it is lost, as pg_replication_slots.invalidation_reason says it; ``conflict`` in 16."""
    was_used: bool | None = None
    """Whether it was active at some look, or moved between two; None where this was not seen."""


UNSHOWN_STANDBYS = "pg_monitor is not granted"
"""The lack of ``standbys`` where somebody streams, and the role may not see who it is and in which state."""

OTHER_INDEXES, OTHER_TABLES = "other indexes", "other tables"
"""What is lacking where a database has more of them than are read."""


@dataclass(frozen=True, slots=True)
class ServerStandby:
    """A standby's row of pg_stat_replication."""

    name: str
    state: str
    sync_state: str
    behind_bytes: int | None
    """Bytes of WAL that it has not replayed."""


@dataclass(frozen=True, slots=True)
class ServerTable:
    """Use of one table of the database that was connected to, since its statistics were reset."""

    name: str
    bytes: int
    is_unlogged: bool
    inserted: int
    updated: int
    hot_updated: int
    deleted: int
    live: int
    fillfactor: int
    """fillfactor in percent; 100 where nobody set it."""
    moved: int | None = None
    """Updates whose new row found no room on its page (16 and newer)."""
    filenode: int = 0
    """File number; 0 where it is not known."""
    freeze_age: int | None = None
    """Transactions since the oldest one that its rows may name: age(relfrozenxid)."""
    freeze_share: float | None = None
    """How far it is on the way to a vacuum against wraparound, which comes at 1: the largest share of
    transactions and of multixacts, of the table and of its TOAST table, by their own limits."""
    frozen_bytes: int | None = None
    """Size of its pages that its last VACUUM or ANALYZE found frozen (18 and newer)."""
    rows_bytes: int | None = None
    """Size of its own file, without TOAST table, indexes and maps; None where it was not asked for."""


@dataclass(frozen=True, slots=True)
class ServerIndex:
    """Use of one index of that database."""

    name: str
    table: str
    bytes: int
    scans: int
    is_needed: bool
    """Whether it serves more than reads: it is unique, a constraint's, a replica identity, or a partition of
    another index."""
    has_uuid: bool
    """Its first column is a uuid."""
    filenode: int
    age: int | None = None
    """Transactions since it was made, or made anew by REINDEX or ALTER: age(xmin) of its row in pg_class."""
    is_valid: bool = True
    """False of one that CREATE INDEX CONCURRENTLY left, or still builds: no query may read it."""


@dataclass(frozen=True, slots=True)
class ServerOverride:
    """A setting that holds for a role, a database or both instead of the server's own."""

    role: str | None
    """Quoted where SQL wants it; None: every role."""
    database: str | None
    """The database, quoted where SQL wants it; None: every database."""
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ServerDatabase:
    """A row of pg_database: how long ago the oldest of its tables was frozen."""

    name: str
    """Quoted where SQL wants it."""
    freeze_age: int
    """Transactions: age(datfrozenxid)."""
    multixact_age: int
    """Multixacts: mxid_age(datminmxid)."""


@dataclass(frozen=True, slots=True)
class ServerWindow:
    """One server between two moments."""

    version: str
    version_num: int
    system_identifier: str | None
    database: str
    is_in_recovery: bool
    settings: Mapping[str, ServerSetting]
    looks: tuple[ServerLook, ...]
    """Looks, oldest first; at least two, unless the server went away."""
    started_at: float | None
    """When the server was started, seconds of the epoch: its statistics are at least so old."""
    reset_at: float | None
    """When its statistics of the database were reset; seconds of the epoch. None: never."""
    slots: tuple[ServerSlot, ...] = ()
    standbys: tuple[ServerStandby, ...] = ()
    tables: tuple[ServerTable, ...] = ()
    """Tables with changes, largest first, at most as many as ``observe/objects.py`` says."""
    indexes: tuple[ServerIndex, ...] = ()
    waits: Mapping[str, int] = field(default_factory=dict)
    """What client backends that were active waited for, ``Type/Event`` or ``running`` -> how often seen."""
    flush_waits: Mapping[str, int] = field(default_factory=dict)
    """Of these, waits for a flush of WAL: role, quoted where SQL wants it -> how often seen."""
    overrides: tuple[ServerOverride, ...] = ()
    """What ALTER ROLE and ALTER DATABASE have set, except texts."""
    standbys_asked: int = 0
    """Standbys whose scans are included in ``indexes``."""
    lacks: tuple[str, ...] = ()
    """``what: the reason`` for everything that could not be read."""
    is_wal_refused: bool = False
    """Its WAL was neither streamed nor told by pg_walinspect."""
    role: str | None = None
    """The role of the session, quoted where SQL wants it."""
    synchronous: SynchronousWait | None = None
    """Who confirms commits; None where none waits for a standby, or this was not seen."""
    prepared: tuple[PreparedTransaction, ...] = ()
    """Prepared transactions of every database, the oldest first."""
    role_lacks: tuple[str, ...] | None = None
    """What the role has not of ``REPLICATION`` and ``pg_monitor``; None where this was not seen."""
    marks: tuple[str, ...] = ()
    """What tells on which platform it runs (``observe/marks.py``)."""
    databases: tuple[ServerDatabase, ...] = ()
    """Databases of the cluster, those frozen longest ago first."""
    is_archive_void: bool | None = None
    """Whether archive_command reports success and archives nothing; None where this was not seen."""
    horizon: tuple[HorizonHolder, ...] = ()
    """Who may need old rows of the server, the oldest first."""
    recorded_s: float = 0.0
    """How long was recorded where there are no looks."""

    def with_scans(self, scans: Mapping[str, int], counted_s: float | None) -> ServerWindow:
        """The window with the scans of one more standby, which it has counted for so long (None: not known).

        A standby whose statistics are young has been asked nothing: a weekly reader may not have come yet.
        """
        indexes = tuple(
            replace(index, scans=index.scans + scans.get(index.name, 0)) for index in self.indexes
        )
        if counted_s is None or counted_s < LEAST_STATISTICS_S:
            counted = "an unknown time" if counted_s is None else format_duration(counted_s)
            lack = f"a standby's scans of indexes: its statistics count for {counted} only"
            return replace(self, indexes=indexes, lacks=(*self.lacks, lack))
        return replace(self, indexes=indexes, standbys_asked=self.standbys_asked + 1)

    @property
    def seconds(self) -> float:
        """Seconds between the first and the last look; of a recording alone, those that it took."""
        return self.looks[-1].at - self.looks[0].at if self.looks else self.recorded_s

    @property
    def counted_s(self) -> float | None:
        """The least time that statistics of the database have been counted; None without looks."""
        since = counted_since(
            self.started_at, self.reset_at, self.version_num, is_in_recovery=self.is_in_recovery
        )
        return None if since is None or not self.looks else max(0.0, self.looks[-1].at - since)

    def grown(self, name: str) -> float | None:
        """How much a counter grew in the window; None if it is absent or was reset meanwhile."""
        if not self.looks:
            return None
        first, last = self.looks[0].counters.get(name), self.looks[-1].counters.get(name)
        if first is None or last is None or last < first:
            return None
        return last - first

    def total(self, name: str) -> float | None:
        """A counter since its statistics were reset."""
        return self.looks[-1].counters.get(name) if self.looks else None

    def value(self, name: str) -> str | None:
        """A setting of the server as SHOW prints it; None if the version does not have it, or another value
        than the server's was seen (``why_unknown``)."""
        found = self.settings.get(name)
        return None if found is None or found.is_of_session else found.value

    def why_unknown(self, name: str) -> str:
        """Why ``value`` does not tell a setting."""
        found = self.settings.get(name)
        if found is None or not found.is_of_session:
            return "its setting is not known"
        return (
            "it is set for this session by its database or role, or by itself: the server's own value is "
            "not seen"
        )

    def lacks_of(self, what: str) -> str | None:
        """Why something could not be read; None if it could."""
        return next((lack.partition(": ")[2] for lack in self.lacks if lack.startswith(f"{what}: ")), None)

    @property
    def has_standbys(self) -> bool:
        """Whether standbys stream from it, also where the role does not see their state."""
        return bool(self.standbys) or self.lacks_of("standbys") == UNSHOWN_STANDBYS

    def base(self, name: str) -> float | None:
        """A numeric setting of the server in its base unit; None as of ``value``, or if it is no number."""
        found = self.settings.get(name)
        try:
            return None if found is None or found.is_of_session or found.base is None else float(found.base)
        except ValueError:
            return None

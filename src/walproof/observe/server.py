"""Looks at one running server between two moments, through one session that cannot write.

Needs membership in pg_monitor; without it, what may not be seen is named (`ServerWindow.lacks`). No
transaction id is assigned and no object is changed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from types import TracebackType

from walproof.facts.server import FLUSH_WAITS, ServerLook, ServerWindow
from walproof.facts.transactions import SynchronousWait
from walproof.observe.asking import Asking, count_in, number_in, text_in
from walproof.observe.counters import counter_queries
from walproof.observe.marks import read_marks
from walproof.observe.objects import (
    END,
    read_databases,
    read_indexes,
    read_overrides,
    read_settings,
    read_slots,
    read_standbys,
    read_tables,
)
from walproof.observe.slot_use import SlotUse
from walproof.observe.transactions import SynchronousReader, read_horizon, read_prepared
from walproof.probe.connection import connect_foreign
from walproof.probe.pair_queries import STANDBY_END

LOOK_S = 10.0
"""Seconds between two looks at all counters."""
_SAMPLE_S = 0.5
"""Seconds between two samples of what backends wait for."""

_NOW = f"""
    SELECT extract(epoch FROM clock_timestamp()),
           (CASE WHEN pg_is_in_recovery() THEN {STANDBY_END} ELSE pg_current_wal_insert_lsn() END
             - '0/0')::bigint"""
# Aurora does not tell its position below wal_level = logical, and still has counters.
_CLOCK = "SELECT extract(epoch FROM clock_timestamp()), NULL::bigint"
_REDO = "SELECT (redo_lsn - '0/0')::bigint FROM pg_control_checkpoint()"
_PG_WAL = "SELECT sum(size)::bigint FROM pg_ls_waldir()"
_UNARCHIVED = "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"
# The command may hold a secret, so it stays on the server.
_VOID = r"""
    SELECT setting ~ '^\s*((/usr)?/bin/true|true|:|exit 0)\s*$'
           AND coalesce((SELECT setting = '' FROM pg_settings WHERE name = 'archive_library'), true)
      FROM pg_settings WHERE name = 'archive_command'"""
_SYSTEM = "SELECT system_identifier::text FROM pg_control_system()"
# A crash discards all statistics, and only those of the whole server then have the time of it.
RESET = """
    SELECT extract(epoch FROM greatest(d.stats_reset, a.stats_reset))
      FROM pg_stat_database d, pg_stat_archiver a WHERE d.datname = current_database()"""
STARTED = "SELECT extract(epoch FROM pg_postmaster_start_time())"
_ROLE = "SELECT quote_ident(session_user)"
_RIGHTS = """
    SELECT rolsuper OR rolreplication AS "REPLICATION", pg_has_role(oid, 'pg_monitor', 'USAGE') AS pg_monitor
      FROM pg_roles WHERE rolname = session_user"""
_WAITS = """
    SELECT coalesce(wait_event_type || '/' || wait_event, 'running'), count(*), quote_ident(usename)
    FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()
      AND coalesce(wait_event_type, '') <> 'Client'
    GROUP BY 1, 3"""


class ServerObserver:
    """A session on the server, and what has been seen through it so far."""

    def __init__(self, conninfo: str) -> None:
        """Connect. Raises ProbeError."""
        self._session = connect_foreign(conninfo)
        self._ask = Asking(self._session)
        self._looks: list[ServerLook] = []
        self._waits: Counter[str] = Counter()
        self._flush_waits: Counter[str] = Counter()
        self._sampled_s = self._looked_s = 0.0
        self._synchronous = SynchronousReader()
        self._confirming: SynchronousWait | None = None
        self._slot_use = SlotUse()

    def __enter__(self) -> ServerObserver:
        self.look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with closing(self._session):
            pass

    @property
    def is_in_recovery(self) -> bool:
        """Whether it is a standby."""
        return bool(self._ask.value("recovery", "SELECT pg_is_in_recovery()"))

    @property
    def major(self) -> int:
        """Its major version."""
        return self._ask.major

    @property
    def database(self) -> str:
        """The database that is connected to."""
        return self._session.info.dbname

    @property
    def system_identifier(self) -> str | None:
        """The system identifier; None if the server does not tell it."""
        return text_in(self._ask.value("the system identifier", _SYSTEM))

    def look(self) -> None:
        """Read every counter now. Raises ProbeError when the server is gone."""
        ask = self._ask
        now = ask.rows(END, _NOW) or ask.rows("the clock", _CLOCK)
        if not now:
            return
        counters: dict[str, float] = {}
        for query in counter_queries(ask.major):
            counters |= ask.named(query.about, query.sql)
        at, lsn = now[0]
        redo = ask.value("the last checkpoint", _REDO)
        wal = ask.value("the size of pg_wal", _PG_WAL, "pg_ls_waldir")
        waiting = ask.value("segments that wait for the archiver", _UNARCHIVED, "pg_ls_archive_statusdir")
        self._looks.append(
            ServerLook(float(at), count_in(lsn), count_in(redo), counters, count_in(wal), count_in(waiting))
        )
        self._confirming = self._synchronous.read(ask)
        self._slot_use.look(ask)
        self._looked_s = time.monotonic()

    def tick(self) -> None:
        """Sample waits, and look at the counters when it is time. Call it often. Raises ProbeError."""
        now_s = time.monotonic()
        if now_s - self._sampled_s >= _SAMPLE_S:
            self._sampled_s = now_s
            for name, count, role in self._ask.rows("waits", _WAITS):
                self._waits[str(name)] += int(count)
                if name in FLUSH_WAITS:
                    self._flush_waits[str(role)] += int(count)
        if now_s - self._looked_s >= LOOK_S:
            self.look()

    def wait(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Observe for so long, or until ``is_over`` says so. Raises ProbeError when the server is gone."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not is_over():
            self.tick()
            time.sleep(min(left, _SAMPLE_S / 2))

    def window(self) -> ServerWindow:
        """Look one last time, read what is read only once, and return everything. Raises ProbeError."""
        self.look()
        ask = self._ask
        reset = ask.value("when statistics were reset", RESET)
        started = ask.value("when it was started", STARTED)
        version = str(ask.value("the version", "SHOW server_version") or "").split()[0]
        return ServerWindow(
            version=version,
            version_num=self._session.info.server_version,
            system_identifier=self.system_identifier,
            database=self.database,
            is_in_recovery=self.is_in_recovery,
            settings=read_settings(ask),
            looks=tuple(self._looks),
            started_at=number_in(started),
            reset_at=number_in(reset),
            slots=self._slot_use.told(read_slots(ask)),
            standbys=read_standbys(ask),
            tables=read_tables(ask),
            indexes=read_indexes(ask),
            waits=dict(self._waits),
            flush_waits=dict(self._flush_waits),
            overrides=read_overrides(ask),
            role=ask.value("the role", _ROLE),
            synchronous=self._confirming,
            prepared=read_prepared(ask),
            role_lacks=self._role_lacks(),
            marks=read_marks(ask),
            databases=read_databases(ask),
            horizon=read_horizon(ask),
            is_archive_void=ask.value("whether WAL is archived", _VOID),
            lacks=ask.lacks,
        )

    def _role_lacks(self) -> tuple[str, ...] | None:
        rights = self._ask.named("rights of the role", _RIGHTS)
        return tuple(right for right, is_there in rights.items() if not is_there) if rights else None

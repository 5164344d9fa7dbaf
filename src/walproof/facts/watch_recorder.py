"""Writes a history of watched servers that stays within an age and a size, and never stops the watching.

Records are kept whole for an hour, then one in half a minute, after a day one in five minutes. At most three
records of each stretch stay: the first, the worst, and the first in which the server did not answer. Nothing
is averaged, so every kept record was seen: counters and positions give the same rates.

A disk that is full, or a file that cannot be written, is a warning (`HistoryRecorder.problem`). The newest
records wait in memory meanwhile.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from walproof.errors import StoreError, first_line
from walproof.facts.watch import NoAnswer, WatchRecord
from walproof.facts.watch_tables import (
    FORMAT,
    HISTORY_FORMAT,
    METADATA,
    RECORD,
    SERVER,
    SESSION,
    check_format,
    guarded,
    pack,
    writing_engine,
)
from walproof.files import make_private, private_folder

TIERS = ((3600.0, 30.0), (86400.0, 300.0))
"""(age from which on records are thinned, length of a stretch), seconds."""
LEAST_BYTES = 1 << 20
_FLUSH_S = 5.0
"""Seconds between two transactions: what a kill -9 loses."""
_RETRY_S = 30.0
_THIN_S = 60.0
_AHEAD_S = 60.0
"""By how much the clock may run ahead of one that does not jump, for the age of records."""
_DOUBT_S = 3600.0
"""How long nothing goes by its age where, by the clock, all that is there would, and how long a clock has to
stay ahead until it is believed: it may be wrong."""
_WAITING_MOST = 5000
_FULL_SHARE = 0.9
"""Share of the allowed size from which on the oldest records are dropped."""


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How much history is kept."""

    keep_s: float = 30 * 86400.0
    bytes_most: int = 1 << 30


class HistoryRecorder:
    """Context manager: writes records while its block lasts. Raises StoreError when it cannot begin.

    ``clock``: Unix time; ``monotonic``: seconds of a clock that does not jump.
    """

    def __init__(
        self,
        path: Path,
        limits: HistoryLimits,
        every_s: float,
        walproof_version: str,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path.absolute()
        self._limits = limits
        self._clock, self._monotonic = clock, monotonic
        self._waiting: deque[tuple[str, WatchRecord]] = deque(maxlen=_WAITING_MOST)
        self._servers: dict[str, int] = {}
        self._flush_due_s = self._monotonic() + _FLUSH_S
        self._thin_due_s = 0.0
        self._began_at, self._began_s = self._clock(), self._monotonic()
        self._doubted_until_s = self._began_s
        self._ahead_since_s: float | None = None
        self.problem: str | None = None
        """Why nothing is written at present, in SQLite's words."""
        try:
            private_folder(self._path.parent)
            make_private(self._path)
        except OSError as error:
            raise StoreError(
                f'history "{self._path}" cannot be created: {error.strerror}',
                hint="Name a file that you can write with --history.",
            ) from error
        self._engine = writing_engine(self._path)
        weakref.finalize(self, self._engine.dispose)
        self.session = self._begin(every_s, walproof_version)

    def __enter__(self) -> HistoryRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        self._engine.dispose()

    def add(self, records: Sequence[tuple[str, WatchRecord]]) -> None:
        """Keep (server, record); it is written within some seconds."""
        self._waiting += records
        if self._monotonic() >= self._flush_due_s:
            self.flush()

    def flush(self) -> None:
        """Write what waits. A failure is reported by `problem` and tried again later."""
        now_s = self._monotonic()
        try:
            waiting = list(self._waiting)
            with self._engine.begin() as connection:
                for server, record in waiting:
                    connection.execute(RECORD.insert().values(**self._row(connection, server, record)))
            for _ in waiting:
                self._waiting.popleft()
            self.problem = None
            self._flush_due_s = now_s + _FLUSH_S
        except SQLAlchemyError as error:
            self._failed(error, now_s)
        if now_s >= self._thin_due_s:
            self._thin_due_s = now_s + _THIN_S
            try:
                self._thin()
            except SQLAlchemyError as error:
                self._failed(error, now_s)

    def _failed(self, error: SQLAlchemyError, now_s: float) -> None:
        # A server that was named within the transaction is not there.
        self._servers.clear()
        self.problem = first_line(getattr(error, "orig", None) or error)
        self._flush_due_s = now_s + _RETRY_S

    def _begin(self, every_s: float, walproof_version: str) -> int:
        with guarded(self._path, "written"), self._engine.begin() as connection:
            if not sa.inspect(connection).get_table_names():
                METADATA.create_all(connection)
                connection.execute(FORMAT.insert().values(format=HISTORY_FORMAT))
            check_format(connection, self._path)
            newest = connection.scalar(sa.select(sa.func.max(RECORD.c.at)))
            if newest is not None and newest < self._began_at - self._limits.keep_s:
                self._doubted_until_s += _DOUBT_S
            made = connection.execute(
                SESSION.insert().values(
                    began_at=self._began_at, every_s=every_s, walproof_version=walproof_version
                )
            )
            assert made.inserted_primary_key is not None
            return int(made.inserted_primary_key[0])

    def _row(self, connection: sa.Connection, server: str, record: WatchRecord) -> dict[str, object]:
        return {
            "server_id": self._server(connection, server),
            "session": record.session,
            "at": record.at,
            "tier": 0,
            "is_gone": isinstance(record.seen, NoAnswer),
            "severity": record.severity,
            "crash_s": None if record.clock is None else record.clock.warm.seconds,
            "body": pack(record),
        }

    def _server(self, connection: sa.Connection, name: str) -> int:
        if name not in self._servers:
            known = connection.scalar(sa.select(SERVER.c.id).where(SERVER.c.name == name))
            if known is None:
                made = connection.execute(SERVER.insert().values(name=name))
                assert made.inserted_primary_key is not None
                known = made.inserted_primary_key[0]
            self._servers[name] = int(known)
        return self._servers[name]

    def _thin(self) -> None:
        now = self._believed()
        if self._monotonic() >= self._doubted_until_s:
            self._thin_by_age(now)
        while self._used_bytes() > _FULL_SHARE * self._limits.bytes_most:
            with self._engine.begin() as connection:
                if not _drop_oldest(connection):
                    break
        with self._engine.connect() as connection:
            # Gives free pages back to the disk.
            for pragma in ("incremental_vacuum", "wal_checkpoint(PASSIVE)"):
                done = connection.exec_driver_sql(f"PRAGMA {pragma}")
                if done.returns_rows:
                    done.fetchall()

    def _believed(self) -> float:
        """Now, for the age of records: what is removed for a clock that was set ahead never comes back. But
        one that stays ahead was behind before, as on a machine that starts without knowing the time."""
        now, steady_s = self._clock(), self._monotonic()
        at_most = self._began_at + steady_s - self._began_s + _AHEAD_S
        if now <= at_most:
            self._ahead_since_s = None
            return now
        if self._ahead_since_s is None:
            self._ahead_since_s = steady_s
        if steady_s - self._ahead_since_s < _DOUBT_S:
            return at_most
        self._began_at, self._began_s, self._ahead_since_s = now, steady_s, None
        return now

    def _thin_by_age(self, now: float) -> None:
        with self._engine.begin() as connection:
            connection.execute(RECORD.delete().where(RECORD.c.at < now - self._limits.keep_s))
            for tier, (age_s, length_s) in enumerate(TIERS, start=1):
                _thin(connection, tier, (now - age_s) // length_s * length_s, length_s)

    def _used_bytes(self) -> int:
        with self._engine.connect() as connection:
            pages, free, size = (
                int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size


def _thin(connection: sa.Connection, tier: int, until: float, length_s: float) -> None:
    stretch = (RECORD.c.server_id, RECORD.c.session, sa.cast(RECORD.c.at / length_s, sa.Integer))
    worst = (RECORD.c.severity.desc(), RECORD.c.crash_s.desc().nulls_last(), RECORD.c.number)
    rank = sa.func.row_number()
    due = sa.and_(RECORD.c.tier < tier, RECORD.c.at < until)
    ranked = (
        sa.select(
            RECORD.c.number,
            rank.over(partition_by=(*stretch, RECORD.c.is_gone), order_by=RECORD.c.number).label("first"),
            rank.over(partition_by=stretch, order_by=worst).label("worst"),
        )
        .where(due)
        .subquery()
    )
    spare = sa.select(ranked.c.number).where(ranked.c.first > 1, ranked.c.worst > 1)
    connection.execute(RECORD.delete().where(RECORD.c.number.in_(spare)))
    connection.execute(RECORD.update().where(due).values(tier=tier))


def _drop_oldest(connection: sa.Connection) -> bool:
    """Drop a twentieth of all records. Returns whether there was any."""
    count = int(connection.scalar(sa.select(sa.func.count()).select_from(RECORD)) or 0)
    oldest = sa.select(RECORD.c.number).order_by(RECORD.c.number).limit(max(1, count // 20))
    connection.execute(RECORD.delete().where(RECORD.c.number.in_(oldest)))
    return count > 0

"""One look at a server that is watched: a handful of short questions through one session that cannot write.

Lists of folders (pg_wal, archive_status) may be long where a server is in trouble. They are asked for again
only when twenty times as long has passed as they took, so that looking costs a server a twentieth at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import ProbeError
from walproof.facts.server import UNSHOWN_STANDBYS
from walproof.facts.watch import (
    WatchedArchiver,
    WatchedArrival,
    WatchedCheckpoint,
    WatchedReceiver,
    WatchedSlot,
    WatchedStandby,
    WatchedSubscription,
    WatchLook,
)
from walproof.observe import watch_queries as queries
from walproof.observe.asking import Asking, count_in, number_in, text_in
from walproof.observe.counters import counter_queries
from walproof.observe.marks import read_marks
from walproof.observe.objects import END
from walproof.observe.transactions import SynchronousReader, read_prepared
from walproof.probe.pair_queries import walsender_name

OWN_SLOTS = "walproof_"
"""The names of walproof's own slots begin like this; they are not reported."""
_SETTINGS_S = 30.0
_REST = 20.0
"""How often the time that a list of files took has to pass before it is asked for again."""
_WATCHED = ("checkpoints", "WAL")
"""Counters that are read."""
NAMES = "synchronous_standby_names"
PREPARED_MOST = "max_prepared_transactions"
PG_WAL = "the size of pg_wal"
READY = "segments that wait for the archiver"
ARRIVAL = "the arrival of WAL"
STANDBYS = "standbys"
_NO_STANDBYS = ("walproof", "pg_basebackup")
"""How names of walsenders begin that serve no standby; a role without rights sees no more of them."""


class Looker:
    """A session on one server."""

    def __init__(
        self, session: psycopg.Connection[TupleRow], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._session = session
        self._ask = Asking(session)
        self._clock = clock
        self._settings: dict[str, str] = {}
        self._settings_s = -_SETTINGS_S
        self._system: str | None = None
        self._version: tuple[str, int] | None = None
        self._is_unset: bool | None = None
        self._marks: tuple[str, ...] = ()
        self._lists: dict[str, tuple[float, tuple[Any, ...]]] = {}
        self._synchronous = SynchronousReader()
        self.answered_s: float | None = None
        """When the look that is under way had its first answer; None while that is waited for."""

    def look(self) -> WatchLook:
        """Look now. Raises ProbeError when the server is gone or does not even show its clock."""
        self.answered_s = None
        now = self._ask.rows(END, queries.NOW) or self._ask.rows("the clock", queries.CLOCK)
        if not now:
            raise ProbeError("the server does not tell its clock", detail="; ".join(self._ask.lacks))
        at, is_in_recovery, lsn, started_at = now[0]
        seen_s = self.answered_s = self._clock()
        self._identify(seen_s)
        assert self._version is not None
        version, version_num = self._version
        replayed, is_paused, has_target = self._replay() if is_in_recovery else (None, None, False)
        return WatchLook(
            seen_s=seen_s,
            at=float(at),
            version=version,
            version_num=version_num,
            system_identifier=self._system,
            started_at=number_in(started_at),
            is_in_recovery=bool(is_in_recovery),
            lsn=count_in(lsn),
            settings=self._settings,
            checkpoint=self._checkpoint(),
            counters=self._counters(),
            pg_wal_bytes=_first(self._listed(PG_WAL, queries.PG_WAL, "pg_ls_waldir")),
            archiver=self._archiver(),
            slots=self._slots(),
            standbys=self._standbys(),
            receiver=self._receiver() if is_in_recovery else None,
            subscriptions=() if is_in_recovery else self._subscriptions(),
            replayed=replayed,
            is_paused=is_paused,
            has_recovery_target=has_target,
            synchronous=self._synchronous.read(self._ask) if self._settings.get(NAMES) else None,
            prepared=read_prepared(self._ask) if self._settings.get(PREPARED_MOST, "0") != "0" else (),
            marks=self._marks,
            arrival=self._arrival() if is_in_recovery else None,
            lacks=self._ask.lacks,  # the last: what the others could not read is in it
        )

    def _identify(self, now_s: float) -> None:
        """Settings may change at a reload; the server of a session stays the same."""
        ask = self._ask
        if self._version is None:
            rows = ask.rows("the version", queries.WHO)
            if not rows:
                # Cancelled, in a conflict with recovery, or without memory: another look will tell.
                why = ask.lacks[-1] if ask.lacks else None
                raise ProbeError("the server does not tell its version", detail=why)
            ((text, number),) = rows
            self._version = str(text).split()[0], int(number)
            self._system = ask.value("the system identifier", queries.SYSTEM)
            self._marks = read_marks(ask)
        if now_s - self._settings_s >= _SETTINGS_S:
            # Asked again: a right that has been granted meanwhile is no longer missing.
            self._ask = ask = Asking(self._session)
            rows = ask.rows("settings", queries.SETTINGS, [list(queries.SETTINGS_READ)])
            self._settings = {str(name): str(value) for name, value in rows} or self._settings
            self._is_unset = ask.value("whether archiving is set up", queries.UNSET)
            self._settings_s = now_s

    def _checkpoint(self) -> WatchedCheckpoint | None:
        rows = self._ask.rows("the last checkpoint", queries.CHECKPOINT)
        if not rows:
            return None
        redo, at, timeline = rows[0]
        return WatchedCheckpoint(int(redo), float(at), int(timeline))

    def _counters(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for query in counter_queries(self._ask.major):
            if query.about in _WATCHED:
                found |= self._ask.named(query.about, query.sql)
        return found

    def _archiver(self) -> WatchedArchiver | None:
        rows = self._ask.rows("the archiver", queries.ARCHIVER)
        if not rows:
            return None
        archived, failed, last, last_at, failed_segment, failed_at = rows[0]
        ready: tuple[Any, ...] = ()
        is_unset = None
        if self._settings.get("archive_mode", "off") != "off":
            ready = self._listed(READY, queries.READY, "pg_ls_archive_statusdir")
            is_unset = self._is_unset
        return WatchedArchiver(
            int(archived), int(failed), text_in(last), number_in(last_at), text_in(failed_segment),
            number_in(failed_at), _first(ready), number_in(ready[1]) if ready else None, is_unset,
        )  # fmt: skip

    def _slots(self) -> tuple[WatchedSlot, ...]:
        return tuple(
            WatchedSlot(
                str(name), str(kind), bool(active), bool(temporary), count_in(restart), text_in(status),
                count_in(safe), number_in(inactive), text_in(database), count_in(confirmed), count_in(pid),
                bool(synced), text_in(reason),
            )
            for name, kind, active, temporary, restart, status, safe, inactive, database, confirmed, pid,
            synced, reason in self._ask.rows("slots", queries.slots(self._ask.major))
            if not str(name).startswith(OWN_SLOTS)
        )  # fmt: skip

    def _standbys(self) -> tuple[WatchedStandby, ...]:
        found = []
        for row in self._ask.rows(STANDBYS, queries.STANDBYS):
            name, pid, state, sync_state, slot, sent, written, flushed, replayed, *others = row
            reply_age_s, wait, is_logical, host = others
            is_own = slot is not None and str(slot).startswith(OWN_SLOTS)
            if state is None and not (is_own or is_logical or str(name).startswith(_NO_STANDBYS)):
                self._ask.lack(STANDBYS, UNSHOWN_STANDBYS)
            # A backup has no position but what was sent; a role without rights sees only names.
            if is_own or state in (None, "backup") or replayed is None:
                continue
            found.append(
                WatchedStandby(
                    str(name), int(pid), str(state), str(sync_state), text_in(slot), int(sent or 0),
                    int(written or 0), int(flushed or 0), int(replayed), number_in(reply_age_s), str(wait),
                    bool(is_logical), text_in(host),
                )
            )  # fmt: skip
        return tuple(found)

    def _replay(self) -> tuple[int | None, bool | None, bool]:
        """How far a standby has replayed, whether that is paused, and whether it has a target; a promotion in
        between ends them."""
        rows = self._ask.rows("the replay", queries.REPLAY)
        if not rows or rows[0][0] is None:
            return None, None, False
        return int(rows[0][0]), bool(rows[0][1]), bool(rows[0][2])

    def _receiver(self) -> WatchedReceiver | None:
        rows = self._ask.rows("the walreceiver", queries.RECEIVER)
        if not rows:
            return None
        cluster_name, conninfo, slot, port = rows[0]
        return WatchedReceiver(walsender_name(conninfo or "", cluster_name), text_in(slot), count_in(port))

    def _arrival(self) -> WatchedArrival | None:
        """How WAL comes; None for a role that may not see it, and after a promotion."""
        rows = self._ask.rows(ARRIVAL, queries.ARRIVAL)
        if not rows:
            return None
        streams, should_stream, restores, wait, is_in_recovery = rows[0]
        if should_stream is None or wait is None:
            if is_in_recovery:
                self._ask.lack(ARRIVAL, "pg_monitor is not granted")
            return None
        return WatchedArrival(bool(streams), bool(should_stream), bool(restores), str(wait))

    def _subscriptions(self) -> tuple[WatchedSubscription, ...]:
        rows = self._ask.rows("subscriptions", queries.subscriptions(self._ask.major))
        return tuple(
            WatchedSubscription(
                str(name),
                bool(enabled),
                text_in(slot),
                bool(has_worker),
                number_in(age_s),
                count_in(errors),
                int(oid),
            )
            for name, enabled, slot, has_worker, age_s, errors, oid in rows
        )

    def _listed(self, about: str, query: str, calls: str) -> tuple[Any, ...]:
        """Figures from a list of files; the more the list costs, the older they may be."""
        due_s, found = self._lists.get(about, (0.0, ()))
        begun_s = self._clock()
        if begun_s >= due_s:
            found = self._ask.row(about, query, calls)
            ended_s = self._clock()
            self._lists[about] = ended_s + _REST * (ended_s - begun_s), found
        return found


def _first(row: tuple[Any, ...]) -> int | None:
    return count_in(row[0]) if row else None

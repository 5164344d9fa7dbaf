"""Observes a running pair from outside: two sessions that only read, and /proc if the standby is on this
machine.

The rights of pg_monitor are enough on both servers. A `PairObserver` looks at both, then counts for the
length of a window what the processes wait for, then looks again.
"""

from __future__ import annotations

import itertools
import time
from types import TracebackType

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import ConninfoError, ProbeError, one_line
from walproof.facts.replication import Look, ReplicationWindow, Sender, Session, Standby, Upstream
from walproof.facts.trail import Trail
from walproof.probe import pair_queries as queries
from walproof.probe.connection import connect_foreign
from walproof.probe.pair_check import Identity, check_pair, identify
from walproof.probe.processes import process_kind, read_title
from walproof.probe.startup import is_here, read_startup, state_of

LOOK_HZ = 10.0
"""Looks at wait events each second within a window."""
_TRIES = 5
_STREAMS = 2
"""Looks in a row: a walreceiver may stream for a moment before it is refused."""
_REST = 20.0
"""A list of files is asked for again when so many times as long has passed as it took."""
_CONFLICTS = ("IPC/RecoveryConflict", "Lock/", "BufferPin/", "Buffer/BufferCleanup")
# These may hold a password: only whether they are set becomes a fact.
_SECRETS = ("primary_conninfo", "restore_command")

_Connection = psycopg.Connection[TupleRow]


class PairObserver:
    """Context manager: watches ``standby`` and what it follows, both given by a libpq connection string.

    ``application_name`` says which of the upstream's walsenders serves the standby, if its own settings do
    not. Raises ProbeError: a server cannot be reached, a right is missing, or they are not a pair."""

    def __init__(self, upstream: str, standby: str, application_name: str | None = None) -> None:
        self._upstream_conninfo, self._standby_conninfo = upstream, standby
        self._application_name = application_name
        self._trail = Trail()
        self._notes: list[str] = []
        self._streamed = 0
        """Looks in a row at which the standby streamed."""
        self._oldest: str | None = None
        self._oldest_due_s = 0.0

    def __enter__(self) -> PairObserver:
        self._upstream = _open(self._upstream_conninfo, "primary")
        try:
            self._standby = _open(self._standby_conninfo, "standby")
            try:
                self.upstream_identity = identify(self._upstream, "primary")
                self.standby_identity = identify(self._standby, "standby")
                check_pair(self.upstream_identity, self.standby_identity)
            except BaseException:
                self._standby.close()
                raise
        except BaseException:
            self._upstream.close()
            raise
        self._is_here = is_here(self._standby)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._standby.close()
        self._upstream.close()

    def observe(self, seconds: float) -> ReplicationWindow:
        """Watch for that long. Raises ProbeError when a server goes away, or is promoted."""
        standby_settings: dict[str, str] = dict(self._rows(self._standby, queries.SETTINGS))
        upstream_settings: dict[str, str] = dict(self._rows(self._upstream, queries.SETTINGS))
        for session, identity in (
            (self._upstream, self.upstream_identity),
            (self._standby, self.standby_identity),
        ):
            if identity.is_in_recovery and not self._row(session, queries.IN_RECOVERY)[0]:
                raise ProbeError(f"the server of --{identity.which} has been promoted")
        self._notes = []
        if not self.upstream_identity.lists_wal:
            self._notes.append(
                f'Role "{self.upstream_identity.role}" may not list pg_wal on the upstream, so whether WAL '
                "that the standby needs was removed is not known."
            )
        name = self._application_name
        if name is None:
            conninfo = standby_settings.get("primary_conninfo", "")
            name = queries.walsender_name(conninfo, standby_settings.get("cluster_name", ""))
        for settings in (standby_settings, upstream_settings):
            for secret in _SECRETS:
                settings[secret] = "(set)" if settings.get(secret) else ""
        waits: dict[str, dict[str, int]] = {"startup": {}, "walreceiver": {}, "walsender": {}}
        states: dict[str, dict[str, int]] = {}
        blockers: tuple[Session, ...] = ()
        first = self._look(name)
        pids = self._pids()
        until = first.at_s + seconds
        for tick in itertools.count(1):
            due = first.at_s + tick / LOOK_HZ
            if due >= until:
                break
            time.sleep(max(0.0, due - time.monotonic()))
            if time.monotonic() >= until:
                break
            is_held = self._count(first.upstream.sender, waits, states, pids)
            if is_held and not blockers:
                blockers = tuple(Session(*row) for row in self._rows(self._standby, queries.BLOCKERS))
        time.sleep(max(0.0, until - time.monotonic()))
        last = self._look(name)
        if last.upstream.sender is None and last.standby.receiver is not None:
            self._notes.append(
                "The standby streams, but not from the server of --primary: it has no walsender for it, and "
                "positions on the way are not known. "
                "Is there a standby in between, or is it another server with the same history?"
            )
        skew_s, error_s = self._skew()
        return ReplicationWindow(
            first=first,
            last=last,
            waits=waits,
            states=states,
            trail=self._trail.points,
            upstream_settings=upstream_settings,
            standby_settings=standby_settings,
            segment_bytes=self.standby_identity.segment_bytes,
            is_cascade=self.upstream_identity.is_in_recovery,
            is_local=last.standby.startup is not None,
            clock_skew_s=skew_s,
            clock_skew_error_s=error_s,
            blockers=blockers,
            notes=tuple(self._notes),
        )

    def _look(self, name: str) -> Look:
        at_s = time.monotonic()
        upstream = self._look_upstream(name)
        self._trail.add(at_s, upstream.inserted)
        standby = self._look_standby()
        is_streaming = standby.receiver is not None and standby.receiver.status == "streaming"
        self._streamed = self._streamed + 1 if is_streaming else 0
        return Look(at_s, upstream, standby)

    def _look_upstream(self, name: str) -> Upstream:
        clock_s, inserted, flushed = self._row(
            self._upstream, queries.upstream(self.upstream_identity.is_in_recovery)
        )
        receiver = self._receiver_slot
        senders = self._rows(self._upstream, queries.SENDERS)
        mine = [row for row in senders if receiver and row[9] == receiver]
        mine = mine or [row for row in senders if row[1] == name]
        if len(mine) > 1:
            self._notes.append(f'{len(mine)} walsenders are called "{name}": the furthest behind is taken')
        row = min(mine, key=lambda row: row[4] or 0) if mine else None
        sender = None
        if row is not None:
            sender = Sender(
                pid=row[0], application_name=row[1], state=row[2], sync_state=row[3], sent=row[4] or 0,
                write_lag_s=row[5], flush_lag_s=row[6], replay_lag_s=row[7], reply_age_s=row[8],
            )  # fmt: skip
        slots = self._rows(self._upstream, queries.SLOTS, (receiver,)) if receiver else []
        slot_status = slots[0][0] if slots else None
        return Upstream(clock_s, inserted, flushed, sender, self._oldest_segment(), slot_status)

    def _oldest_segment(self) -> str | None:
        """The oldest segment on the upstream: of interest only while the standby does not stream."""
        if self._streamed >= _STREAMS or not self.upstream_identity.lists_wal:
            return None
        begun_s = time.monotonic()
        if begun_s >= self._oldest_due_s:
            (self._oldest,) = self._row(self._upstream, queries.OLDEST_SEGMENT)
            ended_s = time.monotonic()
            self._oldest_due_s = ended_s + _REST * (ended_s - begun_s)
        return self._oldest

    def _look_standby(self) -> Standby:
        version = self.standby_identity.version_num
        row = self._row(self._standby, queries.standby(version))
        clock_s, received, replayed, committed_s, pause_state, reads, conflicts, prefetch = row
        receivers = self._rows(self._standby, queries.RECEIVER)
        startup = None
        if self._is_here and (pid := self._pids().get("startup")) is not None:
            startup = read_startup(pid)
            if startup is None:
                self._notes.append("the startup process cannot be seen in /proc of this machine")
        return Standby(
            clock_s=clock_s,
            received=received,
            replayed=replayed,
            replayed_commit_s=committed_s,
            pause_state=pause_state,
            receiver=queries.receiver_of(receivers[0]) if receivers else None,
            conflicts=conflicts,
            prefetch=prefetch,
            startup_reads=reads,
            startup=startup,
        )

    def _count(
        self,
        sender: Sender | None,
        waits: dict[str, dict[str, int]],
        states: dict[str, dict[str, int]],
        pids: dict[str, int],
    ) -> bool:
        """Count what each process does at this moment; whether replay waits for a session."""
        at_s = time.monotonic()
        inserted, event = self._row(
            self._upstream,
            queries.tick(self.upstream_identity.is_in_recovery),
            (sender.pid if sender is not None else None,),
        )
        self._trail.add(at_s, inserted)
        if event is not None:
            _add(waits["walsender"], event)
        is_held = False
        for kind, pid, waiting in self._rows(self._standby, queries.PROCESSES):
            _add(waits[kind], waiting)
            pids[kind] = pid
            is_held = is_held or (kind == "startup" and waiting.startswith(_CONFLICTS))
            # In a container or behind a tunnel it is the number of another process here.
            if not self._is_here or process_kind(read_title(pid)) != kind:
                continue
            if (state := state_of(pid)) is not None:
                _add(states.setdefault(kind, {}), state)
        return is_held

    def _pids(self) -> dict[str, int]:
        return {kind: pid for kind, pid, _ in self._rows(self._standby, queries.PROCESSES)}

    @property
    def _receiver_slot(self) -> str | None:
        rows = self._rows(self._standby, queries.SLOT_NAME)
        return rows[0][0] if rows else None

    def _skew(self) -> tuple[float, float]:
        """The standby's clock minus the upstream's: one answer between two answers of the other."""
        begun = time.monotonic()
        before = float(self._row(self._upstream, queries.CLOCK)[0])
        other = float(self._row(self._standby, queries.CLOCK)[0])
        after = float(self._row(self._upstream, queries.CLOCK)[0])
        return other - (before + after) / 2, (time.monotonic() - begun) / 2

    def _row(self, session: _Connection, sql: str, parameters: tuple[object, ...] = ()) -> TupleRow:
        return self._rows(session, sql, parameters)[0]

    def _rows(self, session: _Connection, sql: str, parameters: tuple[object, ...] = ()) -> list[TupleRow]:
        tries = 0
        while True:
            tries += 1
            try:
                return session.execute(sql.encode(), parameters or None).fetchall()
            except psycopg.Error as error:
                # A conflict with recovery may cancel our own query.
                is_conflict = isinstance(error, psycopg.errors.SerializationFailure)
                if is_conflict and tries < _TRIES:
                    continue
                which = "standby" if session is self._standby else "primary"
                raise ProbeError(
                    f"could not observe the {which}: {one_line(error)}",
                    hint=f"Recovery cancelled the query {_TRIES} times: look again later."
                    if is_conflict
                    else "The rights of pg_monitor are needed on both servers.",
                ) from error


def _open(conninfo: str, which: str) -> _Connection:
    try:
        return connect_foreign(conninfo)
    except (ConninfoError, ProbeError) as error:
        said = error.detail or error.message
        hint = error.hint or f"Check --{which}: a libpq connection string or URI."
        if "hot standby mode is disabled" in said.lower() or "not accepting connections" in said.lower():
            hint = "A standby can be watched only with hot_standby = on, once it has become consistent."
        elif "starting up" in said:
            hint = "It is in recovery and not consistent yet, or it is a standby with hot_standby = off."
        raise ProbeError(f"could not connect to the {which}", detail=said, hint=hint) from error


def _add(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


__all__ = ["LOOK_HZ", "Identity", "PairObserver"]

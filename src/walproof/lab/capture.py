"""Takes a recording of a running server's WAL, alongside production.

One session holds a temporary slot and streams from it (now and then another takes over); a second one asks
how far the WAL has come. Whatever becomes of walproof, the server ends the first session, and the slot with
it. While walproof lives, it ends the recording when the server keeps too much WAL for it.

Needs the attribute REPLICATION, membership in pg_monitor, and a line for replication in pg_hba.conf; reads
only.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import DiskError, ProbeError, WalError, one_line
from walproof.files import make_private, private_folder, write_whole
from walproof.lab.receiver import DISK, SegmentReceiver
from walproof.lab.segments import SYNC_BYTES, SegmentFolder, StrippedFolder
from walproof.probe.bursts import BurstStream, may_rest
from walproof.probe.connection import connect_foreign, streaming_parameters
from walproof.probe.relations import read_relations
from walproof.probe.replication import ReplicationStream
from walproof.probe.slot import SlotLook, look_at_slot
from walproof.settings.session import PATIENCE_S
from walproof.units import Lsn, format_bytes
from walproof.wal.images import write_images
from walproof.wal.recording import (
    RECORDED_SETTINGS,
    RELATIONS_FILE,
    UNFINISHED,
    Position,
    Recording,
    write_recording,
)
from walproof.wal.relations import RelationMap
from walproof.wal.segment import segment_holding
from walproof.wal.strip import without_words

LEAST_FREE_BYTES = 1 << 30
"""A capture does not begin with less than this on the disk, and ends before less is left."""
MAX_RETAINED_BYTES = 1 << 30
"""A capture ends when the server keeps more WAL than this for it."""
_POLL_S = 0.2
_POSITION_S = 1.0
_LAST_WORD_S = 2.0
"""How long the stream may take to say why it ended, once the other session has ended."""
_END_PATIENCE_S = 30.0
_GONE_PATIENCE_S = 10.0
_NOTE_S, _NOTE_SHARE = 60.0, 0.01
"""What is known is written after so many seconds, or this share of the time so far if that is longer: all
positions are written each time."""
_POSITION_BYTES = 64
"""The most bytes of one position in the JSON."""
_ROOM_MOST_BYTES = 16 << 20
_SYNCHRONOUS = "synchronous_standby_names would make a synchronous standby of the recording"

Watch = Callable[[float, int, int], None]
"""Told the seconds so far, the bytes received, and the bytes that are left on the disk."""


@dataclass(frozen=True, slots=True)
class CaptureOrder:
    """What to capture."""

    conninfo: str
    seconds: float
    folder: Path
    least_free_bytes: int = LEAST_FREE_BYTES
    max_retained_bytes: int = MAX_RETAINED_BYTES
    """WAL that the server may keep for the recording."""
    timeout_s: float = PATIENCE_S
    """After so many seconds of silence, server and walproof give each other up."""
    is_stripped: bool = False
    """Whether contents and names never reach the disk."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a capture streams."""

    slot: str
    is_encrypted: bool
    max_slot_wal_keep_size: str
    """The server's own limit for every slot; -1 means none."""


Tell = Callable[[Beginning], None]
"""Called once, when WAL is about to come."""


def capture(order: CaptureOrder, watch: Watch, is_over: Callable[[], bool], tell: Tell) -> Recording:
    """Record until the time or the disk's room is over, ``is_over`` says so, or the server keeps too much.

    What was received stays in the folder, whatever happens, and what is known about it is written there
    at the beginning, now and then, and at the end. Raises ProbeError; DiskError for the folder.
    """
    _make_folder(order.folder, order.least_free_bytes)
    relations = None if order.is_stripped else _read_names(order)
    kind = StrippedFolder if order.is_stripped else SegmentFolder
    with connect_foreign(order.conninfo) as control:
        settings, segment_bytes, system_identifier = _prepare(control, order)
        slot = f"walproof_{secrets.token_hex(6)}"
        parameters = streaming_parameters(order.conninfo, control, order.timeout_s)
        rests = may_rest(control)
        with (
            _Room(order) as room,
            BurstStream(parameters, slot, rests=rests, timeout_s=order.timeout_s) as stream,
        ):
            identity = stream.session.identify()
            named = system_identifier if relations is None else relations.system_identifier
            if not identity.system_identifier == named == system_identifier:
                raise ProbeError("the server that streams is not the one that was asked")
            start = segment_holding(identity.flushed, segment_bytes)
            stream.start(start, identity.timeline)
            if relations is not None:
                # Not before: a capture that was refused leaves an empty folder, so it can be asked for again.
                _write_names(order.folder, relations)
            tell(Beginning(slot, stream.session.is_encrypted, _one(control, "SHOW max_slot_wal_keep_size")))
            with (
                kind(order.folder, identity.timeline, segment_bytes, start) as segments,
                SegmentReceiver(stream, segments, order.timeout_s, lambda: _hang_up(control)) as receiver,
            ):
                notes = _Notes(
                    order, system_identifier, control.info.server_version, identity.timeline,
                    segment_bytes, settings,
                )  # fmt: skip
                made = _Capture(order, control, receiver, slot, notes)
                why = made.run(watch, is_over)
                receiver.stop()
                received = receiver.position
                samples = segments.finish()
            room.give_back()
            recording = notes.write(made.positions, received, why)
            if samples is not None:
                write_images(order.folder, samples)
        _wait_until_gone(control, slot)
    return recording


@dataclass(frozen=True, slots=True)
class _Notes:
    """Writes ``recording.json``, without which segments are no recording."""

    order: CaptureOrder
    system_identifier: int
    version_num: int
    timeline: int
    segment_bytes: int
    settings: Mapping[str, str]

    def write(self, positions: Sequence[Position], received: Lsn, why: str) -> Recording:
        """Write what is known about the WAL up to ``received``, and return it. Raises WalError."""
        first, last = positions[0], positions[-1]
        recording = Recording(
            system_identifier=self.system_identifier,
            version_num=self.version_num,
            timeline=self.timeline,
            segment_bytes=self.segment_bytes,
            settings=self.settings,
            began=first,
            ended=Position(last.at, min(max(received, first.lsn), last.lsn)),
            positions=tuple(positions),
            ended_because=why,
        )
        write_recording(self.order.folder, without_words(recording) if self.order.is_stripped else recording)
        return recording


class _Capture:
    """Looks at the server while WAL is received."""

    def __init__(
        self,
        order: CaptureOrder,
        control: psycopg.Connection[TupleRow],
        receiver: SegmentReceiver,
        slot: str,
        notes: _Notes,
    ) -> None:
        self._order = order
        self._notes = notes
        self._control = control
        self._receiver = receiver
        self._slot = slot
        self._start = receiver.position
        self.positions: list[Position] = []

    def run(self, watch: Watch, is_over: Callable[[], bool]) -> str:
        """Return why the recording ended."""
        try:
            self._look()
            self._note()
            why = self._wait(watch, is_over)
            last = self._look()
            if why in ("time", "interrupted"):
                why = self._catch_up(last.flushed) or why
        except psycopg.Error as error:
            why = one_line(error)
            if not self.positions:
                raise ProbeError("could not ask how far the WAL has come", detail=why) from error
            # If walproof stood still, the server has ended both sessions, and the stream knows why.
            self._receiver.over.wait(_LAST_WORD_S)
        return self._receiver.ended or why

    def _wait(self, watch: Watch, is_over: Callable[[], bool]) -> str:
        first = self.positions[0].lsn
        began_s, looked_s, noted_s = time.monotonic(), 0.0, 0.0
        every_s = _POSITION_S
        while (passed_s := time.monotonic() - began_s) < self._order.seconds:
            if is_over():
                return "interrupted"
            if self._receiver.over.is_set():
                return "the stream ended"
            free = shutil.disk_usage(self._order.folder).free
            if free < self._order.least_free_bytes:
                return DISK
            if passed_s - looked_s >= every_s:
                looked_s = passed_s
                look = self._look()
                if look.is_synchronous:
                    return _SYNCHRONOUS
                if (excess := self._excess(look)) is not None:
                    return excess
                # Nearer to the limit a second may be too long.
                is_near = self._retained(look) > self._order.max_retained_bytes / 2
                every_s = _POLL_S if is_near else _POSITION_S
                watch(passed_s, max(0, self._receiver.position - first), free)
                if passed_s - noted_s >= max(_NOTE_S, passed_s * _NOTE_SHARE):
                    noted_s = passed_s
                    self._note()
            self._receiver.over.wait(_POLL_S)
        return "time"

    def _catch_up(self, end: Lsn) -> str | None:
        """Wait for what was written until now, which is part of the recording. Returns why it waited no
        longer, if so."""
        until = time.monotonic() + _END_PATIENCE_S
        excess = None
        while self._receiver.position < end and time.monotonic() < until and excess is None:
            self._receiver.wait_for(end, _POSITION_S)
            if self._receiver.over.is_set():
                break
            excess = self._excess(look_at_slot(self._control, self._slot))
        return excess

    def _excess(self, look: SlotLook) -> str | None:
        """What to say when the server keeps too much."""
        retained, most = self._retained(look), self._order.max_retained_bytes
        if retained <= most:
            return None
        return (
            f"the server retained {format_bytes(retained)} of WAL for the recording, more than "
            f"{format_bytes(most)} (--max-retained): the network, or the disk of the recording, is slower "
            "than the server writes"
        )

    def _look(self) -> SlotLook:
        look = look_at_slot(self._control, self._slot)
        self.positions.append(Position(_now(), look.inserted))
        return look

    def _note(self) -> None:
        """Write what a kill, or the loss of this machine, would leave unknown."""
        flushed = self._receiver.flushed
        kept = [position for position in self.positions if position.lsn <= flushed] or self.positions[:1]
        with suppress(WalError):  # the one at the end has its room, and says what is wrong
            self._notes.write(kept, flushed, UNFINISHED)

    def _retained(self, look: SlotLook) -> int:
        if look.confirmed is None:
            # The server has dropped the slot, and keeps nothing; the receiver knows why the stream ended.
            return 0
        # Before the first reply the slot holds everything since the redo point, which a server keeps anyway.
        return look.inserted - max(look.confirmed, self._start)


class _Room:
    """Context manager: keeps space for ``recording.json`` while segments fill the disk."""

    def __init__(self, order: CaptureOrder) -> None:
        self._path = order.folder / "room"
        wanted = (64 << 10) + round(order.seconds / _POSITION_S) * _POSITION_BYTES
        self._bytes = min(wanted, _ROOM_MOST_BYTES)

    def give_back(self) -> None:
        """Free the space."""
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> _Room:
        try:
            make_private(self._path)
            with self._path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, self._bytes)
        except OSError as error:
            self.give_back()
            raise DiskError(f'could not write to "{self._path.parent}": {error.strerror}') from error
        return self

    def __exit__(self, *error: object) -> None:
        self.give_back()


def _prepare(control: psycopg.Connection[TupleRow], order: CaptureOrder) -> tuple[dict[str, str], int, int]:
    """Settings, segment size and system identifier of a server that may be recorded. Raises ProbeError."""
    try:
        if _one(control, "SELECT pg_is_in_recovery()") == "True":
            raise ProbeError("the server is a standby", hint="Name its primary, where WAL is written.")
        rows = control.execute(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s) ORDER BY name",
            [list(RECORDED_SETTINGS)],
        ).fetchall()
        segment_bytes = int(_one(control, "SELECT pg_size_bytes(current_setting('wal_segment_size'))"))
        is_synchronous = look_at_slot(control, "").is_synchronous
        system = int(_one(control, "SELECT system_identifier FROM pg_control_system()"))
    except psycopg.Error as error:
        raise ProbeError("could not ask for the server's settings", detail=one_line(error)) from error
    if is_synchronous:
        raise ProbeError(
            _SYNCHRONOUS,
            detail="Commits would wait for it, or be released by it instead of by a real standby.",
            hint="Have it name standbys by application_name, or give the recording another: "
            "application_name=NAME in the connection string.",
        )
    least = 2 * min(segment_bytes, SYNC_BYTES)
    if order.max_retained_bytes < least:
        raise ProbeError(
            f"--max-retained is {format_bytes(order.max_retained_bytes)}, expected at least "
            f"{format_bytes(least)}",
            detail="So much of a segment is kept until it is on disk here.",
        )
    # The server shows the identifier as a signed number.
    return {str(name): str(value) for name, value in rows}, segment_bytes, system % 2**64


def _read_names(order: CaptureOrder) -> RelationMap:
    """The relations of every database. Raises ProbeError, at once where the server may not be recorded."""
    with connect_foreign(order.conninfo) as control:
        _prepare(control, order)
        # Without a slot: to read the catalogs may take minutes, and nothing is kept for it.
        with ReplicationStream(streaming_parameters(order.conninfo, control, order.timeout_s)):
            pass
    return read_relations(order.conninfo)


def _hang_up(control: psycopg.Connection[TupleRow]) -> None:
    """End a query whose server no longer answers; from another thread than its own."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(control.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def _wait_until_gone(control: psycopg.Connection[TupleRow], slot: str) -> None:
    """Return when the server has dropped the slot, as it does when the session's end reaches it."""
    deadline = time.monotonic() + _GONE_PATIENCE_S
    with suppress(psycopg.Error):
        while look_at_slot(control, slot).confirmed is not None and time.monotonic() < deadline:
            time.sleep(0.02)


def _now() -> float:
    """Unix time rounded to ms, as a recording keeps it."""
    return round(time.time(), 3)


def _make_folder(folder: Path, least_free_bytes: int) -> None:
    try:
        private_folder(folder)
        if any(folder.iterdir()):
            raise DiskError(
                f'folder "{folder}" is not empty',
                hint="A recording needs a folder of its own: name a new one with --to.",
            )
    except OSError as error:
        raise DiskError(f'could not use folder "{folder}": {error.strerror}') from error
    free = shutil.disk_usage(folder).free
    if free < least_free_bytes:
        raise DiskError(
            f'the disk of "{folder}" is nearly full',
            detail=f"expected {format_bytes(least_free_bytes)} free, got {format_bytes(free)}",
            hint="Name a folder on another disk: wal capture --to, advise --save, or else TMPDIR.",
        )


def _write_names(folder: Path, relations: RelationMap) -> None:
    try:
        write_whole(folder / RELATIONS_FILE, relations.to_json())
    except OSError as error:
        raise DiskError(f'could not write to "{folder}": {error.strerror}') from error


def _one(connection: psycopg.Connection[TupleRow], query: str) -> str:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return str(row[0])

"""Takes a recording of a running server's WAL: pg_receivewal, held by a slot that cannot outlive it.

A permanent slot would hold WAL back for ever if it were forgotten. A temporary one vanishes with its session,
but only that session can stream from it. So a session of ours has a temporary slot and moves it along as WAL
arrives, and pg_receivewal streams without any: whatever ends walproof ends the session, and the slot with it.

Needs the attribute REPLICATION, membership in pg_monitor, and a line for replication in pg_hba.conf; reads
only.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import conninfo as conninfos
from psycopg.rows import TupleRow

from walproof.errors import ProbeError
from walproof.facts import Install
from walproof.probe.connection import connect, one_line
from walproof.probe.relations import read_relations
from walproof.units import Lsn, format_bytes
from walproof.wal.recording import RELATIONS_FILE, Position, Recording, write_recording

LEAST_FREE_BYTES = 1 << 30
"""A capture does not begin with less than this on the disk, and ends before less is left."""
_POLL_S = 0.2
_POSITION_S = 1.0
_START_PATIENCE_S = 15.0
_END_PATIENCE_S = 30.0
_SEGMENT = re.compile(r"(?P<timeline>[0-9A-F]{8})(?P<log>[0-9A-F]{8})(?P<part>[0-9A-F]{8})(?:\.partial)?")
_SETTINGS = (
    "max_wal_size", "min_wal_size", "checkpoint_timeout", "checkpoint_completion_target", "full_page_writes",
    "wal_compression", "wal_log_hints", "wal_level", "data_checksums", "shared_buffers", "wal_keep_size",
    "checkpoint_warning", "archive_mode", "bgwriter_delay", "bgwriter_lru_maxpages", "wal_segment_size",
    "server_version", "track_commit_timestamp", "autovacuum",
)  # fmt: skip

Watch = Callable[[float, int, int], None]
"""Told the seconds so far, the bytes received, and the bytes that are left on the disk."""


@dataclass(frozen=True, slots=True)
class CaptureOrder:
    """What to capture."""

    conninfo: str
    seconds: float
    folder: Path
    least_free_bytes: int = LEAST_FREE_BYTES


def find_receiver(installs: Sequence[Install], version_num: int) -> Path:
    """A pg_receivewal that may stream from a server of that version: of its major version or a newer one.

    Raises ProbeError.
    """
    found = [
        (install.version_num, Path(install.bindir) / "pg_receivewal")
        for install in installs
        if install.version_num // 10000 >= version_num // 10000
        and os.access(Path(install.bindir) / "pg_receivewal", os.X_OK)
    ]
    if not found:
        raise ProbeError(
            f"no pg_receivewal for a server of version {version_num // 10000} found",
            detail="Looked in " + ", ".join(install.bindir for install in installs) + ".",
            hint="It comes with PostgreSQL's client programs, of the server's version or a newer one; "
            "--pg embedded has that of 18.",
        )
    return min(found)[1]


def server_version(conninfo: str) -> int:
    """version_num of the server. Raises ProbeError."""
    with connect(conninfo) as connection:
        return connection.info.server_version


def capture(order: CaptureOrder, program: Path, watch: Watch, is_over: Callable[[], bool]) -> Recording:
    """Record until the time is over, ``is_over`` says so, or the disk is nearly full.

    What was received stays in the folder, whatever happens. Raises ProbeError.
    """
    _make_folder(order.folder, order.least_free_bytes)
    relations = read_relations(order.conninfo)
    (order.folder / RELATIONS_FILE).write_text(relations.to_json(), encoding="utf-8")
    with connect(order.conninfo) as connection, _Receiver(order, program, connection) as receiver:
        return _Capture(order, connection, receiver, relations.system_identifier).run(watch, is_over)


class _Capture:
    def __init__(
        self,
        order: CaptureOrder,
        connection: psycopg.Connection[TupleRow],
        receiver: _Receiver,
        system_identifier: int,
    ) -> None:
        self._order = order
        self._connection = connection
        self._receiver = receiver
        self._system_identifier = system_identifier
        self._positions: list[Position] = []

    def run(self, watch: Watch, is_over: Callable[[], bool]) -> Recording:
        connection = self._connection
        settings, segment_bytes = _settings(connection)
        timeline = _one(connection, "SELECT timeline_id FROM pg_control_checkpoint()")
        first = self._look()
        began_s, looked_s, why = time.monotonic(), 0.0, "time"
        try:
            while (passed_s := time.monotonic() - began_s) < self._order.seconds:
                if is_over():
                    why = "interrupted"
                    break
                if (said := self._receiver.ended()) is not None:
                    why = said
                    break
                free = shutil.disk_usage(self._order.folder).free
                if free < self._order.least_free_bytes:
                    why = "disk"
                    break
                if passed_s - looked_s >= _POSITION_S:
                    looked_s = passed_s
                    self._look()
                    received = self._receiver.position(segment_bytes)
                    if received is not None and received > first.lsn:
                        self._advance(received)
                        watch(passed_s, int(received) - int(first.lsn), free)
                time.sleep(_POLL_S)
            if why in ("time", "interrupted"):
                self._receiver.wait_for(self._look().lsn, segment_bytes)
        except psycopg.Error as error:
            why = one_line(error)
        self._receiver.stop()
        received = self._receiver.position(segment_bytes)
        recording = Recording(
            system_identifier=self._system_identifier,
            version_num=connection.info.server_version,
            timeline=int(timeline),
            segment_bytes=segment_bytes,
            settings=settings,
            began=first,
            ended=Position(_now(), min(max(received or first.lsn, first.lsn), self._positions[-1].lsn)),
            positions=tuple(self._positions),
            ended_because=why,
        )
        write_recording(self._order.folder, recording)
        return recording

    def _look(self) -> Position:
        lsn = Lsn.parse(_one(self._connection, "SELECT pg_current_wal_insert_lsn()::text"))
        self._positions.append(Position(_now(), lsn))
        return self._positions[-1]

    def _advance(self, received: Lsn) -> None:
        """Let the server recycle what has arrived."""
        self._connection.execute(
            "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [self._receiver.slot, str(received)]
        )


class _Receiver:
    """pg_receivewal, and the temporary slot that keeps the server from recycling what it has not received."""

    def __init__(self, order: CaptureOrder, program: Path, connection: psycopg.Connection[TupleRow]) -> None:
        self._folder = order.folder
        self.slot = f"walproof_{secrets.token_hex(6)}"
        try:
            connection.execute("SELECT pg_create_physical_replication_slot(%s, true, true)", [self.slot])
        except psycopg.Error as error:
            raise ProbeError(
                "could not make a temporary replication slot",
                detail=one_line(error),
                hint="The user needs the attribute REPLICATION; max_replication_slots may be exhausted.",
            ) from error
        parameters = conninfos.conninfo_to_dict(order.conninfo)
        password = parameters.pop("password", None)
        # Not on the command line, where everybody on the machine could read it.
        environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
        self._log = (order.folder / "pg_receivewal.log").open("wb+")
        self._process = subprocess.Popen(
            [
                str(program), "-D", str(order.folder), "-d", conninfos.make_conninfo("", **parameters),
                "--no-password", "--no-loop", "--status-interval=1", "--verbose",
            ],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=environment,
            start_new_session=True, preexec_fn=_end_with_parent,
        )  # fmt: skip

    def wait_until_streaming(self) -> None:
        """Return when WAL arrives. Raises ProbeError with what pg_receivewal said."""
        deadline = time.monotonic() + _START_PATIENCE_S
        while "starting log streaming" not in (said := self._said()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ProbeError(
                    "pg_receivewal could not stream from the server",
                    detail=said.strip().splitlines()[-1] if said.strip() else "it said nothing",
                    hint="The user needs REPLICATION, and pg_hba.conf a line for the database replication.",
                )
            time.sleep(0.02)

    def ended(self) -> str | None:
        """What it said at last, when it has ended by itself."""
        if self._process.poll() is None:
            return None
        return (self._said().strip().splitlines() or ["pg_receivewal ended"])[-1]

    def position(self, segment_bytes: int) -> Lsn | None:
        """Up to where whole segments, and the part of the last one that is not zeros, have arrived."""
        names = sorted(
            (match[0] for path in self._folder.iterdir() if (match := _SEGMENT.fullmatch(path.name))),
            key=lambda name: name.removesuffix(".partial")[8:],
        )
        if not names:
            return None
        name = names[-1]
        number = int(name[8:16], 16) * (0x1_0000_0000 // segment_bytes) + int(name[16:24], 16)
        whole = Lsn((number + 1) * segment_bytes)
        if not name.endswith(".partial"):
            return whole
        try:
            return Lsn(number * segment_bytes + _written_bytes(self._folder / name))
        except FileNotFoundError:
            return whole  # it has been completed, and renamed, since the folder was listed

    def wait_for(self, lsn: Lsn, segment_bytes: int) -> None:
        """Return when WAL up to there has arrived, or no longer comes."""
        deadline = time.monotonic() + _END_PATIENCE_S
        while time.monotonic() < deadline and self._process.poll() is None:
            # A page of 8 kB is the least that is sent.
            if (self.position(segment_bytes) or Lsn(0)) + 8192 >= lsn:
                return
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End it; what it has received is written out."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_END_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def __enter__(self) -> _Receiver:
        try:
            self.wait_until_streaming()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if not self._log.closed:
            self.stop()

    def _said(self) -> str:
        return (self._folder / "pg_receivewal.log").read_text(errors="replace")


def _end_with_parent() -> None:
    """In the child: be interrupted when walproof ends, however it ends (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGINT)


def _now() -> float:
    """Unix time in ms, which is what a recording keeps."""
    return round(time.time(), 3)


def _written_bytes(path: Path) -> int:
    """Bytes of a padded segment up to the last page that is not all zeros."""
    page, zeros = 8192, bytes(8192)
    with path.open("rb") as file:
        low, high = 0, path.stat().st_size // page
        while low < high:
            middle = (low + high) // 2
            file.seek(middle * page)
            if file.read(page) == zeros:
                high = middle
            else:
                low = middle + 1
    return low * page


def _make_folder(folder: Path, least_free_bytes: int) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ProbeError(
                f'folder "{folder}" is not empty',
                hint="A recording needs a folder of its own: name a new one with --to.",
            )
    except OSError as error:
        raise ProbeError(f'could not use folder "{folder}": {error.strerror}') from error
    free = shutil.disk_usage(folder).free
    if free < least_free_bytes:
        raise ProbeError(
            f'the disk of "{folder}" is nearly full',
            detail=f"expected {format_bytes(least_free_bytes)} free, got {format_bytes(free)}",
        )


def _settings(connection: psycopg.Connection[TupleRow]) -> tuple[dict[str, str], int]:
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s) ORDER BY name",
        [list(_SETTINGS)],
    ).fetchall()
    bytes_ = int(_one(connection, "SELECT pg_size_bytes(current_setting('wal_segment_size'))"))
    return {str(name): str(value) for name, value in rows}, bytes_


def _one(connection: psycopg.Connection[TupleRow], query: str) -> str:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return str(row[0])

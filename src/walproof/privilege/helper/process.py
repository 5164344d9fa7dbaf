"""The helper's process: serves one request after another, and undoes what it did when its parent ends.

Its parent holds the other end of its standard input, a pair of sockets. When the parent ends in any way, kill
-9 included, the kernel closes that end. What a killed helper has left is undone by the next one that is
started: each keeps a file, locked while it lives, in a folder of their own (``/run/walproof``)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from walproof.errors import DiskError
from walproof.privilege.folders import own_folder
from walproof.privilege.helper.audit import Audit
from walproof.privilege.helper.read_group import ReadGroup
from walproof.privilege.helper.requests import (
    PACKET_BYTES,
    Answer,
    AskAudit,
    Done,
    LiftReadLimit,
    LimitProcess,
    LimitReads,
    Refused,
    Request,
    RequestError,
    SwitchAuditOff,
    SwitchAuditOn,
    decode_request,
    encode_answer,
)

_NOTE = re.compile(r"walproof-[0-9a-f]{12}\.note", re.ASCII)


class Helper:
    """What one helper has done, and can undo. ``note``: its file; ``uid``: the user whose processes it may
    touch."""

    def __init__(self, note: Path, uid: int) -> None:
        token = note.stem
        self._audit = Audit(token, uid, note)
        self._reads = ReadGroup(f"{token}-reads", uid)

    def answer(self, packet: bytes) -> Answer:
        """Do what a packet asks for, or refuse it."""
        try:
            return self._do(decode_request(packet))
        except RequestError as refusal:
            return Refused(str(refusal))
        except OSError as error:
            return Refused(f"the request failed: {error.strerror or error}")

    def _do(self, request: Request) -> Answer:
        match request:
            case AskAudit():
                self._audit.check()
            case SwitchAuditOn(level):
                self._audit.switch_on(level)
            case SwitchAuditOff():
                return Done(self._audit.switch_off())
            case LimitReads(device, iops):
                self._reads.begin(device, iops)
            case LimitProcess(pid):
                self._reads.add(pid)
            case LiftReadLimit():
                self._reads.undo()
        return Done()

    def undo(self) -> bool:
        """Undo everything. Returns whether nothing is left to undo."""
        return all([self._audit.undo(), self._reads.undo()])


@contextlib.contextmanager
def _abandoned(notes: Path) -> Iterator[list[Path]]:
    """Notes of helpers that were killed, locked within the block."""
    found = []
    with contextlib.ExitStack() as held:
        for note in _notes(notes):
            try:
                lock = os.open(note, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue  # its helper has ended
            held.callback(os.close, lock)
            with contextlib.suppress(BlockingIOError):  # its helper lives
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(note)
        yield found


def _notes(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [path for path in sorted(folder.iterdir()) if _NOTE.fullmatch(path.name)]
    return []  # there are none, or they are somebody else's


def has_left_behind(notes: Path) -> bool:
    """Whether a helper was killed before it had undone everything."""
    with _abandoned(notes) as found:
        return bool(found)


def undo_left_behind(notes: Path, uid: int) -> None:
    """Undo what killed helpers have left."""
    with _abandoned(notes) as found:
        for note in found:
            if Helper(note, uid).undo():
                note.unlink(missing_ok=True)


def _make_note(notes: Path) -> tuple[Path, int]:
    """A new file, and its lock: it appears locked."""
    note = notes / f"walproof-{secrets.token_hex(6)}.note"
    unborn = note.with_suffix(".new")
    lock = os.open(unborn, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unborn.rename(note)
    return note, lock


def serve(parent: socket.socket, uid: int, notes: Path) -> None:
    """Answer requests until the parent has ended; then undo."""
    try:
        folder = own_folder(notes, passable=False)
    except DiskError as error:
        # What could not be undone after a kill is not done.
        while parent.recv(PACKET_BYTES + 1):
            parent.sendall(encode_answer(Refused(error.message)))
        return
    undo_left_behind(folder, uid)
    note, lock = _make_note(folder)
    helper = Helper(note, uid)
    try:
        while packet := parent.recv(PACKET_BYTES + 1):
            parent.sendall(encode_answer(helper.answer(packet)))
    except OSError:
        pass  # the parent ended before it had its answer
    finally:
        if helper.undo():
            note.unlink(missing_ok=True)
        os.close(lock)


def _main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    uid, notes = int(sys.argv[1]), Path(sys.argv[2])
    if uid == 0:
        sys.exit("the servers' user is root")
    with socket.socket(fileno=sys.stdin.fileno()) as parent:
        serve(parent, uid, notes)


if __name__ == "__main__":
    _main()

"""Shared memory of a server that was killed: found and freed as the server's own next start would.

A System V segment stands in line 7 of postmaster.pid (PostgreSQL: src/include/utils/pidfile.h). Its number
may be another program's by now, for instance after a restart of the machine, so it is believed only when its
header names the data directory (PGSharedMemoryAttach, src/backend/port/sysv_shmem.c). Segments of dynamic
shared memory, files in /dev/shm, are found through it (dsm_cleanup_using_control_segment,
src/backend/storage/ipc/dsm.c). A process that is killed while it makes one (dsm_create) leaves a file that
nothing names. Standard library only, for the watchdog."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser

_FOLDER = Path("/dev/shm")
_SHM_RDONLY = 0o10000
_IPC_RMID = 0
# PGShmemHeader (src/include/storage/pg_shmem.h): magic, creator, total size, free offset, handle of the
# control segment of dynamic shared memory, up to 18 a pointer, and device and inode of the data directory.
_HEADERS, _MAGIC = (struct.Struct("=i20xI12xQQ"), struct.Struct("=i20xI4xQQ")), 679834894
_HEADER_BYTES = min(header.size for header in _HEADERS)
# The beginning of dsm_control_header (src/backend/storage/ipc/dsm.c), where its items begin, and an item's
# handle and reference count.
_CONTROL_HEADER, _CONTROL_MAGIC, _ITEMS_AT = struct.Struct("=III"), 0x9A503D32, 16
_ITEM = struct.Struct("=II")


class _Row(NamedTuple):
    """A line of /proc/sysvipc/shm."""

    size: int
    attached: int
    uid: int


def shared_memory_of(data: Path) -> tuple[tuple[int, ...], tuple[Path, ...]]:
    """(System V segment ids, POSIX segments) of the server of a data directory, running or killed."""
    try:
        segment = int((data / "postmaster.pid").read_text().splitlines()[6].split()[1])
        status = data.stat()
    except (OSError, ValueError, IndexError):
        return (), ()
    row = _row(segment)
    if row is None or row.size < _HEADER_BYTES:
        return (), ()
    content = _read_header(segment, row.size)
    for header in _HEADERS:
        if len(content) < header.size:
            continue
        magic, control, device, inode = header.unpack_from(content)
        if (magic, device, inode) == (_MAGIC, status.st_dev, status.st_ino):
            return (segment,), tuple(_dynamic_memory(_dynamic_file(control)))
    return (), ()


def free_shared_memory(data: Path, user: ServerUser | None) -> bool:
    """Remove the shared memory of a data directory whose server was killed; memory in use is left alone.

    ``user`` ran the server (None: ourselves); what belongs to anybody else is left alone, too. Returns false
    if a process still has it: whoever reads /proc/PID/maps of a process that is ending keeps its memory for a
    moment."""
    uid = os.geteuid() if user is None else user.uid
    with acting_as(user):
        segments, files = shared_memory_of(data)
        rows = [_row(segment) for segment in segments]
        if any(row is None or row.uid != uid for row in rows):
            return True
        if any(row is not None and row.attached for row in rows):
            return False
        libc = ctypes.CDLL(None, use_errno=True)
        for segment in segments:
            libc.shmctl(segment, _IPC_RMID, None)
        for file in files:
            file.unlink(missing_ok=True)
    return True


def free_unnamed_memory(user: ServerUser | None) -> None:
    """Remove segments of dynamic shared memory whose makers did not live to name them.

    Such a segment belongs to ``user`` (None: to us), is in no control segment, and no process has it. Servers
    may make segments meanwhile: one that is being made is open or mapped until a control segment names it."""
    uid = os.geteuid() if user is None else user.uid
    with acting_as(user):
        found = {file for file in _FOLDER.glob("PostgreSQL.*") if _owner(file) == uid}
        unnamed = found - _named(found)
        if unnamed:
            unnamed -= _held()
            for file in unnamed - _named(found):
                file.unlink(missing_ok=True)


def _owner(file: Path) -> int | None:
    try:
        return file.lstat().st_uid
    except OSError:
        return None


def _named(files: Iterable[Path]) -> set[Path]:
    """The control segments among the files, and all that they name."""
    return {named for file in files for named in _dynamic_memory(file)}


def _held() -> set[Path]:
    """Segments that a process has open or mapped."""
    held = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines = (process / "maps").read_text(errors="replace").splitlines()
            held |= {Path(line.split(maxsplit=5)[5]) for line in lines if "/PostgreSQL." in line}
            for opened in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    held.add(opened.readlink())
    return held


def _row(segment: int) -> _Row | None:
    try:
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        # key shmid perms size cpid lpid nattch uid ...
        words = line.split()
        if int(words[1]) == segment:
            return _Row(size=int(words[3]), attached=int(words[6]), uid=int(words[7]))
    return None


def _read_header(segment: int, size: int) -> bytes:
    """The beginning of a segment of that size; nothing if it cannot be read."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(segment, None, _SHM_RDONLY)
    if address in (None, ctypes.c_void_p(-1).value):
        return b""
    content = ctypes.string_at(address, min(size, max(header.size for header in _HEADERS)))
    libc.shmdt(ctypes.c_void_p(address))
    return content


def _dynamic_memory(file: Path) -> Iterator[Path]:
    """The files in /dev/shm that the control segment names, and its own; none of any other file."""
    try:
        with file.open("rb") as segment:
            content = segment.read(_CONTROL_HEADER.size)
            magic, items, items_most = _CONTROL_HEADER.unpack(content)
            # Another segment may be gigabytes of a parallel query, of a server beside ours.
            if magic != _CONTROL_MAGIC:
                return
            content += segment.read()
    except (OSError, struct.error):
        return
    # Items have grown from version to version; the segment is as long as most of them need.
    item_size = (len(content) - _ITEMS_AT) // max(items_most, 1)
    if items > items_most or item_size < _ITEM.size:
        return
    for at in range(_ITEMS_AT, _ITEMS_AT + items * item_size, item_size):
        handle, references = _ITEM.unpack_from(content, at)
        if references > 0 and _dynamic_file(handle).exists():
            yield _dynamic_file(handle)
    yield file


def _dynamic_file(handle: int) -> Path:
    return _FOLDER / f"PostgreSQL.{handle}"

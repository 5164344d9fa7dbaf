"""Ends and removes what a workspace left behind: servers, load generators, shared memory, folders.

It runs in the watchdog after walproof was killed, and at the next start for whatever the watchdog did
not see. Standard library only, so that the watchdog starts quickly and has little that can fail.

How it knows that a process is walproof's: the name of a workspace holds a random token, every program
that walproof starts has that name on its command line, and the program is one of the few named below; or it
is a process of PostgreSQL that works in a data directory whose postmaster walproof started and is gone.
Nothing else is ever signalled.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_PROGRAMS = frozenset({"postgres", "initdb", "pgbench", "pg_test_fsync", "psql", "cp"})
_SHARED_MEMORY = Path("/dev/shm")
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
AUDITCTL = "auditctl"
AUDITED = "kernel-audit"
"""File in a workspace that changes the kernel's audit: failure mode, rate limit and backlog limit before."""
_SHM_RDONLY = 0o10000
# The beginning of PGShmemHeader (src/include/storage/pg_shmem.h), whose last number names the control segment
# of dynamic shared memory; of that, the beginning (dsm_control_header, src/backend/storage/ipc/dsm.c), where
# its items begin, and an item's handle and reference count.
_SHMEM_HEADER, _SHMEM_MAGIC = struct.Struct("=iiQQI"), 679834894
_CONTROL_HEADER, _CONTROL_MAGIC, _ITEMS_AT = struct.Struct("=III"), 0x9A503D32, 16
_ITEM = struct.Struct("=II")
_QUIT_PATIENCE_S = 5.0
_KILL_PATIENCE_S = 5.0
_ORPHANS_PATIENCE_S = 0.5
_REMOVAL_PATIENCE_S = 10.0


def reap(workspace: Path, sockets: Path | None) -> None:
    """End every process of the workspace, free its shared memory, remove its folders.

    Safe to call again, or by two processes at once. Linux (/proc) only.
    """
    token = workspace.name
    restore_audit(workspace)  # first: it is the machine's
    _end_processes(workspace)
    for state in _SHARED_MEMORY.glob(f"{token}*"):
        state.unlink(missing_ok=True)  # of a simulated disk
    for group in (*_CONTROL_GROUPS.glob(f"{token}*"), *_CONTROL_GROUPS.glob(f"*/{token}*")):
        with contextlib.suppress(OSError):
            group.rmdir()  # of a limit on reads
    folders = tuple(folder for folder in (sockets, workspace) if folder is not None)
    deadline = time.monotonic() + _REMOVAL_PATIENCE_S
    while sum(_remove(folder) for folder in folders) and time.monotonic() < deadline:
        # Someone wrote while the folder was removed: a program that was between fork and exec when the
        # processes were looked for, or a child of initdb that does not name the workspace.
        time.sleep(0.05)
        _end_processes(workspace)


def restore_audit(workspace: Path) -> None:
    """Switch the kernel's audit off and remove the workspace's rule, where it has one.

    The rule is the sign that audit was changed, and goes last. After a new start of the machine it is gone,
    and audit is whose it is then.
    """
    note = workspace / AUDITED
    try:
        before = [str(int(word)) for word in note.read_text().split()]
    except (OSError, ValueError):
        return
    rule = f"key={workspace.name}"
    with contextlib.suppress(OSError, subprocess.SubprocessError, IndexError):
        if rule in _auditctl("-l"):
            _auditctl("-e", "0", "-f", before[0], "-r", before[1], "-b", before[2])
            _auditctl("-D", "-k", workspace.name)
        if rule not in _auditctl("-l"):
            note.unlink(missing_ok=True)


def _auditctl(*arguments: str) -> str:
    done = subprocess.run(
        [AUDITCTL, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
        timeout=_QUIT_PATIENCE_S,
    )  # fmt: skip
    return done.stdout


def _end_processes(workspace: Path) -> None:
    token = workspace.name
    # A postmaster that is asked to quit ends its own children and frees its own memory, but not while they
    # are stopped, as for the copy of a crash. Children do not name the workspace.
    for pid in _processes(token):
        family = (pid, *_children(pid))
        _signal(pid, signal.SIGQUIT)
        for one in family:
            _signal(one, signal.SIGCONT)
    if not _wait_gone(token, _QUIT_PATIENCE_S):
        for pid in _processes(token):
            _signal(pid, signal.SIGKILL)
        _wait_gone(token, _KILL_PATIENCE_S)
    for pidfile in workspace.glob("**/postmaster.pid"):
        remove_remains(pidfile.parent)


def _remove(folder: Path) -> bool:
    """Whether something of the folder is still there."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder.exists()


def shared_memory_of(data: Path) -> tuple[tuple[int, ...], tuple[Path, ...]]:
    """(System V segment ids, POSIX segments) of the server of a data directory, running or killed.

    The first stands in line 7 of postmaster.pid (PostgreSQL: src/include/utils/pidfile.h); the second, files
    in /dev/shm, are found through the first, as a server finds those of one that crashed
    (dsm_cleanup_using_control_segment, src/backend/storage/ipc/dsm.c).
    """
    try:
        segment = int(_postmaster_pid(data)[6].split()[1])
    except (ValueError, IndexError):
        return (), ()
    return (segment,), tuple(_dynamic_memory(segment))


def _postmaster_pid(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except (OSError, ValueError):
        return []


def _dynamic_memory(segment: int) -> Iterator[Path]:
    """The files in /dev/shm of the server with that System V segment."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(segment, None, _SHM_RDONLY)
    if address in (None, ctypes.c_void_p(-1).value):
        return
    header = ctypes.string_at(address, _SHMEM_HEADER.size)
    libc.shmdt(ctypes.c_void_p(address))
    magic, *_, control = _SHMEM_HEADER.unpack(header)
    file = _dynamic_file(control)
    try:
        content = file.read_bytes()
        control_magic, items, items_most = _CONTROL_HEADER.unpack_from(content)
    except (OSError, struct.error):
        return
    if (magic, control_magic) != (_SHMEM_MAGIC, _CONTROL_MAGIC):
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
    return _SHARED_MEMORY / f"PostgreSQL.{handle}"


def _children(pid: int) -> Iterator[int]:
    """Processes whose parent that is."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if f"\nPPid:\t{pid}\n" in status.read_text():
                yield int(status.parent.name)


def remove_remains(data: Path, ended: int | None = None) -> None:
    """End what outlived the postmaster of a data directory, and remove its shared memory.

    A server that ended by itself leaves nothing, one that runs is left alone. With ``ended``: only what that
    process left, which was the postmaster.
    """
    try:
        postmaster = int(_postmaster_pid(data)[0])
    except (ValueError, IndexError):
        return
    if ended not in (None, postmaster) or (ended is None and _lives(postmaster)):
        return
    began = time.monotonic()
    while (orphans := list(_servers_in(data))) and time.monotonic() < began + _KILL_PATIENCE_S:
        # They notice that they are alone, and not while they make shared memory that nothing names yet. But
        # an autovacuum launcher before 15 may first wait ten seconds for statistics
        # (backend_read_statsfile, src/backend/postmaster/pgstat.c).
        if time.monotonic() > began + _ORPHANS_PATIENCE_S:
            for orphan in orphans:
                _signal(orphan, signal.SIGKILL)
        time.sleep(0.005)
    segments, files = shared_memory_of(data)
    if any(map(_is_attached, segments)):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for segment in segments:
        libc.shmctl(segment, 0, None)  # 0 is IPC_RMID
    for file in files:
        file.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    """Whether there is such a process, a zombie left out."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def _servers_in(data: Path) -> Iterator[int]:
    """Processes of PostgreSQL that work in that folder."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text() == "postgres\n" and (entry / "cwd").samefile(data):
                yield int(entry.name)


def _is_attached(segment: int) -> bool:
    """Whether a process is attached to a System V segment."""
    try:
        rows = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return False
    return any(int(row.split()[1]) == segment and int(row.split()[6]) > 0 for row in rows)


def _processes(token: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        program = Path(os.fsdecode(words[0])).name
        if program in _PROGRAMS and any(token.encode() in word for word in words[1:]):
            found.append(int(entry.name))
    return found


def _wait_gone(token: str, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while _processes(token):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)

"""Ends and removes what a workspace left behind: servers, load generators, shared memory, folders.

It runs in the watchdog after walproof was killed, and at the next start for whatever the watchdog did
not see. Standard library only, so that the watchdog starts quickly and has little that can fail.

How it knows that a process is walproof's: the name of a workspace holds a random token, every program
that walproof starts has that name on its command line, and the program is one of the few named below.
Nothing else is ever signalled.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
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
_QUIT_PATIENCE_S = 5.0
_KILL_PATIENCE_S = 5.0
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
    segments = _shared_memory(workspace)
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
    free_shared_memory(*segments)


def _remove(folder: Path) -> bool:
    """Whether something of the folder is still there."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder.exists()


def shared_memory_of(data: Path) -> tuple[tuple[int, ...], tuple[Path, ...]]:
    """(System V segment ids, POSIX segments) of the server of a data directory, while it runs.

    The first stands in line 7 of postmaster.pid (PostgreSQL: src/include/utils/pidfile.h); the second
    are the /dev/shm/PostgreSQL.* files that the postmaster or one of its children has mapped: statistics
    (15 and newer) are in one that the postmaster itself never maps.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return (), ()
    segments: tuple[int, ...] = ()
    if len(lines) >= 7 and len(lines[6].split()) == 2:
        segments = (int(lines[6].split()[1]),)
    mapped: set[Path] = set()
    for one in (pid, *_children(pid)):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for line in Path(f"/proc/{one}/maps").read_text().splitlines():
                if "/dev/shm/PostgreSQL." in line:
                    mapped.add(Path(line.split()[5]))
    return segments, tuple(mapped)


def _children(pid: int) -> Iterator[int]:
    """Processes whose parent that is."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if f"\nPPid:\t{pid}\n" in status.read_text():
                yield int(status.parent.name)


def free_shared_memory(segments: tuple[int, ...], files: tuple[Path, ...]) -> None:
    """Remove segments whose owner is gone; those that are still attached are left alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    for segment in segments:
        if _attached(segment) == 0:
            libc.shmctl(segment, 0, None)  # 0 is IPC_RMID
    for file in files:
        file.unlink(missing_ok=True)


def _attached(segment: int) -> int | None:
    """Number of processes attached to a System V segment; None when it does not exist."""
    try:
        rows = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return None
    for row in rows:
        columns = row.split()
        if int(columns[1]) == segment:
            return int(columns[6])
    return None


def _shared_memory(workspace: Path) -> tuple[tuple[int, ...], tuple[Path, ...]]:
    segments: list[int] = []
    files: list[Path] = []
    for pidfile in workspace.glob("**/postmaster.pid"):
        some, more = shared_memory_of(pidfile.parent)
        segments += some
        files += more
    return tuple(segments), tuple(files)


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

"""Ends and removes what a workspace left behind: servers, load generators, shared memory, folders.

It runs in the watchdog after walproof was killed, and at the next start for whatever the watchdog did
not see. Standard library only, so that the watchdog starts quickly and has little that can fail.

How it knows that a process is walproof's: the name of a workspace holds a random token, every program
that walproof starts has that name on its command line, and the program is one of the few named below; or it
is a process of PostgreSQL that works in a data directory whose postmaster walproof started and is gone. It
runs as the servers' user or as ourselves. Nothing else is ever signalled.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from walproof.errors import ClusterError
from walproof.postgres.shared_memory import free_shared_memory, free_unnamed_memory
from walproof.postgres.signals import Descendants, send
from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser

_PROGRAMS = frozenset({
    "postgres", "initdb", "pgbench", "pg_test_fsync", "psql", "cp", "tar", "strace", "perf",
    "pg_basebackup", "pg_combinebackup", "pg_verifybackup",
})  # fmt: skip
_SHARED_MEMORY = Path("/dev/shm")
WAL_WORK = "walproof-wal"
"""The folder of workspaces in a user's folder for WAL."""
_QUIT_PATIENCE_S = 5.0
_KILL_PATIENCE_S = 5.0
_ORPHANS_PATIENCE_S = 0.5
_DETACH_PATIENCE_S = 1.0
_REMOVAL_PATIENCE_S = 10.0


def reap(
    workspace: Path, sockets: Path | None, user: ServerUser | None, patience_s: float | None = None
) -> bool:
    """End every process of the workspace, free its shared memory, remove its folders; whether those are gone.

    ``user`` ran its servers (None: ourselves). ``patience_s``: how long to wait for whoever still writes
    there; None: as long as is enough where walproof has just ended. Safe to call again, or by two processes
    at once. Linux (/proc) only.
    """
    token = workspace.name
    _end_processes(workspace, user)
    for state in _SHARED_MEMORY.glob(f"{token}*"):
        state.unlink(missing_ok=True)  # of a simulated disk
    folders = tuple(folder for folder in (sockets, workspace) if folder is not None)
    deadline = time.monotonic() + (_REMOVAL_PATIENCE_S if patience_s is None else patience_s)
    while (left := sum(_remove(folder) for folder in folders)) and time.monotonic() < deadline:
        # Someone wrote while the folder was removed: a program that was between fork and exec when the
        # processes were looked for, or a child of initdb that does not name the workspace.
        time.sleep(0.05)
        _end_processes(workspace, user)
    return left == 0


@contextlib.contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """Keep the folder while the block lasts: whoever would remove it waits. Raises OSError, FileNotFoundError
    where the folder is gone."""
    path = folder / "lock"
    while True:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Whoever had it before has removed the file: the next one would lock another.
            if _is_at(path, lock):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(lock)


def _is_at(path: Path, descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def leave(work: Path) -> None:
    """Remove what nobody needs once the last workspace in ``work`` is gone: all of it in memory, where the
    templates' room would be missing elsewhere, and empty folders in a user's folder for WAL."""
    is_memory = work.is_relative_to(_SHARED_MEMORY)
    if not is_memory and work.name != WAL_WORK:
        return
    with contextlib.suppress(OSError):
        with held_folder(work):
            if any((work / "running").glob("*.lock*")):
                return
            for folder in (work / "templates", work / "running"):
                if is_memory:
                    shutil.rmtree(folder, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):
                        folder.rmdir()
        work.rmdir()


def _end_processes(workspace: Path, user: ServerUser | None) -> None:
    token = workspace.name
    # A postmaster that is asked to quit ends its children and frees its memory, but not while they
    # are stopped, as for the copy of a crash. Children do not name the workspace.
    for pid in _processes(token):
        # Whoever cannot be held is ended below, or ends by itself once the postmaster is gone.
        with contextlib.suppress(ClusterError), Descendants(pid) as children:
            # It is asked while its children are held: at that moment they were still its own.
            if _names(pid, token):
                _signal(pid, signal.SIGQUIT, user, lambda pid: _names(pid, token))
                _signal(pid, signal.SIGCONT, user, lambda pid: _names(pid, token))
                children.send(signal.SIGCONT)
    if not _wait_gone(token, _QUIT_PATIENCE_S):
        for pid in _processes(token):
            _signal(pid, signal.SIGKILL, user, lambda pid: _names(pid, token))
        _wait_gone(token, _KILL_PATIENCE_S)
    pidfiles: list[Path] = []
    with contextlib.suppress(OSError), acting_as(user):  # a folder that the servers' user never reached
        pidfiles += workspace.glob("**/postmaster.pid")
    for pidfile in pidfiles:
        remove_remains(pidfile.parent, user)
    free_unnamed_memory(user)


def _remove(folder: Path) -> bool:
    """Whether something of the folder is still there."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder.exists()


def _postmaster_pid(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except (OSError, ValueError):
        return []


def remove_remains(data: Path, user: ServerUser | None, ended: int | None = None) -> None:
    """End what outlived the postmaster of a data directory, and remove its shared memory.

    A server that ended by itself leaves nothing; one that runs is left alone. ``user`` ran it (None:
    ourselves). With ``ended``, the process id of a former postmaster: only what that process left.
    """
    with acting_as(user):
        said = _postmaster_pid(data)
    try:
        postmaster = int(said[0])
    except (ValueError, IndexError):
        return
    if ended not in (None, postmaster) or (ended is None and _lives(postmaster)):
        return
    began = time.monotonic()
    while (orphans := _servers_in(data, user)) and time.monotonic() < began + _KILL_PATIENCE_S:
        # They notice that they are alone, but not while they make shared memory that nothing names yet. And
        # an autovacuum launcher before 15 may first wait ten seconds for statistics
        # (backend_read_statsfile, src/backend/postmaster/pgstat.c).
        if time.monotonic() > began + _ORPHANS_PATIENCE_S:
            for orphan in orphans:
                _signal(orphan, signal.SIGKILL, user, lambda pid: pid in _servers_in(data, user))
        time.sleep(0.005)
    began = time.monotonic()
    while not free_shared_memory(data, user) and time.monotonic() < began + _DETACH_PATIENCE_S:
        time.sleep(0.005)


def _lives(pid: int) -> bool:
    """Whether there is such a process; a zombie does not count."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def _servers_in(data: Path, user: ServerUser | None) -> list[int]:
    """Processes of PostgreSQL that work in that folder."""
    found = []
    with acting_as(user):
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if _is_postgres(int(entry.name)) and (entry / "cwd").samefile(data):
                    found.append(int(entry.name))
    return found


def _is_postgres(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "postgres\n"


def _processes(token: str) -> list[int]:
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in numbers if pid != os.getpid() and _names(pid, token)]


def _names(pid: int, token: str) -> bool:
    """Whether it is one of the programs that walproof starts, and names that workspace."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    program = Path(os.fsdecode(words[0])).name
    return program in _PROGRAMS and any(token.encode() in word for word in words[1:])


def _wait_gone(token: str, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while _processes(token):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _signal(
    pid: int, number: signal.Signals, user: ServerUser | None, is_meant: Callable[[int], bool]
) -> None:
    """Signal the process if it is ours or that user's, and still the one that is meant."""
    users = {os.geteuid(), *([user.uid] if user else [])}
    send(pid, number, lambda: Path(f"/proc/{pid}").stat().st_uid in users and is_meant(pid))

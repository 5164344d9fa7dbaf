"""A folder of one walproof process, in which its throw-away clusters live, and its certain removal.

    <work>/templates/KEY/data            prepared data directories, kept between runs
    <work>/running/walproof-TOKEN/       clusters and logs of one process, removed when it ends
    <work>/running/walproof-TOKEN.lock   locked while that process lives; names sockets and server user
    <temp>/walproof-TOKEN/               unix sockets (a socket's path may have 107 bytes at most)

Three things remove a workspace, whichever comes first: leaving the ``with`` block, the watchdog, and the
sweep of the next start, which takes every workspace whose lock is free. The lock goes last, when nothing else
of the workspace is left: it is how the next start finds it. In memory (/dev/shm) templates are removed with
the last workspace: the memory that they take would be missing elsewhere.

All folders but those of ``make_folder`` and the sockets' belong to whoever runs walproof, and nobody else may
change them (:mod:`walproof.privilege`). As root, what lies in those folders is touched only with the rights
of the servers' user (:func:`walproof.privilege.acting.acting_as`)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from walproof.errors import ClusterError, DiskError
from walproof.postgres import watchdog
from walproof.postgres.reaper import held_folder, leave, reap
from walproof.postgres.signals import lack_of_handles
from walproof.privilege.acting import acting_as
from walproof.privilege.environment import child_environment
from walproof.privilege.folders import check_above, own_folder
from walproof.privilege.helper.client import RootHelper, notes_folder
from walproof.privilege.helper.process import has_left_behind
from walproof.privilege.user import ServerUser, from_words, running_as, to_words

_SOCKET_PATH_BYTES_MAX = 107
"""sizeof(sun_path) - 1 on Linux (unix(7))."""
_FIRST_PORT = 5432
_LOCK = re.compile(r"walproof-[0-9a-f]{12}\.lock")
_UNBORN = ".new"
"""Suffix of a lock that is not locked yet."""
_UNBORN_S = 3600.0
"""Age at which such a file is what a killed process left."""
_TRIES = 10
"""How often to make a folder that others remove."""
_SWEEP_PATIENCE_S = 1.0
"""For each workspace that cannot be removed: every start waits so long."""


class Workspace:
    """Context manager. ``work`` is the folder whose disk is measured; ``user`` runs the servers.

    Raises DiskError when the folder cannot be written, or cannot be reached by ``user``; ClusterError where a
    server's processes could not be signalled for certain, or would outlive a kill.
    """

    def __init__(self, work: Path, user: ServerUser | None) -> None:
        self.work = work
        self.user = user
        self.token = "walproof-" + secrets.token_hex(6)
        self.sockets = Path(tempfile.gettempdir()) / self.token
        self.began_at = time.time()
        self._next_port = _FIRST_PORT
        self._helper: RootHelper | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Workspace:
        if (lack := lack_of_handles()) is not None:
            raise ClusterError(
                f"processes of a server cannot be held: pidfd_open: {lack}",
                detail="Servers could neither be stopped for a while nor be ended for certain.",
                hint="That takes Linux 5.3 or newer; in a container, a runtime that permits it.",
            )
        if len(os.fsencode(self.sockets)) + len("/.s.PGSQL.65535") > _SOCKET_PATH_BYTES_MAX:
            raise DiskError(
                f'path of the temporary folder is too long for a unix socket: "{self.sockets}"',
                hint="Set TMPDIR to a shorter path.",
            )
        passable = self.user is not None
        self.work = _made(self.work, passable=passable)
        sweep(self.work)
        with contextlib.ExitStack() as failing:
            with _made_and_held(self.work, passable=passable):
                # Not before: in a folder that is refused nothing is made or removed.
                failing.callback(leave, self.work)
                self.templates = own_folder(self.work / "templates", passable=passable)
                self.folder = own_folder(self.work / "running", passable=passable) / self.token
                self._lock_path = self.folder.with_name(self.token + ".lock")
                try:
                    self._lock = _take_lock(self._lock_path, self.sockets, self.user)
                except OSError as error:
                    raise _unusable(self.work, error) from error
            failing.pop_all()
        try:
            # Before the folders: a kill between them and the watchdog would leave them to the next start.
            self._watchdog = watchdog.start(self.folder, self.sockets, self.user)
            self._make_folders()
            self._check_reach()
            if has_left_behind(notes_folder()):
                self.helper()  # it begins with undoing that
            watchdog.wait_ready(self._watchdog)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._helper is not None:
            self._helper.__exit__(None, None, None)  # first: what it changed is the machine's
        if reap(self.folder, self.sockets, self.user):
            self._lock_path.unlink(missing_ok=True)
        os.close(self._lock)
        if self._watchdog is not None:
            for pipe in (self._watchdog.stdin, self._watchdog.stdout):
                assert pipe is not None
                pipe.close()
            self._watchdog.wait()
        leave(self.work)

    def helper(self) -> RootHelper:
        """The process that does what needs root. It begins when it is first asked for, and ends with the
        workspace."""
        if self._helper is None:
            self._helper = RootHelper(self.user).__enter__()
        return self._helper

    def make_folder(self, name: str) -> Path:
        """A new, empty folder in the workspace that the servers' user owns."""
        self._watch_again()
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        if self.user is not None:
            # Nobody else can have put something in its place: the workspace's own folder is ours.
            os.chown(folder, self.user.uid, self.user.gid, follow_symlinks=False)
        return folder

    def _watch_again(self) -> None:
        """Start another watchdog where the kernel has ended it, as it does when memory is short."""
        assert self._watchdog is not None
        if self._watchdog.poll() is not None:
            assert self._watchdog.stdin is not None
            self._watchdog.stdin.close()
            self._watchdog = watchdog.start(self.folder, self.sockets, self.user)
            watchdog.wait_ready(self._watchdog)

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder that ``make_folder`` made."""
        assert folder.parent == self.folder, folder
        shutil.rmtree(folder, ignore_errors=True)

    def is_alone(self) -> bool:
        """Whether no other process has a workspace in the same folder."""
        locks = (self.work / "running").glob("walproof-*.lock")
        return not any(_is_held(path) for path in locks if path != self._lock_path)

    def take_port(self) -> int:
        """A port number that no other cluster of the workspace has (it only names a socket)."""
        self._next_port += 1
        return self._next_port

    def _make_folders(self) -> None:
        try:
            self.folder.mkdir(mode=0o700 if self.user is None else 0o711)
        except OSError as error:
            raise _unusable(self.work, error) from error
        try:
            check_above(self.sockets.parent, self.sockets)
            with acting_as(self.user):
                self.sockets.mkdir(mode=0o700)
        except OSError as error:
            raise DiskError(
                f'could not make folder "{self.sockets}" for unix sockets: {error.strerror}',
                hint="Set TMPDIR to a folder in which the user of the servers can make folders.",
            ) from error

    def _check_reach(self) -> None:
        if self.user is None:
            return
        reached = subprocess.run(
            ["test", "-x", str(self.folder)], check=False, cwd="/", env=child_environment(),
            **running_as(self.user),
        )  # fmt: skip
        if reached.returncode != 0:
            raise DiskError(
                f'user "{self.user.name}" cannot reach folder "{self.work}"',
                detail="PostgreSQL refuses to run as root, so its servers run as that user.",
                hint="Name another folder with --on, or let others pass through its parents (chmod o+x).",
            )


def _made(work: Path, *, passable: bool) -> Path:
    """As `own_folder`, also where the last workspace that was in it removes the folder in between."""
    for _ in range(_TRIES - 1):
        try:
            return own_folder(work, passable=passable)
        except DiskError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
    return own_folder(work, passable=passable)


@contextlib.contextmanager
def _made_and_held(work: Path, *, passable: bool) -> Iterator[None]:
    """Make the folder if need be, and keep it while the block lasts: the last workspace that was in it may be
    about to remove it. Raises DiskError."""
    with contextlib.ExitStack() as stack:
        is_held = False
        while not is_held:
            _made(work, passable=passable)
            try:
                with contextlib.suppress(FileNotFoundError):  # removed a moment ago
                    stack.enter_context(held_folder(work))
                    is_held = True
            except OSError as error:
                raise _unusable(work, error) from error
        yield


def _unusable(work: Path, error: OSError) -> DiskError:
    return DiskError(
        f'could not use folder "{work}": {error.strerror}',
        hint="Name a folder that you can write with --on.",
    )


def sweep(work: Path) -> tuple[str, ...]:
    """Reap every workspace under ``work`` whose process is gone; return the names of those that are removed.

    ``work`` has been found to be ours (``own_folder``): what lies in it is believed.
    """
    swept = []
    running = work / "running"
    for lock_path in sorted(running.glob("walproof-*.lock")):
        if not _LOCK.fullmatch(lock_path.name):
            continue
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # another sweep was quicker
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sockets, user = _read_lock(os.fsdecode(os.read(lock, 4096)), lock_path)
            if reap(lock_path.with_suffix(""), sockets, user, _SWEEP_PATIENCE_S):
                lock_path.unlink(missing_ok=True)
                swept.append(lock_path.stem)
        except BlockingIOError:
            pass  # its process lives
        finally:
            os.close(lock)
    for unborn in running.glob(f"walproof-*.lock{_UNBORN}"):
        with contextlib.suppress(OSError):
            if time.time() - unborn.lstat().st_mtime > _UNBORN_S:
                unborn.unlink()
    return tuple(swept)


def _take_lock(path: Path, sockets: Path, user: ServerUser | None) -> int:
    """Descriptor of the workspace's lock, which appears locked and with its contents."""
    unborn = path.with_name(path.name + _UNBORN)
    lock = os.open(unborn, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(lock, os.fsencode("\n".join([str(sockets), *to_words(user)])))
        unborn.rename(path)
    except BaseException:
        os.close(lock)
        unborn.unlink(missing_ok=True)
        raise
    return lock


def _is_held(lock_path: Path) -> bool:
    """Whether the process of that workspace lives. What could not be removed keeps a lock that nobody has."""
    try:
        lock = os.open(lock_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False  # it ended a moment ago
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _read_lock(text: str, path: Path) -> tuple[Path | None, ServerUser | None]:
    """(the sockets' folder, the servers' user) of a lock; None for what a crash has cut short."""
    sockets, *owner = text.split("\n")
    # It must never name another folder for removal.
    folder = Path(sockets) if Path(sockets).name == path.stem else None
    return folder, from_words(owner)

"""A folder of one walproof process, in which its throw-away clusters live, and its certain removal.

    <work>/templates/KEY/data            prepared data directories, kept between runs
    <work>/running/walproof-TOKEN/       clusters and logs of one process, removed when it ends
    <work>/running/walproof-TOKEN.lock   locked while that process lives; names its socket folder
    <temp>/walproof-TOKEN/               unix sockets (a socket's path may have 107 bytes at most)

Three things remove a workspace, whichever comes first: leaving the ``with`` block, the watchdog, and the
sweep of the next start, which takes every workspace whose lock is free. In memory (/dev/shm) templates go
with the last workspace: what they took would be missing elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from walproof.errors import DiskError
from walproof.postgres import watchdog
from walproof.postgres.reach import ServerUser
from walproof.postgres.reaper import reap

_SOCKET_PATH_BYTES_MAX = 107
"""sizeof(sun_path) - 1 on Linux (unix(7))."""
_FIRST_PORT = 5432
_MEMORY = Path("/dev/shm")


class Workspace:
    """Context manager. ``work`` is the folder whose disk is measured; ``user`` runs the servers.

    Raises DiskError when the folder cannot be written, or cannot be reached by ``user``.
    """

    def __init__(self, work: Path, user: ServerUser | None) -> None:
        self.work = work
        self.user = user
        self.templates = work / "templates"
        token = "walproof-" + secrets.token_hex(6)
        self.folder = work / "running" / token
        self.sockets = Path(tempfile.gettempdir()) / token
        self._lock_path = self.folder.with_name(token + ".lock")
        self._next_port = _FIRST_PORT

    def __enter__(self) -> Workspace:
        if len(os.fsencode(self.sockets)) + len("/.s.PGSQL.65535") > _SOCKET_PATH_BYTES_MAX:
            raise DiskError(
                f'path of the temporary folder is too long for a unix socket: "{self.sockets}"',
                hint="Set TMPDIR to a shorter path.",
            )
        try:
            for folder in (self.templates, self.folder.parent):
                folder.mkdir(parents=True, exist_ok=True)
            sweep(self.work)
            self._lock = os.open(self._lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._lock, os.fsencode(self.sockets))
        except OSError as error:
            raise _unusable(self.work, error) from error
        # Before the folders: a kill between them and the watchdog would leave them to the next start.
        self._watchdog = watchdog.start(self.folder, self.sockets)
        try:
            self._make_folders()
            self._hand_over()
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
        reap(self.folder, self.sockets)
        self._lock_path.unlink(missing_ok=True)
        os.close(self._lock)
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        self._watchdog.wait()
        if self.work.is_relative_to(_MEMORY) and not any((self.work / "running").glob("*.lock")):
            shutil.rmtree(self.work, ignore_errors=True)

    @property
    def owner(self) -> tuple[int, int] | None:
        """User and group of the servers' files; None where servers run as whoever runs this."""
        return None if self.user is None else (self.user.uid, self.user.gid)

    def make_folder(self, name: str) -> Path:
        """A new, empty folder in the workspace that the servers' user owns."""
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        if self.owner is not None:
            os.chown(folder, *self.owner)
        return folder

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder that ``make_folder`` made."""
        assert folder.parent == self.folder, folder
        shutil.rmtree(folder, ignore_errors=True)

    def is_alone(self) -> bool:
        """Whether no other process has a workspace in the same folder."""
        return list((self.work / "running").glob("walproof-*.lock")) == [self._lock_path]

    def take_port(self) -> int:
        """A port number that no other cluster of the workspace has (it only names a socket)."""
        self._next_port += 1
        return self._next_port

    def _make_folders(self) -> None:
        try:
            self.folder.mkdir(mode=0o700)
            self.sockets.mkdir(mode=0o700)
        except OSError as error:
            raise _unusable(self.work, error) from error

    def _hand_over(self) -> None:
        if self.user is None:
            return
        for folder in (self.folder, self.sockets):
            os.chown(folder, self.user.uid, self.user.gid)
        reached = subprocess.run(
            ["test", "-w", str(self.folder)],
            check=False,
            cwd="/",
            **self.user.subprocess_options,
        )
        if reached.returncode != 0:
            raise DiskError(
                f'user "{self.user.name}" cannot reach folder "{self.work}"',
                detail="PostgreSQL refuses to run as root, so its servers run as that user.",
                hint="Name another folder with --on, or let others pass through its parents (chmod o+x).",
            )


def _unusable(work: Path, error: OSError) -> DiskError:
    return DiskError(
        f'could not use folder "{work}": {error.strerror}',
        hint="Name a folder that you can write with --on.",
    )


def sweep(work: Path) -> tuple[str, ...]:
    """Reap every workspace under ``work`` whose process is gone; return their names."""
    swept = []
    for lock_path in sorted((work / "running").glob("walproof-*.lock")):
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # another sweep was quicker, or it is another user's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sockets = os.fsdecode(os.read(lock, 4096))
            reap(lock_path.with_suffix(""), Path(sockets) if _is_ours(sockets, lock_path) else None)
            lock_path.unlink(missing_ok=True)
            swept.append(lock_path.stem)
        except BlockingIOError:
            pass  # its process lives
        finally:
            os.close(lock)
    return tuple(swept)


def _is_ours(sockets: str, lock_path: Path) -> bool:
    # A lock file cut short by a crash must never name another folder for removal.
    return Path(sockets).name == lock_path.stem

"""Files for their owner alone, written whole or not at all, or locked; and files of others, opened without
waiting.

What is measured or recorded may hold names and figures of somebody's server. A file that a crash or a full
disk cut off would be taken for what it is not, so it gets its name when all of it is on the disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from walproof.errors import DiskError

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
TEXT_MOST = 64 << 20
"""Bytes of a text of others: what is larger is none that walproof has written."""


def write_whole(path: Path, data: str | bytes, mode: int = PRIVATE_FILE) -> None:
    """Write the file, a text as UTF-8, as `written_whole` does. Raises OSError."""
    with written_whole(path, mode) as stream:
        stream.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def written_whole(path: Path, mode: int = PRIVATE_FILE) -> Iterator[BinaryIO]:
    """A stream to write the file by; after a crash or an exception it is as before or complete. Raises
    OSError.

    What is not a plain file (a pipe, /dev/stdout) is written in place, and a link is followed.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    path = path.resolve()
    unfinished = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.new")
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(file, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def rename_whole(folder: Path, place: Path) -> None:
    """Give the folder its last name once all that is in it is on the disk: what is there is whole, also after
    the machine has lost its power. Raises OSError."""
    sync_filesystem(folder)
    folder.rename(place)
    sync_folder(place.parent)


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, or what a link leads to. Raises OSError, also for what is not a regular file:
    opening a FIFO would wait for somebody to write to it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def regular_text(path: Path) -> str:
    """What stands in a file that others may have made. Raises OSError, also for what is not a regular file
    and for more than TEXT_MOST, and UnicodeDecodeError."""
    with open_regular(path) as stream:
        content = stream.read(TEXT_MOST + 1)
    if len(content) > TEXT_MOST:
        raise OSError(errno.EFBIG, f"it is larger than {TEXT_MOST >> 20} MB", str(path))
    return content.decode()


@contextmanager
def locked_file(path: Path) -> Iterator[bool]:
    """Lock a file while the block lasts: it is made for that, and removed at the end. False if another
    process has the lock, or had it a moment ago. Raises OSError if the file cannot be made."""
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before may have removed the file meanwhile: the next one would lock another.
            is_ours = os.path.samestat(os.fstat(lock), path.stat())
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        try:
            yield is_ours
        finally:
            if is_ours:
                path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def is_there(path: Path) -> bool:
    """Whether something is there, links followed.

    Raises DiskError where that may not be looked at. Path.exists and Path.is_dir answer there with an error
    that nobody awaits, or, from Python 3.14 on, with a no that nobody can rely on.
    """
    return _mode(path) is not None


def is_folder(path: Path) -> bool:
    """Whether a folder is there, links followed. Raises DiskError as `is_there`."""
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DiskError(
            f'could not look at "{path}": {error.strerror}',
            hint="Run walproof as a user who may, or name another place."
            if isinstance(error, PermissionError)
            else None,
        ) from error


def reason(error: Exception) -> str:
    """What the system says of it, without the path, which the message names; else the error's own words."""
    return getattr(error, "strerror", None) or str(error)


def expanded(path: Path) -> Path:
    """The path with a home folder in the place of ``~`` or ``~user``. Raises DiskError if there is none."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise DiskError(
            f'could not find the home folder in "{path}"', hint="Set HOME, or name a path without ~."
        ) from error


def existing_above(path: Path) -> Path:
    """The path, or the nearest folder above it that exists: whose disk it will be on once it is made."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in the folder; what vanishes meanwhile counts as nothing."""
    total = 0
    pending = [os.fspath(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                        else:
                            total += entry.stat(follow_symlinks=False).st_size
                    except OSError:
                        continue
        except OSError:
            continue
    return total


def sync_folder(folder: Path) -> None:
    """Return when the names in the folder are on the disk. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync_filesystem(folder: Path) -> None:
    """Return when the whole file system that holds the folder is on the disk. syncfs(2), unlike sync(2), says
    what failed, and waits for no other disk. Raises OSError."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)


def private_folder(folder: Path) -> None:
    """Make the folder, and those above it that are missing, for their owner alone. Raises OSError.

    A folder that exists keeps its mode.
    """
    for level in (*reversed(folder.absolute().parents), folder.absolute()):
        try:
            level.mkdir(mode=PRIVATE_FOLDER)
        except OSError:
            if not level.is_dir():
                raise


def make_private(path: Path) -> None:
    """Make the file empty, for its owner alone, if there is none. Raises OSError."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))

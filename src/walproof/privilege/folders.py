"""Folders of our own: made so that nobody else can change them, and refused where somebody could.

A folder with a well-known name (``/dev/shm/walproof-work-0``, ``/tmp/walproof-work``) may have been made by
somebody else before, with files in it that would make us remove, overwrite or start what they name.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from pathlib import Path

from walproof.errors import DiskError

_PRIVATE, _PASSABLE = 0o700, 0o711
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def own_folder(folder: Path, *, passable: bool) -> Path:
    """The real path of ``folder``, a folder of ours that nobody else can change or exchange; made if missing.

    ``passable``: other users may pass through it to what lies in it, which they own (0711 instead of 0700).
    Raises DiskError if it is somebody else's or a symbolic link, or if others may write to it or rename it.
    """
    mode = _PASSABLE if passable else _PRIVATE
    try:
        there = next(path for path in folder.absolute().parents if path.exists())
        real = there.resolve(strict=True) / folder.absolute().relative_to(there)
        # Before anything is made: somebody else's folder may lead elsewhere a moment later.
        for above in (there.resolve(strict=True), *there.resolve(strict=True).parents):
            check_above(above, real)
        real.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            real.mkdir(mode=mode)
        check_own(real)
        for above in real.parents:
            check_above(above, real)
        present = stat.S_IMODE(real.stat().st_mode)
        if present & mode != mode:
            real.chmod(present | mode)
    except OSError as error:
        raise DiskError(
            f'could not use folder "{folder}": {error.strerror}',
            hint="Name a folder that you can write with --on.",
        ) from error
    return real


def check_own(folder: Path) -> None:
    """Raises DiskError for what is not a folder, is somebody else's or may be changed by others; OSError."""
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise DiskError(
            f'could not use folder "{folder}": it is a symbolic link',
            detail="Whoever made it decides where files go.",
            hint="Remove it, or name another folder.",
        )
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(20, os.strerror(20), str(folder))
    if status.st_uid != os.geteuid():
        raise DiskError(
            f'could not use folder "{folder}": it belongs to user {_name(status.st_uid)}',
            detail=f"Expected user {_name(os.geteuid())}. Its owner could exchange what is in it.",
            hint="Remove it, name another folder, or run walproof as that user.",
        )
    if status.st_mode & _OTHERS_WRITE:
        raise DiskError(
            f'could not use folder "{folder}": others may write to it',
            detail=f"Its mode is {stat.S_IMODE(status.st_mode):04o}.",
            hint="Remove it and what is in it, or, if nobody else has written there, chmod go-w it.",
        )


def check_above(above: Path, folder: Path) -> None:
    """Raises DiskError if somebody else may rename what lies in ``above``, and so exchange ``folder``."""
    status = above.lstat()
    if status.st_uid not in (0, os.geteuid()):
        raise DiskError(
            f'could not use folder "{folder}": "{above}" belongs to user {_name(status.st_uid)}',
            detail="Whoever owns a folder above it could exchange it while servers run.",
            hint="Name a folder elsewhere, or run walproof as that user.",
        )
    is_open = bool(status.st_mode & stat.S_IWOTH)
    if status.st_mode & stat.S_IWGRP and os.geteuid() == 0:
        is_open = is_open or status.st_gid != 0
    if is_open and not status.st_mode & stat.S_ISVTX:
        raise DiskError(
            f'could not use folder "{folder}": others may write to "{above}"',
            detail=f"Its mode is {stat.S_IMODE(status.st_mode):04o}, without the sticky bit, "
            "so they could exchange what lies in it while servers run.",
            hint=f'Name a folder elsewhere, or chmod go-w "{above}".',
        )


def _name(uid: int) -> str:
    try:
        return f'"{pwd.getpwuid(uid).pw_name}"'
    except KeyError:
        return str(uid)

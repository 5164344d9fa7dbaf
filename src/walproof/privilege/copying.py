"""Copies trees of files from a folder of one user into a folder of another.

What is read is read with the rights of its reader and what is written with those of its writer, folder by
folder through open descriptors: whoever owns the source cannot lead the copy to other files meanwhile.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE_BYTES = 16 << 20


def copy_tree(source: Path, target: Path, *, reader: ServerUser | None, writer: ServerUser | None) -> None:
    """Copy the folder ``source`` to ``target``, which does not exist yet.

    Folders (0700), files (0600) and symbolic links as they are; files with several names keep them; nothing
    else is copied. A user of None is ourselves. Raises OSError.
    """
    names: dict[tuple[int, int], Path] = {}
    with acting_as(writer):
        target.mkdir(mode=0o700)
    tree = os.fwalk(source, follow_symlinks=False, onerror=_raise)
    while True:
        with acting_as(reader):
            step = next(tree, None)
        if step is None:
            return
        folder, folders, files, descriptor = step
        place = target / Path(folder).relative_to(source)
        for name in (*folders, *files):
            with acting_as(reader):
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                link = os.readlink(name, dir_fd=descriptor) if stat.S_ISLNK(status.st_mode) else None
            new = place / name
            with acting_as(writer):
                if link is not None:
                    new.symlink_to(link)
                elif stat.S_ISDIR(status.st_mode):
                    new.mkdir(mode=0o700)
            if stat.S_ISREG(status.st_mode):
                first = names.setdefault((status.st_dev, status.st_ino), new)
                if first is new:
                    _copy_file(name, descriptor, new, reader, writer)
                else:
                    with acting_as(writer):
                        new.hardlink_to(first)


def _copy_file(
    name: str, folder: int, new: Path, reader: ServerUser | None, writer: ServerUser | None
) -> None:
    with acting_as(reader):
        source = os.open(name, _READ, dir_fd=folder)
    try:
        with acting_as(writer):
            target = os.open(new, _WRITE, 0o600)
        try:
            while os.sendfile(target, source, None, _PIECE_BYTES):
                pass
        finally:
            os.close(target)
    finally:
        os.close(source)


def _raise(error: OSError) -> None:
    raise error

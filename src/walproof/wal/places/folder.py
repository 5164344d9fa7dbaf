"""Folders and files of the file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from walproof.errors import WalError
from walproof.files import open_regular
from walproof.wal.places.place import MOST_FOLDERS, FileStatus, Place, Source

_PIECE_BYTES = 1 << 20


class FileEntry:
    """A file or folder that a folder holds."""

    __slots__ = ("is_folder", "name", "path")
    reader = None

    def __init__(self, path: str, name: str, *, is_folder: bool) -> None:
        self.path, self.name, self.is_folder = path, name, is_folder

    def status(self) -> FileStatus | None:
        """The file's status now."""
        return file_status(self.path)


def file_status(path: str) -> FileStatus | None:
    """Size and time of change; only zeros for a link that leads nowhere, None for what is gone."""
    try:
        status = Path(path).stat()
    except OSError:
        return FileStatus(0, 0) if os.path.lexists(path) else None
    return FileStatus(status.st_size, status.st_mtime_ns)


class Folder(Place):
    """A place of the file system."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def __truediv__(self, name: str) -> Folder:
        return Folder(self._path / name)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self._path.name

    @property
    def parent(self) -> Folder:
        """The folder that it is in."""
        return Folder(self._path.parent)

    def absolute(self) -> Folder:
        """The same place, whatever the current folder is."""
        return Folder(self._path.absolute())

    def is_folder(self) -> bool:
        """Whether there is a folder."""
        return self._path.is_dir()

    def is_file(self) -> bool:
        """Whether there is a file."""
        return self._path.is_file()

    def entry(self) -> FileEntry:
        """The file as its folder would list it. Raises WalError."""
        if not self._path.exists():
            raise WalError(f'could not open file "{self}": No such file or directory')
        return FileEntry(str(self._path), self._path.name, is_folder=False)

    def entries(self) -> list[FileEntry]:
        """What is in the folder, by name. Raises WalError."""
        try:
            with os.scandir(self._path) as found:
                # Where a disk is mounted, only root may look into lost+found, and there is nothing for us.
                return sorted(
                    (
                        FileEntry(entry.path, entry.name, is_folder=entry.is_dir(follow_symlinks=False))
                        for entry in found
                        if entry.name != "lost+found"
                    ),
                    key=lambda entry: entry.name,
                )
        except OSError as error:
            raise WalError(f'could not open directory "{self}": {error.strerror}') from error

    def files(self, depth: int = MOST_FOLDERS) -> Iterator[FileEntry]:
        """Files in the folder and the folders in it. Raises WalError."""
        for entry in self.entries():
            if not entry.is_folder:
                yield entry
            elif depth > 0:
                yield from Folder(Path(entry.path)).files(depth - 1)

    def read(self) -> bytes:
        """All bytes. Raises OSError, WalError."""
        with open_regular(self._path) as stream:
            return stream.read()

    def first_bytes(self, count: int) -> bytes:
        """The beginning. Raises OSError, WalError."""
        with open_regular(self._path) as stream:
            return stream.read(count)

    def pieces(self) -> Iterator[bytes]:
        """All bytes, a piece at a time. Raises OSError, WalError."""
        with open_regular(self._path) as stream:
            while piece := stream.read(_PIECE_BYTES):
                yield piece

    def source(self) -> Source:
        """All WAL in it, for the native module. Raises WalError."""
        return str(self._path)

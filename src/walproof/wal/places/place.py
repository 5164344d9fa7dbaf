"""A place where WAL files lie, and what is known about a file, the same for folders and object stores.

``folder.py`` and ``objects.py`` are the two kinds of places; nothing outside this package knows which of them
it reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

MOST_FOLDERS = 8
"""How deep folders are searched."""


class FileStatus(NamedTuple):
    """What tells whether a file is still the same."""

    size: int
    mtime_ns: int
    etag: str = ""
    """An object store's own mark (ETag) of the contents."""


class Reader(Protocol):
    """Reads files that are not in the file system; called by the native module on its threads."""

    def expect(self, files: Iterable[tuple[str, FileStatus]], /) -> None:
        """Files that will be read, in this order."""

    def piece(self, path: str, number: int, /) -> bytes:
        """A piece of a file; all but the last have 4 MiB (``PIECE_SIZE``, crates/walproof-wal)."""

    def head(self, path: str, /) -> bytes:
        """The first bytes of a file, for a caller that will not read on."""

    def small(self, path: str, /) -> bytes:
        """A small file as a whole, kept in case it is asked for again; empty if there is none."""

    def status(self, path: str, /) -> FileStatus | None:
        """The file's status now; None when it is gone."""


FileSource = str | tuple[str, int, Reader]
"""One file for the native module: its path, or path, bytes and reader."""


@dataclass(frozen=True, slots=True)
class Objects:
    """What a store listed, for the native module."""

    origin: str
    objects: Sequence[tuple[str, int, int]]
    """Path, bytes, us since 1970."""
    reader: Reader


Source = str | Objects
"""A folder or file, or a listing, for the native module."""


class Entry(Protocol):
    """What is in a folder."""

    @property
    def path(self) -> str:
        """Path."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    @property
    def is_folder(self) -> bool:
        """Links to folders do not count."""

    @property
    def reader(self) -> Reader | None:
        """None if the file system reads it."""

    def status(self) -> FileStatus | None:
        """Size and time of change; None for a file that is gone."""


def file_source(path: str, size: int, reader: Reader | None) -> FileSource:
    """How the native module reads a file."""
    return path if reader is None else (path, size, reader)


def file_path(file: FileSource) -> str:
    """Its path."""
    return file if isinstance(file, str) else file[0]


def entry_source(entry: Entry) -> FileSource:
    """How the native module reads an entry."""
    status = None if entry.reader is None else entry.status()
    return file_source(entry.path, status.size if status else 0, entry.reader)


class Connection(Protocol):
    """How a place is read if it is not in the file system."""

    failure: BaseException | None
    """The failure that makes it pointless to read on."""

    def stop(self, reason: BaseException) -> None:
        """Let everything that is read, now or later, fail for this reason."""


class Place(ABC):
    """A folder or a file. Its text is its path, as it was named.

    Every method that looks raises WalError when a place cannot be looked at.
    """

    __slots__ = ()

    @property
    def connection(self) -> Connection | None:
        """None in the file system."""
        return None

    @property
    def reader(self) -> Reader | None:
        """The reader of the place's files; None if the file system reads them."""
        return None

    def read_by(self, threads: int) -> int:
        """Say how many threads would read; return how many may."""
        return threads

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of the path."""

    @property
    @abstractmethod
    def parent(self) -> Self:
        """The folder that it is in."""

    @abstractmethod
    def __truediv__(self, name: str) -> Self:
        """The place of that name in the folder."""

    @abstractmethod
    def absolute(self) -> Self:
        """The same place, whatever the current folder is."""

    @abstractmethod
    def is_folder(self) -> bool:
        """Whether there is a folder."""

    @abstractmethod
    def is_file(self) -> bool:
        """Whether there is a file."""

    @abstractmethod
    def entry(self) -> Entry:
        """The file as its folder would list it."""

    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """What is in the folder, by name."""

    @abstractmethod
    def files(self, depth: int = MOST_FOLDERS) -> Iterator[Entry]:
        """Files in the folder and the folders in it. Links to folders are not followed."""

    @abstractmethod
    def read(self) -> bytes:
        """A small file. Raises OSError, too."""

    @abstractmethod
    def first_bytes(self, count: int) -> bytes:
        """The beginning of a file. Raises OSError, too."""

    @abstractmethod
    def pieces(self) -> Iterator[bytes]:
        """A file of any size, a piece at a time. Raises OSError, too."""

    @abstractmethod
    def source(self) -> Source:
        """All WAL in the place, for the native module."""


def read_text(place: Place) -> str:
    """A small file in UTF-8. Raises OSError, ValueError, WalError."""
    return place.read().decode("utf-8")

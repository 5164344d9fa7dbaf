"""Folders and objects of an object store: ``s3://bucket/folder``.

A store has no folders, only names with slashes in them; here they are folders. A folder of WAL is listed with
one request for a thousand objects, however many folders are in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from walproof.errors import WalError
from walproof.wal.places.failures import ObjectError
from walproof.wal.places.place import MOST_FOLDERS, FileStatus, Objects, Place
from walproof.wal.places.store import Listed, ObjectStore
from walproof.wal.places.window import PIECE_BYTES, Window
from walproof.wal.verify.names import history_timeline, is_segment


class ObjectEntry:
    """An object in a listing, or a folder."""

    __slots__ = ("_status", "is_folder", "path", "reader")

    def __init__(self, path: str, reader: Window, status: FileStatus | None) -> None:
        """``status``: None for a folder."""
        self.path, self.reader, self._status = path, reader, status
        self.is_folder = status is None

    @property
    def name(self) -> str:
        """What follows the last slash."""
        return self.path.rpartition("/")[2]

    def status(self) -> FileStatus | None:
        """The object's status as it was listed."""
        return self._status


class ObjectPlace(Place):
    """A place of a store."""

    __slots__ = ("_key", "_store", "_window")

    def __init__(self, store: ObjectStore, window: Window, key: str = "") -> None:
        self._store, self._window, self._key = store, window, key

    @property
    def connection(self) -> ObjectStore:
        """The store."""
        return self._store

    @property
    def reader(self) -> Window:
        """What reads any object of the store."""
        return self._window

    def read_by(self, threads: int) -> int:
        """How many threads may read."""
        return self._window.read_by(threads)

    def __str__(self) -> str:
        return self._store.path(self._key)

    def __truediv__(self, name: str) -> ObjectPlace:
        return self._at(f"{self._key}/{name}" if self._key else name)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self._key.rpartition("/")[2] or self._store.root.partition("://")[2]

    @property
    def parent(self) -> ObjectPlace:
        """The folder that it is in."""
        return self._at(self._key.rpartition("/")[0])

    def absolute(self) -> ObjectPlace:
        """The same place, whatever the current folder is."""
        return self

    def is_folder(self) -> bool:
        """Whether there is a folder."""
        folders, objects = self._store.folder(self._key)
        return bool(folders or objects)

    def is_file(self) -> bool:
        """Whether there is a file."""
        return bool(self._key) and self._store.head(self._key) is not None

    def entry(self) -> ObjectEntry:
        """The file as its folder would list it. Raises WalError."""
        status = self._store.head(self._key) if self._key else None
        if status is None:
            raise self._absent()
        return ObjectEntry(str(self), self._window, status)

    def entries(self) -> list[ObjectEntry]:
        """What is in the folder, by name. Raises WalError."""
        folders, objects = self._store.folder(self._key)
        found = [ObjectEntry(self._store.path(folder.rstrip("/")), self._window, None) for folder in folders]
        found += map(self._entry, objects)
        return sorted(found, key=lambda entry: entry.name)

    def files(self, depth: int = MOST_FOLDERS) -> Iterator[ObjectEntry]:
        """Files in the folder and the folders in it. Raises WalError."""
        below = len(self._key) + 1 if self._key else 0
        for listed in self._store.listed(self._key):
            if listed.key.count("/", below) <= depth:
                yield self._entry(listed)

    def read(self) -> bytes:
        """All bytes. Raises OSError, WalError."""
        try:
            return self._store.read(self._key)
        except ObjectError as error:
            raise OSError(0, str(error)) from None

    def first_bytes(self, count: int) -> bytes:
        """The beginning. Raises OSError, WalError."""
        return self._fetch(0, count)

    def pieces(self) -> Iterator[bytes]:
        """All bytes, a piece at a time. Raises OSError, WalError."""
        status = self._store.head(self._key)
        for start in range(0, status.size if status else 0, PIECE_BYTES):
            yield self._fetch(start, start + PIECE_BYTES, status.etag if status else "")

    def source(self) -> Objects:
        """All WAL in it, for the native module. Raises WalError."""
        found = [listed for listed in self._store.listed(self._key) if _is_wal(listed)]
        if not found:
            if self._key and (status := self._store.head(self._key)) is not None:
                found = [Listed(self._key, status)]
                if not _is_wal(found[0]):
                    raise WalError(
                        f'file "{self}" is not a WAL segment',
                        hint="WAL segments have names of 24 hexadecimal digits.",
                    )
            elif not self.is_folder():
                raise self._absent()
        found.sort(key=lambda listed: listed.key.rpartition("/")[2])
        objects = [(self._store.path(listed.key), listed.status) for listed in found]
        self._window.expect(objects)
        return Objects(
            str(self),
            [(path, status.size, max(0, status.mtime_ns // 1000)) for path, status in objects],
            self._window,
        )

    def _at(self, key: str) -> ObjectPlace:
        return ObjectPlace(self._store, self._window, key)

    def _entry(self, listed: Listed) -> ObjectEntry:
        return ObjectEntry(self._store.path(listed.key), self._window, listed.status)

    def _fetch(self, start: int, end: int, etag: str = "") -> bytes:
        try:
            return self._store.wait(self._store.start(lambda: self._store.fetch(self._key, start, end, etag)))
        except ObjectError as error:
            raise OSError(0, str(error)) from None

    def _absent(self) -> WalError:
        return WalError(
            f'could not open "{self}": there is no such object, and nothing below it',
            hint="Name the folder of the repository or of its WAL, as the tool that writes it is told.",
        )


def _is_wal(listed: Listed) -> bool:
    name = listed.key.rpartition("/")[2]
    return history_timeline(name) is not None or is_segment(name)

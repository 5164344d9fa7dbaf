"""Pieces of objects, fetched before they are asked for: as many as a bounded amount of memory holds.

The decoder reads with several threads, each of which goes on from one piece to the next and from one object
to the next in the order that was announced. So whatever is asked for, the pieces after it are fetched, too: a
fixed number for each thread. What was read stays while there is room, since a file is looked at twice now and
then.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from itertools import islice

from walproof.errors import WalError
from walproof.wal.places.failures import ObjectError
from walproof.wal.places.place import Status
from walproof.wal.places.store import Store

PIECE_BYTES = 4 << 20
"""``PIECE_SIZE`` of crates/walproof-wal."""
HEAD_BYTES = 64 << 10
MOST_THREADS = 4
"""Threads of the decoder: each has a piece of its own besides those here."""
AHEAD = 8
"""Pieces that are fetched ahead, for all threads together."""
MOST_BYTES = 12 * PIECE_BYTES
"""Of all pieces together."""

_Key = tuple[str, int]


class Window:
    """Reads objects of one store, for the native module (``place.Reader``)."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ahead_each = AHEAD
        self._lock = threading.Lock()
        self._order: list[tuple[str, Status]] = []
        self._places: dict[str, int] = {}
        self._ahead: OrderedDict[_Key, Future[bytes]] = OrderedDict()
        """Not asked for yet."""
        self._read: OrderedDict[_Key, Future[bytes]] = OrderedDict()
        self._wanted: Counter[_Key] = Counter()
        """How many threads wait for a piece."""
        self._bytes = 0
        self._small: dict[str, bytes] = {}
        """Few: what describes a repository, and where none was found."""

    def read_by(self, threads: int) -> int:
        """Say how many threads would read; how many may."""
        threads = min(threads, MOST_THREADS)
        self._ahead_each = max(1, AHEAD // threads)
        return threads

    def expect(self, objects: Iterable[tuple[str, Status]]) -> None:
        """Objects that will be read, in this order. What is held of one that has changed is given up."""
        with self._lock:
            for path, status in objects:
                place = self._places.get(path)
                if place is None:
                    self._places[path] = len(self._order)
                    self._order.append((path, status))
                elif self._order[place][1] != status:
                    for held in (self._ahead, self._read):
                        for key in [key for key in held if key[0] == path]:
                            self._forget(key, held)
                    self._order[place] = (path, status)

    @property
    def held_bytes(self) -> int:
        """Bytes of the pieces that are here or on their way."""
        return self._bytes

    def piece(self, path: str, number: int) -> bytes:
        """A piece of an object. Raises WalError, ObjectError."""
        key = path, number
        with self._lock:
            self._wanted[key] += 1
            work = self._asked(key)
            for after in self._following(path, number):
                if after not in self._ahead and after not in self._read:
                    self._begin(after, self._ahead)
            self._make_room()
        try:
            return self._store.wait(work)
        except WalError as error:
            self._store.failure = error
            raise
        finally:
            with self._lock:
                self._wanted[key] -= 1
                if not self._wanted[key]:
                    del self._wanted[key]

    def head(self, path: str) -> bytes:
        """The first bytes. Raises WalError, ObjectError."""
        try:
            return self._store.wait(
                self._store.start(lambda: self._store.fetch(self._key(path), 0, HEAD_BYTES))
            )
        except WalError as error:
            self._store.failure = error
            raise

    def small(self, path: str) -> bytes:
        """A small object as a whole, kept; empty where there is none. Raises WalError."""
        with self._lock:
            known = self._small.get(path)
        if known is not None:
            return known
        key = self._key(path)
        found = b""
        try:
            if key != path:  # else the folder above the bucket was asked for
                found = self._store.read(key)
        except ObjectError:
            pass
        except WalError as error:
            self._store.failure = error
            raise
        with self._lock:
            self._small[path] = found
        return found

    def status(self, path: str) -> Status | None:
        """What the object is now. Raises WalError."""
        return self._store.head(self._key(path))

    def _key(self, path: str) -> str:
        return path.removeprefix(f"{self._store.root}/")

    def _asked(self, key: _Key) -> Future[bytes]:
        work = self._ahead.pop(key, None)
        if work is not None:
            self._read[key] = work
        elif key in self._read and not _is_lost(self._read[key]):
            self._read.move_to_end(key)
        else:
            if key in self._read:
                self._forget(key, self._read)
            self._begin(key, self._read)
        return self._read[key]

    def _begin(self, key: _Key, to: OrderedDict[_Key, Future[bytes]]) -> None:
        path, number = key
        place = self._places.get(path)
        etag = "" if place is None else self._order[place][1].etag
        start = number * PIECE_BYTES
        to[key] = self._store.start(
            lambda: self._store.fetch(self._key(path), start, start + PIECE_BYTES, etag)
        )
        self._bytes += self._size(key)

    def _forget(self, key: _Key, where: OrderedDict[_Key, Future[bytes]]) -> None:
        where.pop(key).cancel()
        self._bytes -= self._size(key)

    def _size(self, key: _Key) -> int:
        path, number = key
        place = self._places.get(path)
        size = PIECE_BYTES if place is None else self._order[place][1].size - number * PIECE_BYTES
        return max(0, min(PIECE_BYTES, size))

    def _following(self, path: str, number: int) -> Iterator[_Key]:
        """The pieces after one, as many as are fetched ahead for a thread."""
        place = self._places.get(path)
        if place is not None:
            yield from islice(self._pieces_from(place, number + 1), self._ahead_each)

    def _pieces_from(self, place: int, number: int) -> Iterator[_Key]:
        while place < len(self._order):
            path, status = self._order[place]
            yield from ((path, piece) for piece in range(number, -(-status.size // PIECE_BYTES)))
            place, number = place + 1, 0

    def _make_room(self) -> None:
        """What was read goes first, then what was fetched for nothing, as before the end of a timeline.
        What a thread waits for stays."""
        while self._bytes > MOST_BYTES:
            oldest = next((key for key in self._read if not self._wanted[key]), None)
            if oldest is not None:
                self._forget(oldest, self._read)
            elif self._ahead:
                self._forget(next(iter(self._ahead)), self._ahead)
            else:
                return


def _is_lost(work: Future[bytes]) -> bool:
    """Whether what was fetched before is of no use."""
    return work.cancelled() or (work.done() and work.exception() is not None)

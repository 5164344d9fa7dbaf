"""Pieces of objects, fetched before they are asked for: as many as a bounded amount of memory holds.

The decoder reads with several threads, each of which goes on from one piece to the next and from one object
to the next in the order that was announced. So when a piece is asked for, the pieces after it are fetched,
too: a fixed number for each thread. What was read stays while there is room, since a file is sometimes looked
at twice."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from itertools import islice

from walproof.errors import WalError
from walproof.wal.places.failures import ObjectError
from walproof.wal.places.place import FileStatus
from walproof.wal.places.store import ObjectStore

PIECE_BYTES = 4 << 20
"""``PIECE_SIZE`` of crates/walproof-wal."""
HEAD_BYTES = 64 << 10
MOST_HEADS = 64
"""Of so many objects the first bytes are kept: whose WAL it is, and how long segments are, is asked of the
same few."""
MOST_THREADS = 4
"""The most threads of the decoder; each has a piece of its own in addition to those here."""
AHEAD = 10
"""Pieces that are fetched ahead, for all threads together: a request each, since a store sends only so much
for each of them."""
MOST_BYTES = 12 * PIECE_BYTES
"""The most bytes of all pieces together."""
REMEMBERED = 64
"""Of so many pieces that were read last it is known, so that they are not fetched ahead again."""
LEAST_BYTES = 128 << 10
"""What a piece counts as, however short it is: else as many small objects would be held as there are."""

_Key = tuple[str, int]


class Window:
    """Reads objects of one store, for the native module (``place.Reader``)."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._ahead_each = AHEAD
        self._lock = threading.Lock()
        self._order: list[tuple[str, FileStatus]] = []
        self._places: dict[str, int] = {}
        self._ahead: OrderedDict[_Key, Future[bytes]] = OrderedDict()
        """Not asked for yet."""
        self._read: OrderedDict[_Key, Future[bytes]] = OrderedDict()
        self._passed: OrderedDict[_Key, None] = OrderedDict()
        """Read before, by whichever thread."""
        self._wanted: Counter[_Key] = Counter()
        """How many threads wait for a piece."""
        self._bytes = 0
        self._heads: OrderedDict[str, bytes] = OrderedDict()
        self._small: dict[str, bytes] = {}
        """Small files that are kept. They are few: what describes a repository, or that nothing was found."""

    def read_by(self, threads: int) -> int:
        """Say how many threads would read; return how many may."""
        threads = min(threads, MOST_THREADS)
        self._ahead_each = max(1, AHEAD // threads)
        return threads

    def expect(self, objects: Iterable[tuple[str, FileStatus]]) -> None:
        """Note the objects that will be read, in this order. What is held of an object that has changed is
        dropped."""
        with self._lock:
            for path, status in objects:
                place = self._places.get(path)
                if place is None:
                    self._places[path] = len(self._order)
                    self._order.append((path, status))
                elif self._order[place][1] != status:
                    self._heads.pop(path, None)
                    for held in (self._ahead, self._read):
                        for key in [key for key in held if key[0] == path]:
                            self._forget(key, held)
                    self._order[place] = (path, status)

    @property
    def held_bytes(self) -> int:
        """Bytes of the pieces that are here or on the way."""
        return self._bytes

    def piece(self, path: str, number: int) -> bytes:
        """A piece of an object. Raises WalError, ObjectError."""
        key = path, number
        with self._lock:
            self._wanted[key] += 1
            work = self._asked(key)
            self._pass(key)
            self._make_room()
            self._fetch_ahead(path, number)
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
        with self._lock:
            known = self._heads.get(path)
        if known is not None:
            return known
        try:
            found = self._store.wait(
                self._store.start(lambda: self._store.fetch(self._key(path), 0, HEAD_BYTES))
            )
        except WalError as error:
            self._store.failure = error
            raise
        with self._lock:
            self._heads[path] = found
            if len(self._heads) > MOST_HEADS:
                self._heads.popitem(last=False)
        return found

    def small(self, path: str) -> bytes:
        """A small object as a whole, kept; empty if there is none. Raises WalError."""
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

    def status(self, path: str) -> FileStatus | None:
        """The object's status now. Raises WalError."""
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
            self._read[key] = self._begin(key)
        return self._read[key]

    def _pass(self, key: _Key) -> None:
        """Note that a piece was read. If it was read before, another pass begins."""
        if key in self._passed:
            self._passed.clear()
        self._passed[key] = None
        if len(self._passed) > REMEMBERED:
            self._passed.popitem(last=False)

    def _begin_ahead(self, key: _Key) -> bool:
        """Begin a request for what nobody waits for, if there is room."""
        if key in self._read:
            return True
        self._make_room(self._size(key), is_needed=False)
        if self._bytes + self._size(key) > MOST_BYTES:
            return False
        self._ahead[key] = self._begin(key)
        return True

    def _begin(self, key: _Key) -> Future[bytes]:
        path, number = key
        place = self._places.get(path)
        start, end, etag = number * PIECE_BYTES, (number + 1) * PIECE_BYTES, ""
        if place is not None:
            status = self._order[place][1]
            end, etag = min(end, max(start + 1, status.size)), status.etag
        self._bytes += self._size(key)
        return self._store.start(lambda: self._store.fetch(self._key(path), start, end, etag))

    def _forget(self, key: _Key, where: OrderedDict[_Key, Future[bytes]]) -> None:
        where.pop(key).cancel()
        self._bytes -= self._size(key)

    def _size(self, key: _Key) -> int:
        path, number = key
        place = self._places.get(path)
        size = PIECE_BYTES if place is None else self._order[place][1].size - number * PIECE_BYTES
        return max(LEAST_BYTES, min(PIECE_BYTES, size))

    def _fetch_ahead(self, path: str, number: int) -> None:
        """Begin with the pieces after this one: a thread's share of them in any case, and more as long as
        other threads, which may be reading the very next object, have not begun as many."""
        place = self._places.get(path)
        if place is None:
            return
        for count, key in enumerate(islice(self._pieces_from(place, number + 1), AHEAD)):
            if count >= self._ahead_each and len(self._ahead) >= AHEAD:
                return
            if key not in self._passed and key not in self._ahead and not self._begin_ahead(key):
                return

    def _pieces_from(self, place: int, number: int) -> Iterator[_Key]:
        while place < len(self._order):
            path, status = self._order[place]
            yield from ((path, piece) for piece in range(number, -(-status.size // PIECE_BYTES)))
            place, number = place + 1, 0

    def _make_room(self, more: int = 0, *, is_needed: bool = True) -> None:
        """What was read goes first, then, if it has to be, what was fetched for nothing, as before the end of
        a timeline. What a thread waits for stays."""
        while self._bytes + more > MOST_BYTES:
            oldest = next((key for key in self._read if not self._wanted[key]), None)
            if oldest is not None:
                self._forget(oldest, self._read)
            elif is_needed and self._ahead:
                self._forget(next(iter(self._ahead)), self._ahead)
            else:
                return


def _is_lost(work: Future[bytes]) -> bool:
    """Whether what was fetched before is of no use."""
    return work.cancelled() or (work.done() and work.exception() is not None)

"""Pieces of objects, fetched before they are asked for: as many as a bounded amount of memory holds.

The decoder reads with several threads, each of which goes on from one piece to the next and from one object
to the next in the order that was announced. So when a piece is asked for, the pieces after it are fetched,
too: a fixed number for each thread. What was read stays while there is room, since a file is sometimes looked
at twice."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice, takewhile

from walproof.errors import WalError
from walproof.wal.places.failures import ObjectError
from walproof.wal.places.place import Status
from walproof.wal.places.store import Store

PIECE_BYTES = 4 << 20
"""``PIECE_SIZE`` of crates/walproof-wal."""
HEAD_BYTES = 64 << 10
MOST_THREADS = 4
"""The most threads of the decoder; each has a piece of its own in addition to those here."""
RUN = 4
"""Pieces that one request fetches at most: a segment of the usual size."""
AHEAD = 8
"""Pieces that are fetched ahead, for all threads together."""
MOST_BYTES = 16 * PIECE_BYTES
"""The most bytes of all pieces together."""
LEAST_BYTES = 128 << 10
"""What a piece counts as, however short it is: else as many small objects would be held as there are."""

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
        """Small files that are kept. They are few: what describes a repository, or that nothing was found."""

    def read_by(self, threads: int) -> int:
        """Say how many threads would read; return how many may."""
        threads = min(threads, MOST_THREADS)
        self._ahead_each = max(1, AHEAD // threads)
        return threads

    def expect(self, objects: Iterable[tuple[str, Status]]) -> None:
        """Note the objects that will be read, in this order. What is held of an object that has changed is
        dropped."""
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
        """Bytes of the pieces that are here or on the way."""
        return self._bytes

    def piece(self, path: str, number: int) -> bytes:
        """A piece of an object. Raises WalError, ObjectError."""
        key = path, number
        with self._lock:
            self._wanted[key] += 1
            work = self._asked(key)
            self._make_room()
            for after in self._following(path, number):
                if after not in self._ahead and after not in self._read and not self._begin_ahead(after):
                    break
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

    def status(self, path: str) -> Status | None:
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
            self._begin(self._run(key))
            self._read[key] = self._ahead.pop(key)
        return self._read[key]

    def _run(self, key: _Key) -> list[_Key]:
        """The piece and those after it that one request fetches with it: none that is here already."""
        path, first = key
        place = self._places.get(path)
        size = self._order[place][1].size if place is not None else 0
        end = min(-(-size // PIECE_BYTES), (first // RUN + 1) * RUN)
        after = takewhile(
            lambda piece: piece not in self._ahead and piece not in self._read,
            ((path, number) for number in range(first + 1, end)),
        )
        return [key, *after]

    def _begin_ahead(self, key: _Key) -> bool:
        """Begin a request for what nobody waits for, if there is room."""
        run = self._run(key)
        self._make_room(sum(map(self._size, run)), is_needed=False)
        if self._bytes + sum(map(self._size, run)) > MOST_BYTES:
            return False
        self._begin(run)
        return True

    def _begin(self, run: Sequence[_Key]) -> None:
        path, first = run[0]
        place = self._places.get(path)
        start, end, etag = first * PIECE_BYTES, (first + len(run)) * PIECE_BYTES, ""
        if place is not None:
            status = self._order[place][1]
            end, etag = min(end, max(start + 1, status.size)), status.etag
        key = self._key(path)
        told = self._store.start_run(
            lambda: self._store.fetch_parts(key, start, end, etag, PIECE_BYTES), len(run)
        )
        for piece, work in zip(run, told, strict=True):
            self._ahead[piece] = work
            self._bytes += self._size(piece)

    def _forget(self, key: _Key, where: OrderedDict[_Key, Future[bytes]]) -> None:
        where.pop(key).cancel()
        self._bytes -= self._size(key)

    def _size(self, key: _Key) -> int:
        path, number = key
        place = self._places.get(path)
        size = PIECE_BYTES if place is None else self._order[place][1].size - number * PIECE_BYTES
        return max(LEAST_BYTES, min(PIECE_BYTES, size))

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

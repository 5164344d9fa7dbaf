"""One bucket: listings, statuses, ranges of objects, each with the library's retries.

Requests run on a few threads, so that many are under way at once and whoever waits for one can be
interrupted. The library's own asynchronous calls are not used: their last steps run on the library's own
threads, which abort the whole process if the interpreter has ended meanwhile."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from walproof.errors import WalError
from walproof.wal.places.client import open_client
from walproof.wal.places.failures import ObjectError, failure
from walproof.wal.places.place import FileStatus

if TYPE_CHECKING:
    from obstore import ObjectMeta

_T = TypeVar("_T")
_REQUESTS = 12
"""How many requests run at a time."""
_LISTED = 1000
"""Objects in one answer of a store."""
_BODIES = 4
"""How often a piece is fetched if not all of its bytes came."""
_M_ARENA_MAX = -8
"""``malloc.h`` of glibc."""
_SMALL_BYTES = 64 << 20
"""The most bytes that are read as one small file."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in a listing."""

    key: str
    status: FileStatus


class ObjectStore:
    """An open bucket. Once ``failure`` is set, everything fails with it."""

    def __init__(self, scheme: str, bucket: str) -> None:
        """Raises WalError."""
        self.root = f"{scheme}://{bucket}"
        self.failure: BaseException | None = None
        _limit_arenas()
        self._client = open_client(scheme, bucket)
        self._threads = ThreadPoolExecutor(_REQUESTS, thread_name_prefix="object store")
        self._waiting: set[Future[Any]] = set()

    def close(self) -> None:
        """Begin nothing more. Requests that are under way end by themselves, at the latest in their time."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def path(self, key: str) -> str:
        """The name of an object in messages."""
        return f"{self.root}/{key}" if key else self.root

    def start(self, work: Callable[[], _T]) -> Future[_T]:
        """Begin a request, which may be cancelled at any time. See ``wait`` for what it raises."""
        told: Future[_T] = Future()
        self._waiting.add(told)
        told.add_done_callback(self._waiting.discard)
        self._threads.submit(_run, work, told)
        return told

    def wait(self, work: Future[_T]) -> _T:
        """Raises WalError, ObjectError; CancelledError when the request was given up."""
        if self.failure is not None:
            raise self.failure
        return work.result()

    def stop(self, reason: BaseException) -> None:
        """Let every request fail for this reason, also those that threads wait for."""
        self.failure = self.failure or reason
        for told in list(self._waiting):
            _settle(told.set_exception, self.failure)

    def listed(self, prefix: str) -> Iterator[Listed]:
        """All objects below a folder, a thousand for each request. Raises WalError."""
        import obstore

        chunks = obstore.list(self._client, prefix or None, chunk_size=_LISTED)

        def following() -> Sequence[ObjectMeta] | None:
            with _translated(self.root, self.path(prefix)):
                return next(chunks, None)

        while (chunk := self.wait(self.start(following))) is not None:
            yield from map(_listed, chunk)

    def folder(self, prefix: str) -> tuple[Sequence[str], Sequence[Listed]]:
        """Keys of folders in a folder, and objects in it. Raises WalError."""
        import obstore

        def ask() -> tuple[Sequence[str], Sequence[Listed]]:
            with _translated(self.root, self.path(prefix)):
                found = obstore.list_with_delimiter(self._client, prefix or None)
            return found["common_prefixes"], [_listed(found_object) for found_object in found["objects"]]

        return self.wait(self.start(ask))

    def head(self, key: str) -> FileStatus | None:
        """An object's status now; None when there is no such object. Raises WalError."""
        import obstore

        def ask() -> FileStatus | None:
            try:
                with _translated(self.root, self.path(key)):
                    return _listed(obstore.head(self._client, key)).status
            except ObjectError:
                return None

        return self.wait(self.start(ask))

    def fetch(self, key: str, start: int, end: int, etag: str = "") -> bytes:
        """Bytes of an object, fewer only where it ends. If a mark is given, the object must have it. A body
        that breaks off is requested again by the library; one that ends early without an error is requested
        again here. Raises WalError, ObjectError."""
        import obstore

        options: dict[str, Any] = {"range": (start, end)}
        if etag:
            options["if_match"] = etag
        for attempt in range(_BODIES):
            if attempt:
                time.sleep(0.05 * 2**attempt)
            with _translated(self.root, self.path(key)):
                answer = obstore.get(self._client, key, options=options)  # type: ignore[arg-type]
                expected = max(0, min(end, answer.meta["size"]) - start)
                got = answer.bytes().to_bytes()
            if len(got) == expected:
                return got
        raise ObjectError(f"the store sent {len(got)} bytes, expected {expected}, {_BODIES} times")

    def read(self, key: str) -> bytes:
        """A small object. Raises WalError, ObjectError."""
        return self.wait(self.start(lambda: self.fetch(key, 0, _SMALL_BYTES)))


def _limit_arenas() -> None:
    """Let all threads share two arenas of glibc's malloc. Else each thread that fetches keeps what it once
    needed, and pieces of 4 MiB leave holes there: half as much memory again."""
    allocator = ctypes.CDLL(None)
    if hasattr(allocator, "mallopt"):
        allocator.mallopt(_M_ARENA_MAX, 2)


def _listed(meta: ObjectMeta) -> Listed:
    at = meta["last_modified"]
    mtime_ns = int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000
    return Listed(meta["path"], FileStatus(meta["size"], mtime_ns, _quoted(meta["e_tag"] or "")))


def _quoted(etag: str) -> str:
    """A mark as HTTP writes it: Azure's listings leave out the quotes that its other answers have."""
    return etag if not etag or etag.endswith('"') else f'"{etag}"'


class _translated:
    """Turn what the library raises into an error of ours, with none of its words."""

    def __init__(self, root: str, path: str) -> None:
        self._root, self._path = root, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (WalError, ObjectError)):
            raise failure(error, self._root, self._path) from None


def _run(work: Callable[[], _T], told: Future[_T]) -> None:
    if told.done():
        return
    try:
        found = work()
    except BaseException as error:
        _settle(told.set_exception, error)
    else:
        _settle(told.set_result, found)


def _settle(tell: Callable[[Any], None], what: Any) -> None:
    """Set the result, unless the request has been cancelled or stopped by now."""
    with suppress(InvalidStateError):
        tell(what)

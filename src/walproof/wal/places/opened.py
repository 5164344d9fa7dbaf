"""Places opened for as long as something is read from them.

    with reading(["s3://backups/wal_005"]) as wal:
        raw = wal.call(wal_stats, wal.sources, ...)

Paths with a scheme (``s3://``) belong to an object store, all others to the file system. What is already a
``Place`` stays open; it is closed by whoever opened it."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path as FilePath
from typing import ParamSpec, TypeVar

from walproof.errors import WalError
from walproof.wal.places.folder import Folder
from walproof.wal.places.place import Connection, Place, Source
from walproof.wal.progress import Observe

Path = str | os.PathLike[str] | Place
"""What can be read: a folder, a file, an address in an object store, or a place that is open."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_ADDRESS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_SCHEMES = ("s3", "gs", "az")


def is_address(path: Path) -> bool:
    """Whether a path is an address in an object store."""
    return isinstance(path, str) and _ADDRESS.fullmatch(path) is not None


def open_place(path: Path, stack: ExitStack) -> Place:
    """Open a place, which ``stack`` closes. Raises WalError."""
    if isinstance(path, Place):
        return path
    text = os.fspath(path)
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return Folder(FilePath(text))
    return _open_object(match["scheme"].lower(), match["rest"], stack)


def _open_object(scheme: str, rest: str, stack: ExitStack) -> Place:
    bucket, _, key = rest.partition("/")
    if scheme not in _SCHEMES:
        raise WalError(
            f'cannot read from "{scheme}://"', hint="Object stores are named by s3://, gs:// and az://."
        )
    if not _BUCKET.fullmatch(bucket) or any(sign in key for sign in "?#") or ".." in key.split("/"):
        # The wrong part may be a password.
        raise WalError(
            f"this is not the address of a bucket: {scheme}://...",
            detail="It is written s3://BUCKET/FOLDER, without a user, a password or a query.",
            hint="Credentials and servers are named in the environment; docs/object-stores.md says how.",
        )
    from walproof.wal.places.objects import ObjectPlace
    from walproof.wal.places.store import ObjectStore
    from walproof.wal.places.window import Window

    store = ObjectStore(scheme, bucket)
    stack.callback(store.close)
    return ObjectPlace(store, Window(store), "/".join(filter(None, key.split("/"))))


@contextmanager
def open_places(paths: Iterable[Path]) -> Iterator[tuple[Place, ...]]:
    """Open places, which are closed at the end. Raises WalError."""
    with ExitStack() as stack:
        yield tuple(open_place(path, stack) for path in paths)


class OpenPlaces:
    """The places to read, for the native module."""

    def __init__(self, places: Sequence[Place], threads: int) -> None:
        """The places to read, for which stores are listed. Raises WalError."""
        self._places = places
        self.threads = min((place.read_by(threads) for place in places), default=threads)
        """How many threads may read."""
        self.sources: list[Source] = [place.source() for place in places]

    def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function of the native module. If a store cannot be read, the reason is raised in place of
        what came of it. A wait for a store can be interrupted."""
        return call(self._places, function, *args, **kwargs)

    def observed(self, observe: Observe | None) -> Observe | None:
        """The observer for a pass, in place of ``observe``: it also stops the pass once a store cannot be
        read, or the wait for it was interrupted."""
        connections = _connections(self._places)
        if not connections:
            return observe

        def look(done: int, expected: int) -> None:
            if (failure := _failure(connections)) is not None:
                raise failure
            if observe is not None:
                observe(done, expected)

        return look


def call(places: Iterable[Place], function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """See ``OpenPlaces.call``."""
    found, failure = attempt(places, function, *args, **kwargs)
    if failure is not None:
        raise failure
    return found


def attempt(
    places: Iterable[Place], function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> tuple[_T, BaseException | None]:
    """The result of the function, and why a store could not be read meanwhile. Raises WalError."""
    connections = _connections(places)
    if not connections:
        return function(*args, **kwargs), None
    try:
        found = _interruptible(connections, lambda: function(*args, **kwargs))
    except WalError as error:
        raise _failure(connections) or error from None
    return found, _failure(connections)


def _connections(places: Iterable[Place]) -> list[Connection]:
    return [place.connection for place in places if place.connection is not None]


def _failure(connections: Iterable[Connection]) -> BaseException | None:
    return next((connection.failure for connection in connections if connection.failure is not None), None)


def _interruptible(connections: Sequence[Connection], function: Callable[[], _T]) -> _T:
    """Run the function on another thread; this one only waits, and sees signals."""
    found: list[_T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="reading", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException as error:
        for connection in connections:
            connection.stop(error)
        thread.join()
        raise
    if raised:
        raise raised[0]
    return found[0]


@contextmanager
def reading(paths: Iterable[Path], threads: int = 1) -> Iterator[OpenPlaces]:
    """Open and list places. Raises WalError."""
    with open_places(paths) as places:
        yield OpenPlaces(places, threads)

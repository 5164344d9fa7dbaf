"""Pieces fetched ahead: each once, in a bounded amount of memory, whatever order threads read in."""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from walproof.wal.places import window
from walproof.wal.places.place import FileStatus
from walproof.wal.places.window import PIECE_BYTES, Window


class FakeStore:
    """Objects of which every byte is their number; counts what is fetched."""

    root = "s3://bucket"
    failure: BaseException | None = None

    def __init__(self) -> None:
        self.fetched: dict[tuple[str, int], int] = {}
        self.requests = 0

    def fetch(self, key: str, start: int, end: int, etag: str = "") -> bytes:
        self.requests += 1
        self.fetched[key, start] = self.fetched.get((key, start), 0) + 1
        return f"{key} {start} {etag}".encode()

    def start(self, work: Any) -> Future[Any]:
        told: Future[Any] = Future()
        told.set_result(work())
        return told

    def wait(self, work: Future[Any]) -> Any:
        return work.result()


def _window(sizes: list[int]) -> tuple[FakeStore, Window, list[str]]:
    store = FakeStore()
    made = Window(store)  # type: ignore[arg-type]
    paths = [f"s3://bucket/wal/{number}" for number in range(len(sizes))]
    made.expect((path, FileStatus(size, 0, f"e{size}")) for path, size in zip(paths, sizes, strict=True))
    return store, made, paths


def test_in_order_each_piece_is_fetched_once() -> None:
    sizes = [PIECE_BYTES * 2 + 5, 100, 0, PIECE_BYTES, 7] * 20
    store, made, paths = _window(sizes)
    made.read_by(1)
    for path, size in zip(paths, sizes, strict=True):
        for number in range(-(-size // PIECE_BYTES)):
            start = number * PIECE_BYTES
            key = path.removeprefix("s3://bucket/")
            assert made.piece(path, number) == f"{key} {start} e{size}".encode()
    assert set(store.fetched.values()) == {1}
    assert sum(-(-size // PIECE_BYTES) for size in sizes) == len(store.fetched)
    assert store.requests == len(store.fetched)


def test_threads_that_share_an_order_fetch_each_piece_once() -> None:
    """One ends its object where the other has long been: what was read is not fetched ahead."""
    store, made, paths = _window([PIECE_BYTES * 4] * 40)
    made.read_by(2)
    for first, second in zip(paths[::2], paths[1::2], strict=True):
        for number in range(4):
            made.piece(second, number)
        for number in range(4):
            made.piece(first, number)
    assert set(store.fetched.values()) == {1}


def test_a_second_pass_fetches_ahead_too() -> None:
    store, made, paths = _window([PIECE_BYTES] * 5 + [PIECE_BYTES] * 2 * window.AHEAD)
    made.read_by(1)
    for path in paths:
        made.piece(path, 0)
    assert len(store.fetched) == store.requests == len(paths)
    made.piece(paths[0], 0)
    assert store.requests == len(paths) + 1 + window.AHEAD


def test_the_first_bytes_are_fetched_once_as_long_as_the_object_is_the_same() -> None:
    store, made, paths = _window([PIECE_BYTES] * (window.MOST_HEADS + 1))
    made.head(paths[0])
    made.head(paths[0])
    assert store.requests == 1
    made.expect([(paths[0], FileStatus(7, 1, "new"))])
    made.head(paths[0])
    assert store.requests == 2
    for path in paths[1:]:
        made.head(path)
    made.head(paths[0])
    assert store.requests == 2 + len(paths)


def test_small_objects_do_not_stay() -> None:
    _, made, paths = _window([1000] * 5000)
    for path in paths:
        made.piece(path, 0)
        assert made.held_bytes <= window.MOST_BYTES
    assert len(made._read) + len(made._ahead) <= window.MOST_BYTES // window.LEAST_BYTES


@pytest.mark.parametrize("threads", [1, 2, 8, 64])
def test_memory_is_bounded_for_any_order(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, made, paths = _window([PIECE_BYTES * 3] * 60)
    count = made.read_by(threads)
    assert count <= window.MOST_THREADS
    most = 0
    lock = threading.Lock()

    def read(seed: int) -> None:
        nonlocal most
        choices = random.Random(seed)
        for _ in range(60):
            path = choices.choice(paths)
            for number in range(3):
                assert made.piece(path, number).startswith(path.removeprefix("s3://bucket/").encode())
            with lock:
                most = max(most, made.held_bytes)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(count)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert PIECE_BYTES < most <= window.MOST_BYTES


def test_what_a_thread_waits_for_stays() -> None:
    """While one thread waits for a piece others ask for so many that all else has to go."""
    store, made, paths = _window([PIECE_BYTES * 3] * 60)
    made.read_by(2)
    held = store.wait

    def wait(work: Future[Any]) -> Any:
        store.wait = held  # type: ignore[method-assign]
        for path in paths[1:]:
            made.piece(path, 0)
        assert not work.cancelled()
        return held(work)

    store.wait = wait  # type: ignore[method-assign]
    assert made.piece(paths[0], 0).startswith(b"wal/0 0")
    assert store.fetched["wal/0", 0] == 1
    assert made.held_bytes <= window.MOST_BYTES


def test_an_object_that_changed_is_fetched_as_it_is_now() -> None:
    sizes = [PIECE_BYTES + 10, PIECE_BYTES, 50]
    _, made, paths = _window(sizes)
    assert made.piece(paths[0], 0).endswith(f"e{sizes[0]}".encode())
    made.expect([(paths[0], FileStatus(PIECE_BYTES * 3, 1, "new"))])
    assert made.piece(paths[0], 0).endswith(b" new")
    assert made.piece(paths[0], 2).endswith(b" new")
    assert made.piece(paths[2], 0).endswith(b" e50")
    # What is held is counted by the sizes of now: nothing is left when all of it is given up.
    made.expect((path, FileStatus(size, 2, "newest")) for path, size in zip(paths, sizes, strict=True))
    assert made.held_bytes == 0

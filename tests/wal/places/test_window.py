"""Pieces fetched ahead: each once, in a bounded amount of memory, whatever order threads read in."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from walproof.wal.places import window
from walproof.wal.places.place import Status
from walproof.wal.places.window import PIECE_BYTES, Window


class FakeStore:
    """Objects of which every byte is their number; counts what is fetched."""

    root = "s3://bucket"
    failure: BaseException | None = None

    def __init__(self) -> None:
        self.fetched: dict[tuple[str, int], int] = {}
        self.requests = 0

    def fetch_parts(self, key: str, start: int, end: int, etag: str, part_bytes: int) -> Iterator[bytes]:
        self.requests += 1
        for at in range(start, end, part_bytes):
            self.fetched[key, at] = self.fetched.get((key, at), 0) + 1
            yield f"{key} {at} {etag}".encode()

    def start_run(self, work: Any, count: int) -> list[Future[Any]]:
        told: list[Future[Any]] = [Future() for _ in range(count)]
        for promise, part in zip(told, work(), strict=True):
            promise.set_result(part)
        return told

    def wait(self, work: Future[Any]) -> Any:
        return work.result()


def _window(sizes: list[int]) -> tuple[FakeStore, Window, list[str]]:
    store = FakeStore()
    made = Window(store)  # type: ignore[arg-type]
    paths = [f"s3://bucket/wal/{number}" for number in range(len(sizes))]
    made.expect((path, Status(size, 0, f"e{size}")) for path, size in zip(paths, sizes, strict=True))
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
    assert store.requests == sum(size > 0 for size in sizes)


def test_of_a_large_object_a_segment_is_fetched_at_a_time() -> None:
    store, made, (path,) = _window([PIECE_BYTES * window.RUN * 3])
    made.read_by(1)
    for number in range(window.RUN * 3):
        made.piece(path, number)
    assert store.requests == 3


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
    made.expect([(paths[0], Status(PIECE_BYTES * 3, 1, "new"))])
    assert made.piece(paths[0], 0).endswith(b" new")
    assert made.piece(paths[0], 2).endswith(b" new")
    assert made.piece(paths[2], 0).endswith(b" e50")
    # What is held is counted by the sizes of now: nothing is left when all of it is given up.
    made.expect((path, Status(size, 2, "newest")) for path, size in zip(paths, sizes, strict=True))
    assert made.held_bytes == 0

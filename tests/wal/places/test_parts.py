"""An object fetched in parts as its body arrives, whatever pieces the body arrives in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from walproof.errors import WalError
from walproof.wal.places import store as module
from walproof.wal.places.failures import ObjectError
from walproof.wal.places.store import Store

PART = 1000
BODY = random.Random(7).randbytes(3 * PART + 123)


class Answer:
    """A body in chunks of odd lengths, which ends where it is cut."""

    def __init__(self, body: bytes, *, breaks: bool = False) -> None:
        self._body, self._breaks = body, breaks

    def stream(self, min_chunk_size: int) -> Iterator[bytes]:
        assert min_chunk_size > 0
        lengths, at = random.Random(len(self._body)), 0
        while at < len(self._body):
            length = lengths.randrange(1, 700)
            yield self._body[at : at + length]
            at += length
        if self._breaks:
            raise OSError("request or response body error: operation timed out")


class CutStore(Store):
    """Sends so many bytes of each answer; the last number goes for all that follow."""

    def __init__(self, *sent: int, breaks: bool = False) -> None:
        super().__init__("s3", "bucket")
        self._breaks = breaks
        self._sent = list(sent)
        self.asked: list[int] = []

    def _get(self, key: str, start: int, end: int, etag: str) -> Any:
        self.asked.append(start)
        sent = self._sent.pop(0) if len(self._sent) > 1 else self._sent[0]
        body = BODY[start:end]
        return Answer(body[:sent], breaks=self._breaks and sent < len(body))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walproof.wal.places.store.time.sleep", lambda _: None)
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def parts(store: Store, start: int = 0) -> list[bytes]:
    return list(store.fetch_parts("key", start, len(BODY), "", PART))


def test_parts_are_of_their_length_whatever_the_chunks() -> None:
    store = CutStore(len(BODY))
    found = parts(store)
    assert [len(part) for part in found] == [PART, PART, PART, 123]
    assert b"".join(found) == BODY
    assert store.asked == [0]


def test_a_body_that_ends_early_is_gone_on_with_where_the_last_whole_part_ends() -> None:
    store = CutStore(PART + 10, 0, 2 * PART + 122, len(BODY))
    assert b"".join(parts(store)) == BODY
    assert store.asked == [0, PART, PART, 3 * PART]


def test_a_body_that_takes_too_long_is_gone_on_with_as_long_as_some_of_it_comes() -> None:
    store = CutStore(PART + 10, PART + 500, len(BODY), breaks=True)
    assert b"".join(parts(store)) == BODY
    assert store.asked == [0, PART, 2 * PART]
    with pytest.raises(WalError, match='could not read "s3://bucket/key"') as raised:
        parts(CutStore(PART + 10, 10, breaks=True))
    assert raised.value.detail == "There was no answer in time."


def test_a_body_that_ends_early_again_and_again_is_an_error() -> None:
    with pytest.raises(ObjectError, match="123 bytes less than expected, 4 times"):
        parts(CutStore(len(BODY) - 1, 100))


def test_each_part_can_be_waited_for_and_nothing_is_read_that_nobody_wants() -> None:
    store = CutStore(len(BODY))
    read = 0

    def work() -> Iterator[bytes]:
        nonlocal read
        for part in store.fetch_parts("key", 0, len(BODY), "", PART):
            read += 1
            yield part

    told: list[Future[bytes]] = store.start_run(work, 4)
    assert b"".join(map(store.wait, told)) == BODY
    read = 0
    told = [Future(), Future(), Future(), Future()]
    for promise in told[1:]:
        promise.cancel()
    module._run_parts(work, told)
    assert read == 1
    assert told[0].result() == BODY[:PART]
    with pytest.raises(CancelledError):
        told[2].result()


def test_what_fails_fails_every_part_that_is_left() -> None:
    store = CutStore(PART, 0)
    told = store.start_run(lambda: store.fetch_parts("key", 0, len(BODY), "", PART), 4)
    assert store.wait(told[0]) == BODY[:PART]
    for promise in told[1:]:
        with pytest.raises(ObjectError):
            store.wait(promise)

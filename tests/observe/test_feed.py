"""A stream that ended is begun again: after a wait, or at once where its server is known to answer."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from walproof.errors import ProbeError
from walproof.facts.watch import StreamPhase
from walproof.observe import feed as module
from walproof.observe.backoff import Backoff
from walproof.observe.feed import WalFeed


def test_a_stream_is_begun_again_at_once_where_its_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Semaphore(0)

    def refuse(_: str) -> Any:
        tried.release()
        raise ProbeError("could not connect to the server")

    monkeypatch.setattr(module, "connect_foreign", refuse)
    monkeypatch.setattr(Backoff, "failed", lambda _: 3600.0)
    with WalFeed("host=db1", lambda _: pytest.fail("nothing streams"), 1 << 30) as feed:
        for _ in range(3):
            assert tried.acquire(timeout=30.0)
            assert not tried.acquire(timeout=0.05), "it waits"
            feed.hurry()
        assert tried.acquire(timeout=30.0)
        assert feed.state.phase is StreamPhase.BROKEN
    assert not feed._thread.is_alive(), "the end of the block does not wait either"

"""What a pair is asked: again where recovery cancels the query, and no longer lists than needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from walproof.errors import ProbeError
from walproof.probe import pair
from walproof.probe.pair import PairObserver


class Cancelled:
    """A session each of whose queries recovery cancels."""

    queries = 0

    def execute(self, *_: object) -> None:
        self.queries += 1
        raise psycopg.errors.SerializationFailure("canceling statement due to conflict with recovery")


def test_conflicts_that_do_not_end_are_an_error_with_a_reason() -> None:
    observer = PairObserver("host=primary", "host=standby")
    session = Cancelled()
    cast("Any", observer)._standby = session
    with pytest.raises(ProbeError, match="could not observe the standby: canceling statement") as caught:
        observer.observe(1.0)
    assert session.queries == 5
    assert caught.value.hint == "Recovery cancelled the query 5 times: look again later."


def test_pg_wal_is_listed_while_the_standby_does_not_stream_and_seldom_where_it_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, asked = [100.0], list[float]()

    def ask(*_: object) -> tuple[str]:
        asked.append(now_s[0])
        now_s[0] += 0.5
        return ("0000000100000007",)

    monkeypatch.setattr(pair, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    observer = cast("Any", PairObserver("host=primary", "host=standby"))
    observer.upstream_identity = SimpleNamespace(lists_wal=True)
    observer._upstream, observer._row = None, ask
    for _ in range(12):
        assert observer._oldest_segment() == "0000000100000007"
        now_s[0] += 1.0
    assert asked == [100.0, 110.5]
    observer._streamed = 2
    now_s[0] += 100.0
    assert observer._oldest_segment() is None
    assert len(asked) == 2

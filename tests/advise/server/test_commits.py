"""How many commits a flush serves: of recorded WAL, else at most, since counters hold reads as well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.advise.server.windows import found, healthy, with_counters, with_settings
from walproof.advise.server.advice import Advice, Fine, Found, Unseen
from walproof.facts.server import ServerWindow
from walproof.wal.totals import WalStats

DELAYED = with_counters(with_settings(healthy(), commit_delay="1000"), {"wal_flushes": 3.1e5})
"""50,000 transactions and 10,000 flushes."""


def _with_wal(rule: str, window: ServerWindow, commits: int) -> Found | None:
    return found(rule, window, wal=cast(WalStats, SimpleNamespace(commits=commits)))


def test_reads_are_no_commits_that_a_flush_served() -> None:
    """49 transactions of 50 only read: commit_delay batched nothing, and was fine."""
    blind = found("commit_delay", DELAYED)
    assert isinstance(blind, Unseen)
    assert "at most 5.0 commits, reads included" in blind.reason
    told = _with_wal("commit_delay", DELAYED, 9_000)
    assert isinstance(told, Advice)
    assert "a flush serves 0.9 commits" in told.evidence[0]
    assert isinstance(_with_wal("commit_delay", DELAYED, 40_000), Fine)
    # Even with all reads counted it is too few.
    few = found("commit_delay", with_counters(DELAYED, {"wal_flushes": 3.5e5}))
    assert isinstance(few, Advice)
    assert "at most 1.0 commits, reads included" in few.evidence[0]


@pytest.mark.parametrize(("commits", "expected"), [(2_000, Advice), (50_000, Fine), (None, Unseen)])
def test_full_buffers_are_a_share_of_what_wrote(commits: int | None, expected: type[Found]) -> None:
    window = with_counters(healthy(), {"wal_buffers_full": 100.0})
    answer = found("wal_buffers", window) if commits is None else _with_wal("wal_buffers", window, commits)
    assert isinstance(answer, expected)


def test_what_a_flush_served_is_said_as_a_bound() -> None:
    answer = found("flushes", healthy())
    assert isinstance(answer, Fine)
    assert "A flush served at most" in answer.sentence

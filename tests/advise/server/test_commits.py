"""How many commits a flush serves: of recorded WAL, else at most, since counters hold reads as well."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.advise.server.windows import found, healthy, with_counters, with_settings
from walproof.advise.server.advice import Advice, Fine, Found, Unseen
from walproof.facts.server import ServerOverride, ServerWindow
from walproof.settings.durability import DurabilityClass
from walproof.wal.totals import WalStats

DELAYED = with_counters(with_settings(healthy(), commit_delay="1000"), {"wal_flushes": 3.1e5})
"""50,000 transactions and 10,000 flushes."""


def _with_wal(rule: str, window: ServerWindow, commits: int, share: float = 1.0) -> Found | None:
    """As if ``share`` of the window's WAL was recorded."""
    written = int(window.looks[-1].lsn or 0) - int(window.looks[0].lsn or 0)
    accounting = SimpleNamespace(total_bytes=share * written)
    return found(rule, window, wal=cast(WalStats, SimpleNamespace(commits=commits, accounting=accounting)))


def test_reads_are_no_commits_that_a_flush_served() -> None:
    """49 transactions of 50 only read: commit_delay batched nothing, and was fine."""
    blind = found("commit_delay", DELAYED)
    assert isinstance(blind, Unseen)
    assert "at most 5.0 commits, reads included" in blind.reason
    told = _with_wal("commit_delay", DELAYED, 9_000)
    assert isinstance(told, Advice)
    assert "a flush serves 0.9 commits" in told.evidence[0]
    assert isinstance(_with_wal("commit_delay", DELAYED, 40_000), Fine)
    # Where a quarter of the WAL was recorded, so were a quarter of the commits.
    assert isinstance(_with_wal("commit_delay", DELAYED, 10_000, share=0.25), Fine)
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


def test_undo_gives_a_role_back_what_was_set_for_it() -> None:
    """RESET would leave it what the server has, and what holds in a database goes before all that."""
    level = "synchronous_commit"
    window = replace(
        with_settings(healthy(), synchronous_standby_names="b"),
        waits={"IO/WALSync": 90, "running": 10},
        flush_waits={"shop": 80, "report": 10},
        overrides=(
            ServerOverride("shop", None, level, "remote_write"),
            ServerOverride("report", "db", level, "on"),
            ServerOverride("other", None, level, "on"),
        ),
    )
    advice = found("flushes", window, may_lose=DurabilityClass.LAST_COMMITS)
    assert isinstance(advice, Advice)
    assert advice.steps[-2:] == (
        "ALTER ROLE shop SET synchronous_commit = remote_write;",
        "ALTER ROLE report RESET synchronous_commit;",
    )
    assert "They wait for no standby either: a failover loses what none has." in advice.costs
    assert "What is set for report in database db stays in force there." in advice.costs

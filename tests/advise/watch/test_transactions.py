"""Transactions that do not end are named while they do not, and others are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.watching import BEGAN, Server, assessor, concerns
from walproof.advise.watch.concern import Concern, Severity
from walproof.facts.transactions import PreparedTransaction, SynchronousWait

WAIT = SynchronousWait("nobody", "on", (), (), 0, 0, None)


def told(**seen: Any) -> tuple[Concern, ...]:
    """Of one look."""
    found = assessor()
    found.see([replace(Server().look(100), **seen)])
    return concerns(found.assess(100.0, BEGAN + 100))


def test_commits_that_hang_are_critical_from_the_first_look_on() -> None:
    (concern,) = told(synchronous=replace(WAIT, waiting=4, oldest_s=90.0, others=("late",)))
    assert (concern.key, concern.severity) == ("synchronous standbys", Severity.CRITICAL)
    assert concern.evidence == (
        "a commit waits for 1 standby of synchronous_standby_names ('nobody'), and none is connected and "
        "streaming",
        'connected, and not counted by the server: "late"',
        "4 sessions wait in SyncRep; the statement of the oldest began 1 min 30 s ago",
    )
    assert concern.advice[1].startswith("Cancel no session that waits")
    assert "synchronous_standby_names = ''" in concern.advice[-1]
    assert [concern.key for concern in told(synchronous=WAIT)] == ["synchronous standbys"]


def test_what_frees_them_is_told_for_the_platform_that_is_seen() -> None:
    (hosted,) = told(synchronous=WAIT, marks=("azure.extensions",))
    assert "ALTER SYSTEM SET" not in hosted.advice[-1]
    assert "Azure Database for PostgreSQL (recognised by azure.* settings)" in hosted.advice[-1]
    (own,) = told(synchronous=WAIT, marks=("cluster_name on the command line",))
    assert "synchronous mode is turned off in Patroni" in own.advice[-1]


def test_connected_standbys_that_do_not_confirm_let_commits_hang_as_well() -> None:
    late = replace(WAIT, serving=("near",), waiting=3, oldest_s=42.0, stalled=2, stalled_s=41.0)
    (concern,) = told(synchronous=late)
    assert (concern.key, concern.severity) == ("synchronous standbys", Severity.CRITICAL)
    assert concern.sentence == "Commits hang: one has waited for its standbys for 41 s at least."
    assert concern.evidence[1:] == (
        "3 sessions wait in SyncRep; the statement of the oldest began 42 s ago",
        "2 of them have waited for 10 s or longer, one for 41 s at least",
    )
    assert "replay that is paused" in concern.advice[0]
    assert "synchronous_standby_names = ''" in concern.advice[-1]


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param(None, id="nobody is named"),
        pytest.param(replace(WAIT, serving=("a",), waiting=9), id="usual waits"),
        pytest.param(replace(WAIT, serving=("a",), waiting=9, stalled_s=9.9), id="a standby catches up"),
        pytest.param(replace(WAIT, level="local"), id="no commit waits"),
        pytest.param(replace(WAIT, unknown=1), id="what is not seen"),
    ],
)
def test_commits_that_need_not_hang_are_none(wait: SynchronousWait | None) -> None:
    assert told(synchronous=wait) == ()


def prepared(age_s: float) -> PreparedTransaction:
    return PreparedTransaction("'etl 7'", "shop", "orders", age_s, 120_000)


def test_a_prepared_transaction_is_forgotten_after_an_hour() -> None:
    assert told(prepared=(prepared(3500.0),)) == ()
    (concern,) = told(prepared=(prepared(7200.0), prepared(3700.0), prepared(5.0)))
    assert (concern.key, concern.severity) == ("prepared transactions", Severity.WARNING)
    assert concern.sentence.startswith("Nobody ends 2 prepared transactions: ")
    assert concern.evidence[0].startswith("'etl 7' of shop in database orders: prepared 2 h 00 min ago")
    assert concern.since == BEGAN + 100 - 7200

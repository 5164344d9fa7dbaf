"""No line is printed that would hang every commit, and commits that hang are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.advise.server.windows import found, healthy, with_settings
from walproof.advise.server.advice import Advice, Fine, Sure, Unseen, Weight
from walproof.facts.server import ServerOverride, ServerWindow
from walproof.facts.transactions import SynchronousWait


def server(level: str, names: str, **seen: Any) -> ServerWindow:
    """A server with that setting; ``seen``: of its walsenders and sessions."""
    wait = SynchronousWait(names, level, (), (), 0, 0, None)
    window = with_settings(healthy(), synchronous_commit=level, synchronous_standby_names=names)
    return replace(window, synchronous=replace(wait, **seen))


def advice(window: ServerWindow) -> Advice:
    told = found("synchronous_commit", window)
    assert isinstance(told, Advice), told
    assert told.weight is Weight.DANGER
    return told


@pytest.mark.parametrize(
    ("names", "serving"),
    [("nobody", ()), ("FIRST 2 (a, b)", ("a",)), ("ANY 2 (a, b, c)", ("b",)), ("*", ())],
)
def test_where_too_few_standbys_serve_there_is_no_line_to_paste(names: str, serving: tuple[str, ...]) -> None:
    told = advice(server("local", names, serving=serving, others=("late",)))
    assert told.changes == ()
    assert "synchronous_commit=on would hang every commit" in told.evidence[-1]
    assert any(f"('{names}')" in sentence for sentence in told.evidence[1:])
    assert any('not counted by the server: "late"' in sentence for sentence in told.evidence)
    assert told.steps[-2:] == ("ALTER SYSTEM SET synchronous_standby_names = '';", "SELECT pg_reload_conf();")


@pytest.mark.parametrize(
    ("names", "serving"),
    [("a", ("a",)), ("FIRST 2 (a, b, c)", ("a", "c")), ("ANY 1 (a, b)", ("b",)), ("*", ("any", "more"))],
)
def test_where_enough_serve_the_line_says_what_its_undo_does_not_undo(
    names: str, serving: tuple[str, ...]
) -> None:
    told = advice(server("local", names, serving=serving))
    assert [(change.name, change.value) for change in told.changes] == [("synchronous_commit", "on")]
    assert any("do not free sessions that already wait" in cost for cost in told.costs)
    assert any(f'"{serving[0]}"' in sentence for sentence in told.evidence)


def test_what_could_not_be_seen_gives_no_line_either() -> None:
    """Without pg_monitor, in an answer that was kept before this was looked at, or without the views."""
    unseen = server("local", "a", unknown=1)
    for window in (unseen, replace(unseen, synchronous=None)):
        told = advice(window)
        assert (told.changes, told.sure) == ((), Sure.MEDIUM)
    # Nobody else is connected, whatever may be seen of that one.
    assert "Until they are connected" in advice(server("local", "2 (a, b)", unknown=1)).evidence[-1]


def test_local_waits_for_nobody_where_nobody_can_stream() -> None:
    window = with_settings(healthy(), synchronous_commit="local", synchronous_standby_names="a")
    assert isinstance(found("synchronous_commit", with_settings(window, max_wal_senders="0")), Fine)


@pytest.mark.parametrize("level", ["on", "remote_write", "remote_apply"])
def test_commits_that_hang_are_a_danger_whether_or_not_somebody_waits(level: str) -> None:
    told = advice(server(level, "nobody", waiting=3, oldest_s=300.0))
    assert told.changes == ()
    assert told.evidence == (
        "Commits hang.",
        "A commit waits for 1 standby of synchronous_standby_names ('nobody'), and none is connected and "
        "streaming.",
        "3 sessions wait in SyncRep; the statement of the oldest began 5 min 00 s ago.",
    )
    assert "SyncRep" not in " ".join(advice(server(level, "nobody")).evidence)
    assert isinstance(found("synchronous_commit", server(level, "a", serving=("a",), waiting=1)), Fine)
    assert isinstance(found("synchronous_commit", server(level, "a", unknown=1)), Unseen)


def test_sessions_may_wait_though_the_server_as_a_whole_does_not() -> None:
    told = advice(server("local", "nobody", waiting=1, oldest_s=2.0))
    assert told.evidence[-1] == "1 session waits in SyncRep; the statement of the oldest began 2 s ago."


@pytest.mark.parametrize(("serving", "value"), [((), "local"), (("a",), "on")])
def test_off_becomes_what_does_not_hang(serving: tuple[str, ...], value: str) -> None:
    told = advice(server("off", "a", serving=serving))
    assert [change.value for change in told.changes] == [value]
    assert any("do not free" in cost for cost in told.costs) is (value == "on")


@pytest.mark.parametrize(("level", "hangs"), [("on", True), ("local", False)])
def test_a_role_whose_commits_would_hang_too_is_told_so(level: str, hangs: bool) -> None:
    override = ServerOverride("shop", None, "synchronous_commit", "off")
    told = found("overrides", replace(server(level, "nobody"), overrides=(override,)))
    assert isinstance(told, Advice)
    assert any("hang" in cost for cost in told.costs) is hangs

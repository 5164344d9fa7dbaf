"""What a database or role has set for walproof's own session is not taken for the server's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.server.windows import found, healthy, setting
from walproof.advise.server.advice import Advice, Unseen
from walproof.advise.server.case import ServerCase
from walproof.advise.server.rules import advise
from walproof.facts.server import ServerOverride, ServerWindow
from walproof.facts.transactions import SynchronousWait
from walproof.platforms.registry import platform
from walproof.report.advice.view import target_of
from walproof.settings.change import Change


def _window(name: str, value: str, source: str = "database") -> ServerWindow:
    own = replace(setting(name, value), source=source)
    return replace(healthy(), settings={**healthy().settings, name: own})


@pytest.mark.parametrize("source", ["database", "user", "database user", "global", "client", "session"])
@pytest.mark.parametrize(
    ("rule", "name", "value"),
    [
        ("synchronous_commit", "synchronous_commit", "off"),
        ("synchronous_commit", "synchronous_commit", "on"),
        ("commit_delay", "commit_delay", "1000"),
        ("wal_compression", "wal_compression", "off"),
        ("autovacuum", "track_counts", "off"),
    ],
)
def test_the_servers_own_value_is_not_seen(rule: str, name: str, value: str, source: str) -> None:
    """ALTER SYSTEM would change nothing there, and an "on" of one database hid the "off" of all others."""
    told = found(rule, _window(name, value, source))
    assert isinstance(told, Unseen), told
    assert "the server's own value is not seen" in told.reason


@pytest.mark.parametrize("name", ["alter-system", "patroni", "rds", "cnpg", "crunchy", "aurora", "cloudsql"])
def test_undoing_gives_no_server_what_one_database_has(name: str) -> None:
    """It wrote "off" into the configuration of the whole cluster, which never was there."""
    target = target_of(advise(ServerCase(_window("synchronous_commit", "off"))))
    assert "synchronous_commit" not in target.before
    undo = platform(name).write([Change("synchronous_commit", "on")], target).undo
    assert "off" not in undo


def test_commits_that_hang_are_told_all_the_same() -> None:
    wait = SynchronousWait("a", "local", (), (), 0, 3, 60.0)
    window = replace(_window("synchronous_commit", "local"), synchronous=wait)
    listed = {**window.settings, "synchronous_standby_names": setting("synchronous_standby_names", "a")}
    assert isinstance(found("synchronous_commit", replace(window, settings=listed)), Advice)


def test_a_reset_may_make_commits_hang_where_the_servers_value_is_not_seen() -> None:
    wait = SynchronousWait("a", "off", (), (), 0, 0, None)
    window = replace(
        _window("synchronous_commit", "off"),
        synchronous=wait,
        overrides=(ServerOverride(None, "shop", "synchronous_commit", "off"),),
    )
    advice = found("overrides", window)
    assert isinstance(advice, Advice)
    assert any("They hang then" in cost for cost in advice.costs)

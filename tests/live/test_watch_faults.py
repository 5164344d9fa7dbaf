"""What ``walproof watch`` says while servers, networks and processes really fail."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.pair import WATCHER, Pair, running_pair, watcher, writing
from tests.postgres.replication import SETTINGS, query, run, wait_until
from walproof.advise.watch.concern import Thresholds
from walproof.cli.watch_order import ServerOrder, WatchOrder
from walproof.cli.watched import Fleet
from walproof.facts import Install
from walproof.facts.watch import StreamPhase
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.report.watch.plain import plain_text
from walproof.report.watch.view import ServerView

pytestmark = pytest.mark.live
EVERY_S = 0.5
LIMITS = Thresholds(lag_warning_s=2.0)


@pytest.fixture(scope="module")
def watched_pair(embedded: Install, work: Path) -> Iterator[Pair]:
    settings = {**SETTINGS, "max_wal_size": "256MB"}
    with Workspace(work, server_user()) as workspace, running_pair(embedded, workspace, settings) as pair:
        run(pair.primary, f"ALTER ROLE {WATCHER} REPLICATION")
        pair.catch_up()
        yield pair


def order(*conninfos: str, streams: bool = True, bytes_per_s: int | None = None) -> WatchOrder:
    servers = tuple(
        ServerOrder(conninfo, streams=streams, bytes_per_s_most=bytes_per_s) for conninfo in conninfos
    )
    return WatchOrder(servers, EVERY_S, LIMITS)


def until(
    fleet: Fleet, is_so: Callable[[list[ServerView]], bool], patience_s: float = 60.0
) -> list[ServerView]:
    until_s = time.monotonic() + patience_s
    while True:
        views = fleet.views(1.0)
        if is_so(views):
            return views
        assert time.monotonic() < until_s, plain_text(views, is_first=True)
        time.sleep(0.1)


def test_a_stopped_startup_process_is_never_no_cause_for_concern(watched_pair: Pair) -> None:
    """While a stage is behind and grows, every look has a cause, and it names the process."""
    pair = watched_pair
    with pair.standby.connect() as session:
        row = session.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'startup'").fetchone()
    assert row is not None
    startup = int(str(row[0]))
    late: list[ServerView] = []
    with (
        Fleet(order(watcher(pair.primary), watcher(pair.standby), streams=False)) as fleet,
        writing(pair.primary, 2_000_000),
    ):
        until(fleet, lambda views: bool(views[0].pairs))
        os.kill(startup, signal.SIGSTOP)
        try:

            def is_late(views: list[ServerView]) -> bool:
                splits = [pair.split for pair in views[0].pairs.values()]
                if splits and splits[0].lag_s >= LIMITS.lag_warning_s and splits[0].lag_bytes > 4_000_000:
                    late.append(views[0])
                return len(late) >= 12

            until(fleet, is_late)
        finally:
            os.kill(startup, signal.SIGCONT)
        for view in late:
            (diagnosis,) = view.pairs.values()
            assert diagnosis.causes, view.windows
            assert any(concern.key.startswith("standby ") for concern in view.concerns), view.concerns
        said = plain_text(late[-1:], is_first=True)
        assert "startup" in said
        assert "keeps up" not in said
        # It goes on, and nothing is said any more.
        until(
            fleet, lambda views: not any(concern.key.startswith("standby ") for concern in views[0].concerns)
        )
    pair.catch_up()


def test_a_network_that_is_cut_or_silent_is_named_and_comes_back(watched_pair: Pair) -> None:
    pair = watched_pair
    with Fleet(order(f"{pair.link.route} user={WATCHER} dbname=postgres")) as fleet:
        until(fleet, lambda views: views[0].clock is not None)
        pair.link.sever()
        try:
            (view,) = until(fleet, lambda views: views[0].seen.no_answer is not None, 20.0)
            assert [concern.key for concern in view.concerns] == ["server"]
        finally:
            pair.link.mend()
        (view,) = until(fleet, lambda views: views[0].seen.no_answer is None and views[0].clock is not None)
        assert view.seen.events == (), "the server is the same"
        pair.link.shape(delay_s=3600.0)
        try:
            # In the middle of a look this takes longer: the server may be slow.
            (view,) = until(fleet, lambda views: views[0].seen.no_answer is not None, 60.0)
            assert view.seen.no_answer is not None
            assert "has not been answered" in view.seen.no_answer.reason
        finally:
            pair.link.shape()
            # What is on its way stays there for the hour.
            pair.link.sever()
            pair.link.mend()
        until(fleet, lambda views: views[0].seen.no_answer is None and views[0].clock is not None)


def test_a_stream_that_may_not_follow_says_so(watched_pair: Pair) -> None:
    pair = watched_pair
    run(pair.primary, "CHECKPOINT")
    with (
        Fleet(order(watcher(pair.primary), bytes_per_s=300_000)) as fleet,
        writing(pair.primary, 4_000_000),
    ):

        def is_limited(views: list[ServerView]) -> bool:
            stream = views[0].stream
            return stream.phase is StreamPhase.CATCHING_UP and "--max-rate" in stream.reason

        begun_s, (view,) = time.monotonic(), until(fleet, is_limited)
        assert view.clock is None
        assert view.stream.received_bytes <= 300_000 * (time.monotonic() - begun_s + 3.0)
        assert "limited to" in plain_text([view], is_first=True)
    slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'walproof%'"
    wait_until(lambda: query(pair.primary, slots) == "0", 40)


def test_a_failover_is_followed_to_the_new_timeline(watched_pair: Pair) -> None:
    """Clients of a pair name both hosts and want the one that can be written to."""
    pair = watched_pair
    # Dirty pages enough that the checkpoint after the promotion, which takes its time, is not over at once.
    run(pair.primary, "INSERT INTO t SELECT i, repeat('x', 900) FROM generate_series(1, 20000) i")
    pair.catch_up()
    hosts = [(server.sockets, server.port) for server in (pair.primary, pair.standby)]
    both = (
        f"host={','.join(str(host) for host, _ in hosts)} port={','.join(str(port) for _, port in hosts)} "
        f"user={WATCHER} dbname=postgres target_session_attrs=read-write"
    )
    with Fleet(order(both, watcher(pair.standby))) as fleet:
        until(fleet, lambda views: views[0].clock is not None and views[1].seen.look is not None)
        pair.primary.stop("immediate")
        until(fleet, lambda views: views[0].seen.no_answer is not None)
        pair.standby.promote()

        def is_over(views: list[ServerView]) -> bool:
            return all(view.seen.no_answer is None and view.clock is not None for view in views)

        # Redo begins on the old timeline until then.
        first, second = until(fleet, is_over)
        assert "the standby was promoted" in [event.text for event in second.seen.events]
        assert first.seen.look is not None
        assert not first.seen.look.is_in_recovery
        assert first.seen.look.checkpoint is not None
        assert first.seen.look.checkpoint.timeline == 1
        before = first.stream.received or 0
        with pair.standby.connect() as session:
            session.execute("CREATE TABLE afterwards AS SELECT generate_series(1, 50000) i")
            session.execute("CHECKPOINT")
        until(fleet, lambda views: (views[0].stream.received or 0) > before + 1_000_000)
        views = until(fleet, lambda views: "timeline 2" in str([shown.seen.events for shown in views]))
        assert all(view.stream.phase is StreamPhase.LIVE for view in views)


def test_a_standby_that_is_promoted_beside_its_primary_is_said_to_be_so(
    embedded: Install, workspace: Workspace
) -> None:
    with (
        running_pair(embedded, workspace) as pair,
        Fleet(order(watcher(pair.primary), watcher(pair.standby), streams=False)) as fleet,
    ):
        until(fleet, lambda views: bool(views[0].pairs))
        pair.standby.promote()
        with pair.standby.connect() as session:
            session.execute("CHECKPOINT")
        views = until(fleet, lambda views: "missing " in str([told.key for told in views[0].concerns]))
        (concern,) = (told for told in views[0].concerns if told.key.startswith("missing "))
        assert f"watched as {views[1].name}, was promoted" in concern.sentence


def test_two_primaries_are_told_by_who_comes_later(embedded: Install, workspace: Workspace) -> None:
    """Nobody watched the promotion."""
    with running_pair(embedded, workspace) as pair:
        pair.standby.promote()
        with pair.standby.connect() as session:
            session.execute("CHECKPOINT")
        with Fleet(order(watcher(pair.primary), watcher(pair.standby), streams=False)) as fleet:
            views = until(
                fleet, lambda views: any(told.key.startswith("primary ") for told in views[0].concerns)
            )
        (concern,) = (told for told in views[0].concerns if told.key.startswith("primary "))
        assert concern.evidence == ("timeline of the last checkpoint: 1 here, 2 there",)
        assert not any(told.key.startswith("primary ") for told in views[1].concerns)

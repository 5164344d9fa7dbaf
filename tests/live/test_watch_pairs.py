"""``walproof watch`` on a cascade and on a publisher with its subscriber: who follows whom, who is late."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.live.pair import WATCHER, Pair, watcher, writing
from tests.postgres.replication import SETTINGS, query, run, running_primary, wait_until
from walproof.advise.watch.concern import Thresholds
from walproof.analysis.watch.arrival import GRACE_S
from walproof.cli.watch_order import ServerOrder, WatchOrder
from walproof.cli.watched import Fleet
from walproof.facts import Install
from walproof.observe.server import ServerObserver
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.report.watch.json import watch_data
from walproof.report.watch.plain import plain_text
from walproof.report.watch.view import ServerView

pytestmark = pytest.mark.live
UP = "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())"
PLAIN = "without_rights"
LIMITS = Thresholds(lag_warning_s=2.0)


def order(*conninfos: str) -> WatchOrder:
    return WatchOrder(tuple(ServerOrder(conninfo, streams=False) for conninfo in conninfos), 0.5, LIMITS)


def until(fleet: Fleet, is_so: Callable[[list[ServerView]], bool]) -> list[ServerView]:
    until_s = time.monotonic() + 60.0
    while True:
        views = fleet.views(1.0)
        if is_so(views):
            return views
        assert time.monotonic() < until_s, plain_text(views, is_first=True)
        time.sleep(0.1)


def test_a_cascade_is_watched_pair_by_pair(pair: Pair, others: Workspace) -> None:
    """The last standby has the middle one as its upstream, and what holds it is named there."""
    last = Standby(pair.standby, others, "last")
    last.build()
    last.start(pair.settings)
    try:
        with (
            Fleet(order(watcher(last), watcher(pair.primary), watcher(pair.standby))) as fleet,
            writing(pair.primary, 1_000_000),
        ):
            views = until(fleet, lambda views: bool(views[1].pairs and views[2].pairs))
            lowest, _, middle = (server.name for server in fleet.servers)
            assert list(views[1].pairs) == [middle]
            assert list(views[2].pairs) == [lowest]
            assert views[2].windows[0].is_cascade
            query(last, "SELECT pg_wal_replay_pause()")
            views = until(
                fleet, lambda views: any(concern.key == f"standby {lowest}" for concern in views[2].concerns)
            )
            (paused,) = (concern for concern in views[2].concerns if concern.key == f"standby {lowest}")
            assert paused.sentence.startswith("replay paused")
            assert not any(concern.key.startswith("standby ") for concern in views[1].concerns)
            (told,) = watch_data(views[2])["standbys"]
            assert told["seen_from"] == "both"
            assert told["is_cascade"]
            assert told["pause_state"] == "paused"
    finally:
        last.stop("immediate")


def test_a_standby_whose_replay_is_paused_still_receives_wal(pair: Pair) -> None:
    """Its pg_wal grows by what it receives: a disk that fills is seen although replay stands still."""
    pair.catch_up()
    with writing(pair.primary, 2_000_000), Fleet(order(watcher(pair.standby))) as fleet:
        until(fleet, lambda views: views[0].seen.look is not None)
        query(pair.standby, "SELECT pg_wal_replay_pause()")
        try:
            wait_until(
                lambda: (
                    query(pair.standby, "SELECT pg_get_wal_replay_pause_state()") == "paused"
                    if pair.standby.install.version_num >= 140000
                    else query(pair.standby, "SELECT pg_is_wal_replay_paused()") == "t"
                )
            )
            replayed = int(query(pair.standby, "SELECT (pg_last_wal_replay_lsn() - '0/0')::int8"))
            views = until(
                fleet,
                lambda views: (
                    views[0].seen.look is not None
                    and (views[0].seen.look.since(replayed) or 0) > 4_000_000
                    and (watch_data(views[0])["disk"]["wal_bytes_per_s"] or 0) > 100_000
                ),
            )
            assert views[0].seen.look is not None
            assert views[0].seen.look.is_in_recovery
            (paused,) = (concern for concern in views[0].concerns if concern.key == "replay paused")
            assert "MB of WAL wait in pg_wal" in paused.sentence
        finally:
            query(pair.standby, "SELECT pg_wal_replay_resume()")
    pair.catch_up()


def test_a_standby_that_does_not_stream_is_watched_with_its_primary(pair: Pair) -> None:
    run(pair.primary, f"CREATE ROLE {PLAIN} LOGIN")
    pair.catch_up()
    pair.link.sever()
    try:
        wait_until(lambda: query(pair.standby, "SELECT count(*) FROM pg_stat_wal_receiver") == "0")
        with Fleet(order(watcher(pair.primary), watcher(pair.standby))) as fleet:
            views = until(
                fleet, lambda views: any("walreceiver" in str(concern) for concern in views[0].concerns)
            )
            assert list(views[0].pairs) == ["local:" + str(pair.standby.port)]
        # By itself, too, at the two looks of --check; it was started long ago.
        wait_until(lambda: float(query(pair.standby, UP)) > GRACE_S)
        with Fleet(order(watcher(pair.standby))) as fleet:
            views = until(fleet, lambda views: bool(views[0].concerns))
            (alone,) = views[0].concerns
            assert alone.sentence.startswith("This standby gets no WAL")
        plain = watcher(pair.standby).replace(WATCHER, PLAIN)
        with Fleet(order(plain)) as fleet:
            views = until(fleet, lambda views: views[0].seen.look is not None)
            assert views[0].concerns == ()
            assert "the arrival of WAL: pg_monitor is not granted" in views[0].seen.lacks
    finally:
        pair.link.mend()
    pair.catch_up()


def test_a_subscriber_whose_table_is_locked(
    embedded: Install, others: Workspace, workspace: Workspace
) -> None:
    settings = {**SETTINGS, "wal_level": "logical", "max_replication_slots": "10"}
    with ExitStack() as stack:
        publisher = stack.enter_context(running_primary(embedded, workspace, settings, is_new=True))
        subscriber = stack.enter_context(running_primary(embedded, others, settings, is_new=True))
        for server in (publisher, subscriber):
            run(
                server,
                f"CREATE ROLE {WATCHER} LOGIN IN ROLE pg_monitor",
                "CREATE TABLE t (i int, filler text)",
            )
        run(publisher, "CREATE PUBLICATION all_of_t FOR TABLE t")
        conninfo = f"host={publisher.sockets} port={publisher.port} user=postgres dbname=postgres"
        run(subscriber, f"CREATE SUBSCRIPTION shop CONNECTION '{conninfo}' PUBLICATION all_of_t")
        run(publisher, "INSERT INTO t VALUES (1, 'x')")
        wait_until(lambda: query(subscriber, "SELECT count(*) FROM t") == "1")
        fleet = stack.enter_context(Fleet(order(watcher(publisher), watcher(subscriber))))
        views = until(fleet, lambda views: all(shown.seen.look is not None for shown in views))
        (state,) = views[0].seen.logical
        assert state.slot.database == "postgres"
        assert views[0].seen.standbys == ()
        with ServerObserver(watcher(publisher)) as observer:
            assert observer.window().standbys == ()
        views = until(fleet, lambda views: bool(views[1].seen.look and views[1].seen.look.subscriptions))
        assert views[1].seen.look is not None
        (subscription,) = views[1].seen.look.subscriptions
        assert (subscription.name, subscription.is_enabled, subscription.slot) == ("shop", True, "shop")
        with subscriber.connect() as session, writing(publisher, 4_000_000):
            session.execute("BEGIN")
            session.execute("LOCK TABLE t")
            views = until(
                fleet, lambda views: any(concern.key == "logical shop" for concern in views[0].concerns)
            )
            assert "logical slot shop" in plain_text(views, is_first=True)
            session.execute("ROLLBACK")
        until(fleet, lambda views: not any(concern.key == "logical shop" for concern in views[0].concerns))
        run(subscriber, "ALTER SUBSCRIPTION shop DISABLE")
        views = until(
            fleet, lambda views: any("is disabled" in concern.sentence for concern in views[1].concerns)
        )
        run(subscriber, "ALTER SUBSCRIPTION shop SET (slot_name = NONE)", "DROP SUBSCRIPTION shop")

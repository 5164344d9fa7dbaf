"""A pair that things are done to, and what is then said of it by an observer with pg_monitor alone."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.postgres.replication import SETTINGS, query, run, running_primary
from walproof.advise.replica.cause import Cause
from walproof.advise.replica.diagnosis import Diagnosis, diagnose
from walproof.facts import Install
from walproof.facts.codec import to_json
from walproof.facts.replication import ReplicationWindow
from walproof.postgres.cluster import Cluster
from walproof.postgres.link import Link
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.probe.pair import PairObserver

WINDOW_S = 1.2
WATCHER = "watcher"
ROW_BYTES = 1000
RECORDED = Path(__file__).parent.parent / "advise" / "replication"


@dataclass
class Pair:
    primary: Cluster
    standby: Standby
    link: Link
    settings: Mapping[str, str]

    @contextmanager
    def observer(self, standby: Cluster | None = None) -> Iterator[PairObserver]:
        with PairObserver(watcher(self.primary), watcher(standby or self.standby)) as observer:
            yield observer

    def until(
        self,
        is_so: Callable[[Diagnosis], bool],
        standby: Cluster | None = None,
        windows: int = 16,
        window_s: float = WINDOW_S,
    ) -> tuple[ReplicationWindow, Diagnosis]:
        """The first window of which that is so. Fails, with what was said instead, when there is none."""
        seen = []
        with self.observer(standby) as observer:
            for _ in range(windows):
                window = observer.observe(window_s)
                diagnosis = diagnose(window)
                if is_so(diagnosis):
                    return window, diagnosis
                seen.append((diagnosis.causes, diagnosis.split, window.waits, window.states))
        raise AssertionError("\n".join(map(str, seen[-3:])))

    def until_named(
        self, cause: Cause, standby: Cluster | None = None, windows: int = 16
    ) -> tuple[ReplicationWindow, Diagnosis]:
        """The first window whose leading cause that is."""
        found = self.until(
            lambda diagnosis: [c.cause for c in diagnosis.causes][:1] == [cause], standby, windows
        )
        record(found[0], cause)
        return found

    def until_quiet(self) -> tuple[ReplicationWindow, Diagnosis]:
        return self.until(lambda diagnosis: not diagnosis.causes)

    def catch_up(self) -> None:
        self.standby.wait_for_replay(run(self.primary))


def record(window: ReplicationWindow, name: str) -> None:
    """With WALPROOF_UPDATE=1: keep the window for the tests that need no server (tests/advise)."""
    if os.environ.get("WALPROOF_UPDATE"):
        RECORDED.mkdir(exist_ok=True)
        path = RECORDED / f"{name.replace(' ', '-').replace('/', '-')}.json"
        path.write_text(json.dumps(json.loads(to_json(window)), indent=1) + "\n")


def watcher(cluster: Cluster) -> str:
    return f"host={cluster.sockets} port={cluster.port} user={WATCHER} dbname=postgres"


@contextmanager
def running_pair(
    install: Install, workspace: Workspace, settings: Mapping[str, str] = SETTINGS
) -> Iterator[Pair]:
    """A pair whose stream goes through a link, with a role that has pg_monitor and a table ``t``."""
    with running_primary(install, workspace, settings) as primary, Link(workspace, primary) as link:
        run(
            primary,
            f"CREATE ROLE {WATCHER} LOGIN IN ROLE pg_monitor",
            "CREATE ROLE nobody_special LOGIN",
            "CREATE TABLE t (i int, filler text)",
            "CREATE TABLE small (i bigint)",
            "CREATE INDEX ON small (i)",
        )
        standby = Standby(primary, workspace, "standby", route=link.route)
        standby.build()
        try:
            standby.start(settings)
            yield Pair(primary, standby, link, settings)
        finally:
            standby.stop("immediate")


@contextmanager
def writing(cluster: Cluster, bytes_per_s: int) -> Iterator[None]:
    """About that much WAL a second, in small portions, while the block lasts."""
    stopping = threading.Event()
    portion_s = 0.1
    rows = max(1, int(bytes_per_s * portion_s / ROW_BYTES))
    statement = f"INSERT INTO t SELECT i, repeat('x', {ROW_BYTES - 60}) FROM generate_series(1, {rows}) i"

    def write() -> None:
        with (
            contextlib.suppress(psycopg.Error),
            psycopg.connect(cluster.conninfo, autocommit=True) as session,
        ):
            while not stopping.wait(portion_s):
                session.execute(statement.encode())

    thread = threading.Thread(target=write, name="writer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def pid_of(standby: Cluster, backend_type: str) -> int:
    return int(query(standby, f"SELECT pid FROM pg_stat_activity WHERE backend_type = '{backend_type}'"))

"""A pair whose primary dies under load, and what its promoted standby has of what clients were told.

    primary <--link, delay--> standby(s)     ledger: every acknowledged commit is remembered outside
    [ load ] -> link and primary end at once -> promote -> the books

The primary ends for good, as by a power cut that also destroys its disk: what it did not send is gone. The
standby's machine goes on, so WAL that it has written but not flushed is still there: remote_write loses
nothing. Over a real network the kernel of the primary's machine goes on, too, and sends what it was given.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from walproof.errors import WorkloadError
from walproof.facts import Failover, Install, StandbysLayout
from walproof.lab.emulated_disk import emulated_disk
from walproof.lab.follower import Follower
from walproof.lab.joining import JoinedHere, Joining
from walproof.postgres import template as templates
from walproof.postgres.chain import PRIMARY, StandbyPlan, make_synchronous
from walproof.postgres.cluster import Cluster
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.probe.protocol import Observation
from walproof.probe.throughput import latency_figures
from walproof.workload.ledger import (
    LIGHT_SESSION,
    LedgerLoad,
    Record,
    acknowledged,
    known_before,
    table_statements,
    with_settings,
)

STANDBY = "standby"


@dataclass(frozen=True, slots=True)
class PairConditions:
    """What the pair is made of, apart from its settings."""

    distance_s: float = 0.0
    """Delay one way."""
    bytes_per_s: int | None = None
    """Bandwidth each way; None is no limit."""
    device: str | None = None
    """The emulated disk of the primary, as typed; None is the disk itself."""
    standby_device: str | None = None
    standbys: StandbysLayout = "one"


@dataclass(frozen=True, slots=True)
class Layout:
    """Which standbys there are, and for which of them a commit waits."""

    upstreams: Mapping[str, str]
    """Standby -> the server that it follows."""
    synchronous: str
    """synchronous_standby_names of the primary."""
    lost_with_primary: tuple[str, ...] = ()
    """Standbys at the primary's site, which end with it."""


_THREE = (STANDBY, f"{STANDBY}_2", f"{STANDBY}_3")
LAYOUTS: Mapping[StandbysLayout, Layout] = {
    "one": Layout({STANDBY: PRIMARY}, STANDBY),
    "any 2 of 3": Layout(dict.fromkeys(_THREE, PRIMARY), f"ANY 2 ({', '.join(_THREE)})"),
    # The near one is lost with its primary; what has not been sent to the far one by then is gone.
    "cascade": Layout({STANDBY: PRIMARY, "far": STANDBY}, STANDBY, lost_with_primary=(STANDBY,)),
}


def fail_over(
    workspace: Workspace,
    install: Install,
    settings: Mapping[str, str],
    failover: Failover,
    conditions: PairConditions,
    number: int,
    way: Joining | None = None,
    initdb_options: Sequence[str] = (),
) -> Observation:
    """One failover. ``settings`` are the primary's, synchronous_commit among them; ``way`` joins the standbys
    to it (None: on this machine, over the link of ``conditions``); ``initdb_options`` make its cluster, and
    so theirs.

    Metrics: ``tps`` and ``latency_ms_*`` of the ledger's transactions, ``commits_acknowledged``,
    ``commits_lost``, ``loss_window_ms``, ``promotion_s``. Raises ClusterError or WorkloadError; HostError
    where another host is lost.
    """
    folder = workspace.make_folder(f"primary-{number}")
    # On the primary autovacuum would make a commit wait for something other than what is compared.
    complete = with_settings({"autovacuum": "off", **settings})
    primary = Cluster(install, workspace, folder)
    disks = ExitStack()
    way = way or JoinedHere(workspace, conditions.distance_s, conditions.bytes_per_s, delay_at_once=True)

    def put_disk_under(server: Cluster, device: str | None) -> None:
        disk = disks.enter_context(emulated_disk(workspace, server.folder, device))
        if disk is not None:
            server.environment.update(disk.environment)

    def slow_down(standby: Standby) -> None:
        # After a base backup the first start flushes each file; a clean stop spares the slow disk this.
        standby.start(complete)
        standby.stop("fast")
        put_disk_under(standby, conditions.standby_device)

    layout = LAYOUTS[conditions.standbys]
    plans = [
        StandbyPlan(
            name, upstream, complete, before_start=None if conditions.standby_device is None else slow_down
        )
        for name, upstream in layout.upstreams.items()
    ]
    try:
        templates.clone(templates.prepare_empty(workspace, install, initdb_options), folder)
        put_disk_under(primary, conditions.device)
        started_with = {**complete, **way.settings_for(primary)}
        primary.start(started_with)
        with primary.connect() as session:
            for statement in table_statements():
                session.execute(statement.encode())
        with way.joined(primary, plans, started_with) as standbys:
            make_synchronous(primary, started_with, layout.synchronous)
            way.slow_down()
            site = [standbys[name] for name in layout.lost_with_primary]
            left = [survivor for name, survivor in standbys.items() if name not in layout.lost_with_primary]
            record, load_s, moment_ns = _load(primary, site, way, failover)
            chosen = _successor(left)
            promotion_s = chosen.promote()
            known = known_before(record, moment_ns)
            books = chosen.check_books(known)
    finally:
        primary.stop("immediate")
        disks.close()
        workspace.remove_folder(folder)
    if books.complaint is not None:
        raise WorkloadError(f"the promoted standby is wrong: {books.complaint}")
    metrics = {
        **_latencies(known, load_s),
        "commits_acknowledged": float(acknowledged(known)),
        "commits_lost": float(books.lost),
        "promotion_s": promotion_s,
        "load_s": load_s,
        **way.metrics(),
    }
    if books.oldest_lost_ns is not None:
        metrics["loss_window_ms"] = (moment_ns - books.oldest_lost_ns) / 1e6
    return Observation(metrics)


def _successor(left: Sequence[Follower]) -> Follower:
    """The standby to promote: the one that has most of the WAL."""
    return left[0] if len(left) == 1 else max(left, key=lambda standby: standby.received())


def _load(
    primary: Cluster, site: Sequence[Follower], way: Joining, failover: Failover
) -> tuple[Record, float, int]:
    """(what clients were told, length of the load, monotonic time of the end of the primary and its site)."""
    sessions = [LIGHT_SESSION, *range(failover.sessions - 1)]
    load = LedgerLoad(primary.conninfo, sessions)
    begun = time.monotonic()
    load.start()
    time.sleep(failover.load_s)
    moment_ns = time.monotonic_ns()
    # WAL on the way is lost with the primary's machine; from now on nothing is acknowledged.
    way.sever()
    for standby in site:
        standby.kill()
    primary.kill()
    return load.record(), moment_ns / 1e9 - begun, moment_ns


def _latencies(record: Record, load_s: float) -> dict[str, float]:
    """Latencies are of the light session, which only inserts and updates; the rate is of all sessions."""
    took_ms = np.array(
        [
            (commit.ended_ns - commit.began_ns) / 1e6
            for commit in record[LIGHT_SESSION]
            if commit.ended_ns is not None
        ]
    )
    if not took_ms.size:
        raise WorkloadError("no commit was acknowledged", hint="Use a longer load.")
    return {"tps": acknowledged(record) / load_s, **latency_figures(took_ms)}

"""A pair whose primary dies under load, and what its promoted standby has of what clients were told.

    primary <--link, delay--> standby        ledger: every acknowledged commit is remembered outside
    [ load ] -> link and primary end at once -> promote -> the books

The primary ends for good, as by a power cut with the loss of its disk: what it did not send is gone. The
standby's machine goes on, so WAL that it has written and not flushed is there: remote_write loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from walproof.errors import WorkloadError
from walproof.facts import Failover, Install
from walproof.lab.emulated_disk import emulated_disk
from walproof.postgres import template as templates
from walproof.postgres.build import has_extension
from walproof.postgres.chain import Chain, StandbyPlan
from walproof.postgres.cluster import Cluster
from walproof.postgres.link import Link
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.probe.protocol import Observation
from walproof.workload.books import check_books
from walproof.workload.ledger import (
    LIGHT_SESSION,
    SETTINGS,
    LedgerLoad,
    Record,
    acknowledged,
    known_before,
    table_statements,
)

STANDBY = "standby"
# At the primary these would make a commit wait for something else than what is compared.
_SETTINGS = {"autovacuum": "off", **SETTINGS}


@dataclass(frozen=True, slots=True)
class PairConditions:
    """What the pair is made of, beside its settings."""

    distance_s: float = 0.0
    """Delay one way."""
    bytes_per_s: int | None = None
    """Bandwidth each way; None is no limit."""
    device: str | None = None
    """The emulated disk of the primary, as typed; None is the disk itself."""
    standby_device: str | None = None


def fail_over(
    workspace: Workspace,
    install: Install,
    settings: Mapping[str, str],
    failover: Failover,
    conditions: PairConditions,
    number: int,
) -> Observation:
    """One failover. ``settings`` are the primary's, synchronous_commit among them.

    Metrics: ``tps`` and ``latency_ms_*`` of the ledger's transactions, ``commits_acknowledged``,
    ``commits_lost``, ``loss_window_ms``, ``promotion_s``. Raises ClusterError or WorkloadError.
    """
    folder = workspace.make_folder(f"primary-{number}")
    standby_folder = workspace.folder / f"{STANDBY}"
    complete = {**_SETTINGS, **settings}
    primary = Cluster(install, workspace, folder)
    disks = ExitStack()

    def put_disk_under(server: Cluster, device: str | None) -> None:
        disk = disks.enter_context(emulated_disk(workspace, server.folder, device))
        if disk is not None:
            server.environment.update(disk.environment)

    try:
        templates.clone(templates.prepare_empty(workspace, install, ()), folder)
        put_disk_under(primary, conditions.device)
        primary.start(complete)
        with primary.connect() as session:
            for statement in table_statements():
                session.execute(statement.encode())

        def slow_down(standby: Standby) -> None:
            if conditions.standby_device is None:
                return
            # After a base backup the first start flushes each file; a clean stop spares the slow disk that.
            standby.start(complete)
            standby.stop("fast")
            put_disk_under(standby, conditions.standby_device)

        with Link(workspace, primary, delay_s=conditions.distance_s) as link:
            plan = StandbyPlan(STANDBY, settings=complete, route=link.route, before_start=slow_down)
            with Chain(primary, workspace, [plan], complete) as chain:
                chain.make_synchronous(STANDBY)
                # Not before: a stream begins with the whole segment.
                link.shape(delay_s=conditions.distance_s, bytes_per_s=conditions.bytes_per_s)
                record, load_s, moment_ns = _load(primary, link, failover)
                begun = time.monotonic()
                chain[STANDBY].promote()
                promotion_s = time.monotonic() - begun
                known = known_before(record, moment_ns)
                # The promoted standby has synchronous_standby_names of nobody: nothing there waits.
                with chain[STANDBY].connect() as session:
                    books = check_books(session, known, has_amcheck=has_extension(install, "amcheck"))
    finally:
        primary.stop("immediate")
        disks.close()
        workspace.remove_folder(folder)
        workspace.remove_folder(standby_folder)
    if books.wrong is not None or books.hole is not None:
        raise WorkloadError(f"the promoted standby is wrong: {books.wrong or books.hole}")
    metrics = {
        **_latencies(known, load_s),
        "commits_acknowledged": float(acknowledged(known)),
        "commits_lost": float(books.lost),
        "promotion_s": promotion_s,
        "load_s": load_s,
    }
    if books.oldest_lost_ns is not None:
        metrics["loss_window_ms"] = (moment_ns - books.oldest_lost_ns) / 1e6
    return Observation(metrics)


def _load(primary: Cluster, link: Link, failover: Failover) -> tuple[Record, float, int]:
    """(what clients were told, length of the load, monotonic time of the end of the primary)."""
    sessions = [LIGHT_SESSION, *range(failover.sessions - 1)]
    load = LedgerLoad(primary.conninfo, sessions)
    begun = time.monotonic()
    load.start()
    time.sleep(failover.load_s)
    moment_ns = time.monotonic_ns()
    # What is on the way is lost with the primary's machine; nothing is acknowledged from now on.
    link.sever()
    primary.kill()
    return load.record(), moment_ns / 1e9 - begun, moment_ns


def _latencies(record: Record, load_s: float) -> dict[str, float]:
    """Of the light session, which only inserts and updates; the rate is of all sessions."""
    took_ms = np.array(
        [(one.ended_ns - one.began_ns) / 1e6 for one in record[LIGHT_SESSION] if one.ended_ns is not None]
    )
    if not took_ms.size:
        raise WorkloadError("no commit was acknowledged", hint="Use a longer load.")
    return {
        "tps": acknowledged(record) / load_s,
        "latency_ms_avg": float(took_ms.mean()),
        "latency_ms_stddev": float(took_ms.std()),
        "latency_ms_p50": float(np.percentile(took_ms, 50)),
        "latency_ms_p95": float(np.percentile(took_ms, 95)),
        "latency_ms_p99": float(np.percentile(took_ms, 99)),
    }

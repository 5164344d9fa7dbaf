"""A primary under load whose standby streams: the method of published benches, with all that it leaves out.

    clone, start, base backup, stream, CHECKPOINT -> [ pgbench ] -> standby catches up -> stop
                                                     ' window  '
                                                     [ sampled, startup's CPU counted   ]

What the startup process costs is counted until all rows of the load are replayed, and divided by their
number, so that a primary that writes less does not look like a standby that replays faster. Primary and
pgbench share this machine, also with the standby unless that is on another host."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from walproof.errors import ClusterError, ProbeError
from walproof.facts import Install, Script, Streaming, StreamingConditions, Workload
from walproof.lab.follower import Follower, looked_at
from walproof.lab.joining import Joining
from walproof.lab.kinds.replay.recording import checksum_options
from walproof.lab.pgbench_target import target_of
from walproof.lab.trial import Bench
from walproof.postgres import template as templates
from walproof.postgres.chain import StandbyPlan
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.cpu import CpuProbe
from walproof.probe.protocol import Observation, Subject
from walproof.probe.server_settings import server_facts
from walproof.probe.stream import STAGES, StreamSample, StreamSampler, replay_lag_s
from walproof.probe.throughput import read_pgbench_logs
from walproof.units import Lsn
from walproof.wal.totals import stats
from walproof.workload.partitioned_inserts import insert_script, make_tables
from walproof.workload.pgbench import PgbenchRun

STANDBY = "standby"
_CATCH_UP_PATIENCE_S = 300.0
_CATCH_UP_LOADS = 10
"""Where rates stay as they are, catching up takes a multiple of the time of the load."""
_POLL_S = 0.01
# A standby without sessions is known only by its messages.
_OBSERVING = {"wal_receiver_status_interval": "1s"}
# All WAL of the load is decoded at its end, where it was made.
_KEEPING = {"wal_keep_size": "1TB"}


@dataclass(frozen=True, slots=True)
class StreamOrder:
    """One trial of a live stream."""

    number: int
    settings: Mapping[str, str]
    """Of both servers."""
    workload: Workload
    seed: int
    checkpoint_before: bool
    replay_cpu_share: float = 1.0
    """The share of one core for the standby's startup process."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """What one trial saw."""

    seen: Observation
    began_at: float
    """Unix time at which the load began."""
    load_s: float
    settings: Mapping[str, str]


def prepare_pairs(bench: Bench) -> dict[tuple[str, bool], Path]:
    """(install, whether it has checksums) -> template with the filled tables. Raises ClusterError."""
    plan, workspace = bench.plan, bench.workspace
    found: dict[tuple[str, bool], Path] = {}
    rows = plan.kind_as(Streaming).preloaded_rows

    def load(cluster: Cluster) -> None:
        with cluster.connect() as session:
            make_tables(session, rows)
            # No hint bit of the preload is set within a window.
            session.execute("VACUUM (FREEZE)")

    for label, install in bench.installs.items():
        for checksums in {variant.conditions_as(StreamingConditions).checksums for variant in plan.variants}:
            options = (*plan.initdb_options, *checksum_options(install, checksums))
            setup = f"{rows} rows in partitioned tables"
            if not templates.is_prepared(workspace, install, options, setup):
                bench.progress.preparing(f"tables of {rows} rows on PostgreSQL {label}")
            found[(label, checksums)] = templates.prepare_loaded(workspace, install, options, setup, load)
    return found


class StreamLab:
    """Trials of a live stream on one install."""

    def __init__(
        self, workspace: Workspace, install: Install, pgbench: Path, template: Path, rows_per_commit: int
    ) -> None:
        self._workspace = workspace
        self._install = install
        self._pgbench = pgbench
        self._template = template
        self._rows_per_commit = rows_per_commit

    def run(self, order: StreamOrder, way: Joining) -> Streamed:
        """One trial. Raises ClusterError, ProbeError or WorkloadError; HostError where a host is lost."""
        folder = self._workspace.make_folder(f"primary-{order.number}")
        settings = {**_OBSERVING, **order.settings}
        primary = Cluster(self._install, self._workspace, folder)
        try:
            templates.clone(self._template, folder)
            complete = {**_KEEPING, **settings, **way.settings_for(primary)}
            primary.start(complete)
            with way.joined(primary, [StandbyPlan(STANDBY, settings=settings)], complete) as standbys:
                if order.checkpoint_before:
                    with primary.connect() as session:
                        session.execute("CHECKPOINT")
                return self._measure(order, primary, standbys[STANDBY], way)
        finally:
            primary.stop("immediate")
            self._workspace.remove_folder(folder)

    def _measure(self, order: StreamOrder, primary: Cluster, standby: Follower, way: Joining) -> Streamed:
        facts, _ = server_facts(primary.conninfo)
        start = _flushed(primary)
        # What the base backup and the checkpoint left is replayed before anything is counted.
        standby.wait_for_replay(start)
        way.slow_down()
        with (
            looked_at(standby, order.replay_cpu_share),
            StreamSampler(primary.conninfo, STANDBY, standby.look) as sampler,
        ):
            load = self._begin(order, primary)
            probe = CpuProbe()
            try:
                began_at, began_s = time.time(), time.monotonic()
                probe.start(_subject(primary, load))
                standby.begin_cpu()
                while not load.poll() and time.monotonic() < began_s + load.longest_s:
                    time.sleep(_POLL_S)
                ended_at, ended_s = time.time(), time.monotonic()
                shares = {
                    **_shares(probe.stop().metrics, ended_s - began_s),
                    "standby_cpu_share": standby.end_cpu(),
                }
                summary = load.finish(_CATCH_UP_PATIENCE_S)
            finally:
                load.kill()
                probe.abandon()
            end = _flushed(primary)
            _wait_for_replay(sampler, standby, end, catch_up_patience_s(ended_s - began_s))
        samples = [sample for sample in sampler.samples if sample.at_s >= began_s]
        first = next(sample for sample in reversed(sampler.samples) if sample.at_s <= began_s)
        load_s = ended_s - began_s
        rows = float(summary.transactions * self._rows_per_commit)
        metrics = {
            **read_pgbench_logs(load.logs, began_at, ended_at).metrics,
            **shares,
            **way.metrics(),
            **_replay_metrics([first, *samples], ended_s, end, rows),
            **_wal_metrics(primary, start, end, rows, load_s),
            "rows": rows,
            "rows_per_s": rows / load_s,
        }
        metrics["replay_mb_per_cpu_s"] = metrics["wal_bytes"] / 1e6 / metrics["startup_cpu_s"]
        return Streamed(Observation(metrics, _series(samples, began_s)), began_at, load_s, facts)

    def _begin(self, order: StreamOrder, primary: Cluster) -> PgbenchRun:
        script = Script("inserts", insert_script(self._rows_per_commit))
        workload = replace(order.workload, scripts=(script,))
        return PgbenchRun(self._pgbench, workload, target_of(primary), primary.folder, order.seed)


def _subject(server: Cluster, load: PgbenchRun) -> Subject:
    return Subject(server.conninfo, server.data, server.log, server.pid, load.pid, server.install.version_num)


def _flushed(primary: Cluster) -> Lsn:
    with primary.connect() as session:
        row = session.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
    assert row is not None
    return Lsn.parse(str(row[0]))


def catch_up_patience_s(load_s: float) -> float:
    """How long a standby may take to replay what is left after a load of that many seconds."""
    return max(_CATCH_UP_PATIENCE_S, _CATCH_UP_LOADS * load_s)


def _wait_for_replay(sampler: StreamSampler, standby: Follower, end: Lsn, patience_s: float) -> None:
    """Return when a sample has replayed up to ``end``."""
    deadline = time.monotonic() + patience_s
    while sampler.last.replayed < end:
        if sampler.failure is not None:
            raise ProbeError(sampler.failure, detail=standby.log_tail())
        if time.monotonic() > deadline:
            raise ClusterError(
                f"the standby did not catch up within {patience_s:.0f} s of the end of the load",
                detail=f"{sampler.last.lag_bytes} bytes were not replayed.\n{standby.log_tail()}",
            )
        time.sleep(_POLL_S)


def _shares(cpu_s: Mapping[str, float], load_s: float) -> dict[str, float]:
    """Shares of the cores of the primary's machine: what the primary used of them, and what was not idle at
    all."""
    shares = {"primary_cpu_share": cpu_s["server_cpu_s"] / load_s / (os.cpu_count() or 1)}
    if "host_cpu_busy_share" in cpu_s:
        shares["host_cpu_busy_share"] = cpu_s["host_cpu_busy_share"]
    return shares


def _replay_metrics(
    samples: Sequence[StreamSample], ended_s: float, end: Lsn, rows: float
) -> dict[str, float]:
    """``samples``: the first was taken before the load."""
    first = samples[0]
    last_of_load = max(i for i, sample in enumerate(samples) if sample.at_s <= ended_s)
    at_end = samples[last_of_load]
    caught_up = next(sample for sample in samples if sample.replayed >= end)
    cpu_s = caught_up.startup.cpu_s - first.startup.cpu_s
    within_s = at_end.at_s - first.at_s
    # Its second half: at first a backlog and its buffers form.
    half = next(sample for sample in samples if sample.at_s >= at_end.at_s - within_s / 2)
    metrics = {
        "startup_cpu_s": cpu_s,
        "startup_us_per_row": cpu_s * 1e6 / rows,
        "rows_per_s_max": rows / cpu_s,
        "startup_core_share": (at_end.startup.cpu_s - first.startup.cpu_s) / within_s,
        "run_queue_s": caught_up.startup.run_queue_s - first.startup.run_queue_s,
        "lag_bytes_max": float(max(sample.lag_bytes for sample in samples)),
        "lag_bytes_end": float(at_end.lag_bytes),
        "replay_lag_s_end": replay_lag_s(samples, last_of_load),
        "replay_lag_s_max": max(replay_lag_s(samples, i) for i in range(len(samples))),
        "catch_up_s": max(0.0, caught_up.at_s - ended_s),
    }
    if at_end.at_s > half.at_s:
        half_s = at_end.at_s - half.at_s
        metrics["wal_made_bytes_per_s"] = (at_end.inserted - half.inserted) / half_s
        metrics["wal_replayed_bytes_per_s"] = (at_end.replayed - half.replayed) / half_s
    for stage, rest in zip(STAGES, at_end.stages, strict=True):
        metrics[f"lag_bytes_end.{stage}"] = float(rest)
    for stage, most in zip(STAGES, zip(*(sample.stages for sample in samples), strict=True), strict=True):
        metrics[f"lag_bytes_max.{stage}"] = float(max(most))
    return metrics


def _wal_metrics(primary: Cluster, start: Lsn, end: Lsn, rows: float, load_s: float) -> dict[str, float]:
    """Metrics of the load's WAL, from the WAL itself."""
    found = stats(primary.data / "pg_wal", start=start, end=end)
    wal_bytes = float(end - start)
    return {
        "wal_bytes": wal_bytes,
        "wal_bytes_per_s": wal_bytes / load_s,
        "wal_bytes_per_row": wal_bytes / rows,
        "fpi_per_row": found.images.count / rows,
        "records_per_row": found.totals.records / rows,
    }


def _series(
    samples: Sequence[StreamSample], began_s: float
) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
    """``lag_bytes.<stage>`` until everything was replayed."""
    times = tuple(round(sample.at_s - began_s, 3) for sample in samples)
    by_stage = zip(*(sample.stages for sample in samples), strict=True)
    return {
        f"lag_bytes.{stage}": (times, tuple(map(float, values)))
        for stage, values in zip(STAGES, by_stage, strict=True)
    }

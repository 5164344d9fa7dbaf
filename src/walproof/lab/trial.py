"""One trial: clone, start, load, observe, stop, and the facts of it.

    clone, start, CHECKPOINT?, pgbench, warm-up -> [ probes start ... pgbench ends, probes stop ] -> stop
                                                   '----------------- window -----------------'

The window ends when pgbench does. Without warm-up it opens when pgbench has made its connections.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from walproof.disk.simulated import SimulatedDisk
from walproof.errors import ProbeError, WalproofError, WorkloadError
from walproof.facts import (
    Crash,
    CutFacts,
    Failover,
    Install,
    Load,
    Plan,
    PowerCuts,
    Replay,
    Series,
    Statements,
    Streaming,
    Throughput,
    Trial,
    TrialState,
    Workload,
)
from walproof.lab.crash_trial import crash_and_recover, predict_variants
from walproof.lab.emulated_disk import emulated_disk
from walproof.lab.failover import PairConditions, fail_over
from walproof.lab.load_cut import LoadCutLab, cut_load
from walproof.lab.load_source import PreparedLoad
from walproof.lab.load_trial import TableLoad
from walproof.lab.power_cut import CutLab, CutOrder, cut_metrics, cut_power, draw_seed
from walproof.lab.replay_recording import ReplayRecording
from walproof.lab.replay_run import ReplayRun
from walproof.lab.schedule import Progress
from walproof.lab.self_test import run_self_test
from walproof.lab.streaming import StreamLab, StreamOrder
from walproof.lab.target import target_of
from walproof.postgres import template as templates
from walproof.postgres.build import has_library
from walproof.postgres.cluster import Cluster
from walproof.postgres.wal_folder import wal_moved
from walproof.postgres.workspace import Workspace
from walproof.probe.protocol import Observation, Probe, Subject
from walproof.probe.ratios import per_transaction
from walproof.probe.registry import PROBES
from walproof.probe.server_settings import server_facts
from walproof.probe.statements import StatementCounter
from walproof.probe.throughput import read_pgbench_logs
from walproof.units import Lsn
from walproof.workload.pgbench import PgbenchRun, Summary

_POLL_S = 0.002
_STATEMENTS = "pg_stat_statements"
_ALL_WAL = "1TB"
_SUMMARY_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """Which trial to run."""

    number: int
    round: int
    install: str
    workload: str
    variant: str
    is_first: bool = True
    """No trial of its cell has been run before."""


class TrialRunner:
    """Runs trials of a plan, one at a time, each from a clone of its template."""

    def __init__(
        self,
        plan: Plan,
        workspace: Workspace,
        installs: Mapping[str, Install],
        pgbench: Path,
        prepared: Mapping[tuple[str, str], Path],
        cuts: Mapping[tuple[str, str, bool], CutLab],
        replays: Mapping[tuple[str, str], ReplayRecording],
        pairs: Mapping[tuple[str, bool], Path],
        loads: Mapping[str, PreparedLoad],
        wal: Mapping[str, Workspace],
        keep_failures: Path | None,
    ) -> None:
        """``installs``: label -> the install whose binaries the server's user can reach;
        ``prepared``: (install, workload) -> template; ``cuts``: (install, workload, whether it has checksums)
        -> what power cuts start from; ``replays``: (install, variant) -> the WAL that it replays;
        ``pairs``: (install, whether it has checksums) -> the template of a pair that streams;
        ``loads``: install -> the rows that its trials load; ``wal``: folder that a variant names -> where its
        pg_wal goes; ``keep_failures``: see :func:`walproof.lab.session.execute`."""
        self._plan = plan
        self._workspace = workspace
        self._installs = installs
        self._pgbench = pgbench
        self._prepared = prepared
        self._cuts = cuts
        self._replays = replays
        self._pairs = pairs
        self._loads = loads
        self._wal = wal
        self._keep_failures = keep_failures

    def self_test(self, progress: Progress) -> str:
        """Whether power cuts on the first install find what they should. Raises DiskError when not."""
        progress.preparing("self-test of the power cuts")
        return run_self_test(next(lab for (_, _, has_checksums), lab in self._cuts.items() if has_checksums))

    def forget_loads(self) -> None:
        """Remove the rows that were prepared, which are as large as the user's own: the run is finished."""
        for prepared in self._loads.values():
            templates.forget(self._workspace, prepared.folder)

    def run(self, order: TrialOrder) -> tuple[Trial, tuple[Series, ...]]:
        """Run one trial. What goes wrong with the server or the load makes a failed trial, not an error."""
        started_at = time.time()
        measured = _Measured()
        reason = log = None
        try:
            match self._plan.kind:
                case Replay():
                    self._replay(order, measured)
                case Streaming() as streaming:
                    self._stream(order, streaming, measured)
                case Failover() as failover:
                    self._fail_over(order, failover, measured)
                case Load() as load:
                    self._load(order, load, measured)
                case PowerCuts():
                    self._cut_power(order, measured)
                case Throughput() | Statements():
                    self._measure_apart(order, measured)
                    if self._plan.power_cut is not None:
                        with measured.added("power cut"):
                            self._cut_power(order, measured)
        except WalproofError as error:
            reason = error.message
            log = measured.log or error.detail
        trial = Trial(
            number=order.number,
            round=order.round,
            install=order.install,
            workload=order.workload,
            variant=order.variant,
            state=TrialState.DONE if reason is None else TrialState.FAILED,
            started_at=started_at,
            ended_at=time.time(),
            window_start=measured.window_start,
            window_s=measured.window_s,
            metrics=measured.metrics,
            settings=measured.settings,
            warnings=tuple(measured.warnings),
            reason=reason,
            server_log=log,
            cut=measured.cut,
        )
        return trial, tuple(
            Series(order.number, name, times, values) for name, (times, values) in measured.series.items()
        )

    def _measure_apart(self, order: TrialOrder, measured: _Measured) -> None:
        """The measured window, and the crash after it where the study wants one."""
        template = self._prepared[(order.install, order.workload)]
        with self._cluster(order, f"trial-{order.number}", template, measured) as (cluster, disk):
            self._measure(order, cluster, measured)
            if self._plan.crash is not None:
                with measured.added("crash"):
                    self._crash(order, cluster, self._plan.crash, disk, measured)

    @contextmanager
    def _cluster(
        self, order: TrialOrder, name: str, template: Path, measured: _Measured
    ) -> Iterator[tuple[Cluster, SimulatedDisk | None]]:
        """A clone of the template in its own folder, not started, and the disk under it where its power will
        be cut; its log is kept if it fails."""
        folder = self._workspace.make_folder(name)
        try:
            templates.clone(template, folder)
            with (
                wal_moved(folder / "data", self._wal_space(order)),
                emulated_disk(
                    self._workspace,
                    folder,
                    self._plan.device,
                    can_lose_power=self._plan.crash is not None and self._plan.crash.power_cut,
                ) as disk,
            ):
                environment = {} if disk is None else disk.environment
                cluster = Cluster(self._installs[order.install], self._workspace, folder, environment)
                try:
                    yield cluster, disk
                except WalproofError:
                    measured.log = cluster.log_tail()
                    raise
                finally:
                    cluster.stop("immediate")
        finally:
            self._workspace.remove_folder(folder)

    def _cut_power(self, order: TrialOrder, measured: _Measured) -> None:
        plan = self._plan
        power_cut = plan.power_cut
        assert power_cut is not None
        variant = plan.variant(order.variant)
        cut = cut_power(
            self._cuts[(order.install, order.workload, variant.cut.checksums)],
            CutOrder(
                seed=draw_seed(plan.seed, order.round, order.install, order.workload, order.variant),
                settings=plan.settings_of(variant),
                conditions=variant.cut,
                images=power_cut.images,
                workload=plan.workload(order.workload),
                keep=self._keep_failures,
            ),
        )
        measured.cut = cut
        measured.metrics.update(cut_metrics(cut))
        if power_cut.only:
            measured.window_s = cut.load_s

    def _crash(
        self,
        order: TrialOrder,
        cluster: Cluster,
        crash: Crash,
        disk: SimulatedDisk | None,
        measured: _Measured,
    ) -> None:
        variant = self._plan.variant(order.variant)
        settings = self._plan.settings_of(variant)
        measured.add("recovery", crash_and_recover(cluster, self._workspace, settings, crash, disk))
        if crash.predict and measured.wal_start is not None:
            # From the baseline alone; of the others, how much they wrote.
            every = {
                one.name: self._plan.settings_of(one)
                for one in self._plan.variants
                if order.variant == self._plan.baseline
            }
            wal = cluster.data / "pg_wal"
            measured.add("what-if", predict_variants(wal, measured.wal_start, every))

    def _fail_over(self, order: TrialOrder, failover: Failover, measured: _Measured) -> None:
        plan = self._plan
        variant = plan.variant(order.variant)
        settings = plan.settings_of(variant)
        install = self._installs[order.install]
        measured.window_start = time.time()
        conditions = PairConditions(
            distance_s=variant.distance_s,
            bytes_per_s=variant.bandwidth_bytes_per_s,
            device=plan.device,
            standby_device=variant.standby_device or plan.device,
        )
        measured.add(
            "failover", fail_over(self._workspace, install, settings, failover, conditions, order.number)
        )
        measured.window_s = measured.metrics["load_s"]

    def _stream(self, order: TrialOrder, streaming: Streaming, measured: _Measured) -> None:
        plan = self._plan
        variant = plan.variant(order.variant)
        lab = StreamLab(
            self._workspace,
            self._installs[order.install],
            self._pgbench,
            self._pairs[(order.install, variant.replay.checksums)],
            streaming.rows_per_commit,
        )
        streamed = lab.run(
            StreamOrder(
                number=order.number,
                settings=plan.settings_of(variant),
                workload=plan.workload(order.workload),
                seed=self._load_seed(order),
                checkpoint_before=plan.checkpoint_before,
                distance_s=variant.distance_s,
                bytes_per_s=variant.bandwidth_bytes_per_s,
                replay_cpu_share=variant.replay_cpu_share,
            )
        )
        measured.add("stream", streamed.seen)
        measured.settings.update(streamed.settings)
        measured.window_start, measured.window_s = streamed.began_at, streamed.load_s

    def _load_seed(self, order: TrialOrder) -> int:
        """Equal for all variants of a round, different between rounds."""
        return (self._plan.seed * 1_000_003 + order.round) % 2**31

    def _load(self, order: TrialOrder, load: Load, measured: _Measured) -> None:
        """The variant's load; the first time, where the study wants it, one more whose server is killed, and
        one whose power is cut."""
        empty = self._loads[order.install].folder
        with self._cluster(order, f"trial-{order.number}", empty, measured) as (cluster, _):
            cluster.start(self._load_settings(order))
            settings, _ = server_facts(cluster.conninfo)
            measured.settings.update(settings)
            measured.window_start = time.time()
            measured.add("load", self._table_load(order, load, cluster).measure(self._plan.probes))
            measured.window_s = measured.metrics["load_s"]
        if load.crash and order.is_first:
            with (
                measured.added("crash"),
                self._cluster(order, f"crash-{order.number}", empty, measured) as (cluster, _),
            ):
                cluster.start(self._load_settings(order))
                measured.add(
                    "crash", self._table_load(order, load, cluster).break_off(self._load_settings(order))
                )
        if load.power_cut and order.is_first:
            lab = LoadCutLab(self._workspace, self._installs[order.install], self._loads[order.install], load)
            method = self._plan.variant(order.variant).load
            seed = draw_seed(self._plan.seed, order.install, order.variant)
            with measured.added("cut"):
                measured.add("cut", cut_load(lab, method, self._load_settings(order), order.number, seed))

    def _load_settings(self, order: TrialOrder) -> dict[str, str]:
        variant = self._plan.variant(order.variant)
        return {"log_checkpoints": "on", **self._plan.settings_of(variant)}

    def _table_load(self, order: TrialOrder, load: Load, cluster: Cluster) -> TableLoad:
        return TableLoad(cluster, self._loads[order.install], load, self._plan.variant(order.variant).load)

    def _wal_space(self, order: TrialOrder) -> Workspace | None:
        waldir = self._plan.variant(order.variant).waldir
        return None if waldir is None else self._wal[waldir]

    def _replay(self, order: TrialOrder, measured: _Measured) -> None:
        """Replay the variant's WAL. In the first round it is replayed before, as warm-up and to count system
        calls, and the baseline's once more for a profile."""
        plan = self._plan
        variant = plan.variant(order.variant)
        run = ReplayRun(
            self._workspace,
            self._installs[order.install],
            self._replays[(order.install, order.variant)],
            plan.settings_of(variant),
            variant.replay,
        )
        if order.round == 1:
            counted = run.count_syscalls(f"syscalls-{order.number}")
            measured.add("syscalls", counted)
            if not counted.metrics:
                run.measure(f"warm-up-{order.number}")
            if order.variant == plan.baseline:
                measured.add("profile", run.profile(f"profile-{order.number}"))
        seen = run.measure(f"trial-{order.number}")
        measured.add("replay", seen)
        measured.window_start, measured.window_s = run.began_at, seen.metrics["replay_wall_s"]

    def _measure(self, order: TrialOrder, cluster: Cluster, measured: _Measured) -> None:
        plan = self._plan
        variant = plan.variant(order.variant)
        workload = plan.workload(order.workload)
        observing = {"log_checkpoints": "on"}
        if plan.crash is not None and plan.crash.predict:
            observing["wal_keep_size"] = _ALL_WAL
        if "wal" in plan.probes and cluster.install.version_num >= 140000:
            observing["track_wal_io_timing"] = "on"
        if workload.statements and has_library(cluster.install, _STATEMENTS):
            observing["shared_preload_libraries"] = _STATEMENTS
        cluster.start({**observing, **plan.settings_of(variant)})
        settings, _ = server_facts(cluster.conninfo)
        measured.settings.update(settings)
        if plan.checkpoint_before:
            with cluster.connect() as connection:
                connection.execute("CHECKPOINT")
        measured.wal_start = _insert_lsn(cluster)
        if workload.statements:
            self._count_statements(workload, cluster, measured)
            return
        load = PgbenchRun(
            self._pgbench,
            workload,
            target_of(cluster),
            cluster.folder,
            seed=self._load_seed(order),
        )
        probes: list[tuple[str, Probe]] = [(name, PROBES[name]()) for name in plan.probes]
        try:
            summary, opened_at, closed_at = self._watch(load, workload, cluster, probes, measured)
        finally:
            load.kill()
            for _, probe in probes:
                probe.abandon()
        if not cluster.is_running():
            raise WorkloadError(f"the server ended during the load: {cluster.last_complaint()}")
        measured.window_start, measured.window_s = opened_at, closed_at - opened_at
        measured.add("throughput", read_pgbench_logs(load.logs, opened_at, closed_at))
        measured.metrics["pgbench_tps"] = summary.tps
        if summary.connect_ms is not None:
            measured.metrics["connect_ms"] = summary.connect_ms
        measured.metrics.update(per_transaction(measured.metrics))

    def _count_statements(self, workload: Workload, cluster: Cluster, measured: _Measured) -> None:
        """Each statement by itself, and the sum of each method over all of them."""
        opened_at = time.time()
        with StatementCounter(cluster.conninfo, cluster.data / "pg_wal") as counter:
            for statement in workload.statements:
                measured.metrics.update(counter.measure(statement))
        measured.window_start, measured.window_s = opened_at, time.time() - opened_at
        # A method has a sum only where it counted every statement.
        found: dict[str, list[float]] = {}
        for name, value in measured.metrics.items():
            quantity, _, which = name.partition(".")
            if "|" not in which:
                found.setdefault(quantity, []).append(value)
        measured.metrics.update(
            {name: sum(own) for name, own in found.items() if len(own) == len(workload.statements)}
        )

    def _watch(
        self,
        load: PgbenchRun,
        workload: Workload,
        cluster: Cluster,
        probes: list[tuple[str, Probe]],
        measured: _Measured,
    ) -> tuple[Summary, float, float]:
        """(pgbench's summary, when the window opened, when it closed)."""
        launched_at = time.time()
        _wait(load, launched_at + workload.warmup_s)
        subject = Subject(
            conninfo=cluster.conninfo,
            data=cluster.data,
            log=cluster.log,
            postmaster_pid=cluster.pid,
            driver_pid=load.pid,
            version_num=cluster.install.version_num,
        )
        for name, probe in probes:
            try:
                probe.start(subject)
            except ProbeError as error:
                measured.warnings.append(f"{name}: {error.message}")
        opened_at = time.time()
        deadline = launched_at + load.longest_s
        _wait(load, deadline)
        closed_at = time.time()
        # In reverse: the first of them waits for the server's statistics, which would stretch the others.
        for name, probe in reversed(probes):
            try:
                measured.add(name, probe.stop())
            except ProbeError as error:
                measured.warnings.append(f"{name}: {error.message}")
        if closed_at >= deadline:
            load.kill()
            raise WorkloadError(f"pgbench did not end within {load.longest_s:.0f} s")
        summary = load.finish(_SUMMARY_PATIENCE_S)
        if not workload.warmup_s and summary.connect_ms is not None:
            opened_at = max(opened_at, launched_at + summary.connect_ms / 1000)
        if closed_at <= opened_at:
            raise WorkloadError("pgbench ended before the window opened", hint="Use a longer duration.")
        return summary, opened_at, closed_at


class _Measured:
    """What has been seen so far; kept when the trial fails halfway."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.series: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {}
        self.settings: dict[str, str] = {}
        self.warnings: list[str] = []
        self.window_start: float | None = None
        self.window_s: float | None = None
        self.wal_start: Lsn | None = None
        self.cut: CutFacts | None = None
        self.log: str | None = None

    @contextmanager
    def added(self, what: str) -> Iterator[None]:
        """Something that was added to the trial: if it fails, what was measured before it still holds."""
        try:
            yield
        except WalproofError as error:
            self.warnings.append(f"{what}: not measured: {error.message}")
            self.log = None

    def add(self, probe: str, seen: Observation) -> None:
        self.metrics.update(seen.metrics)
        self.series.update(seen.series)
        self.warnings += [f"{probe}: {warning}" for warning in seen.warnings]


def _insert_lsn(cluster: Cluster) -> Lsn:
    with cluster.connect() as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(str(row[0]))


def _wait(load: PgbenchRun, until: float) -> None:
    """Return at that time, or when the load has ended."""
    while not load.poll() and (left := until - time.time()) > 0:
        time.sleep(min(left, _POLL_S))

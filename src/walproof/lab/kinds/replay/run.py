"""One replay of a recording, and what it cost the process that replays.

    copy base and segments, start as a standby -> [ startup replays ] -> end reached: its counters -> stop

A standby without primary_conninfo and restore_command polls pg_wal: it starts no program and waits for no
network, so all that its startup process does from birth is replay. CPU is taken from schedstat (nanoseconds)
and not from the clock, because others use the machine; time in the run queue says how much they did.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psycopg

from walproof.errors import ClusterError, ProbeError
from walproof.facts import Install, ReplayConditions
from walproof.facts.profile import profile_metrics
from walproof.facts.replication import STARVED_SHARE, StartupProcess
from walproof.lab.kinds.replay.recording import ReplayRecording
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.kernel_audit import KernelAudit
from walproof.postgres.signals import parent, send
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.environment import child_environment
from walproof.privilege.user import server_user
from walproof.probe.processes import startup_pid
from walproof.probe.profile import begin_profile
from walproof.probe.protocol import Observation
from walproof.probe.startup import read_startup, state_of
from walproof.units import Lsn

_STANDBY = {
    "autovacuum": "off",
    "fsync": "off",
    # No restartpoint falls into the replay.
    "max_wal_size": "64GB",
    "checkpoint_timeout": "1h",
}
_PATIENCE_S = 600.0
_POLL_S = 0.02
_FLAT_S = 0.8
_STRACE_PATIENCE_S = 30.0
_CALL = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)


class ReplayRun:
    """Replays of one recording under ``settings``, each from a fresh copy."""

    def __init__(
        self,
        workspace: Workspace,
        install: Install,
        recording: ReplayRecording,
        settings: Mapping[str, str],
        conditions: ReplayConditions,
    ) -> None:
        self._workspace = workspace
        self._install = install
        self._recording = recording
        self._settings = {**_STANDBY, **settings}
        self._conditions = conditions
        self.began_at = 0.0
        """Unix time at which the last replay began."""

    def measure(self, name: str) -> Observation:
        """Replay once in a new folder called ``name``. Raises ClusterError, DiskError or StudyError."""
        with ExitStack() as stack:
            audit: KernelAudit | None = None
            if self._conditions.kernel_audit != "off":
                # Before the server starts, because only what is started later is audited.
                audit = stack.enter_context(KernelAudit(self._workspace, self._conditions.kernel_audit))
            copy = stack.enter_context(_Copy(self._workspace, self._install, self._recording, name))
            cluster = copy.cluster
            if self._conditions.is_cold:
                templates.sync(cluster.folder)
                _forget(cluster.data)
            self.began_at = time.time()
            pid = self._start(cluster)
            wall_s, end = self._wait(cluster, pid)
        seen = self._observation(wall_s, end)
        if audit is None:
            return seen
        audited = audit.records / self._recording.records
        return replace(seen, metrics={**seen.metrics, "audit_records_per_record": audited})

    def count_syscalls(self, name: str) -> Observation:
        """Replay once more under ``strace -c``, for counts only: it slows replay several times over."""
        strace = shutil.which("strace")
        if strace is None:
            return Observation(warnings=("strace is not installed: system calls are not counted",))
        with (
            _Copy(self._workspace, self._install, self._recording, name, holds_wal=True) as copy,
            tempfile.TemporaryDirectory(dir=self._workspace.folder) as ours,
        ):
            cluster = copy.cluster
            # strace and perf run as walproof does, and so write where the server's user cannot.
            summary = Path(ours) / "strace"
            pid = self._start(cluster)
            tracer = subprocess.Popen(
                [strace, "-c", "-o", str(summary), "-p", str(pid)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                env=child_environment(),
            )  # fmt: skip
            try:
                said = _first_line(tracer)
                if "attached" not in said:
                    why = said.strip() or "strace did not attach"
                    return Observation(warnings=(f"system calls are not counted: {why}",))
                copy.release_wal(pid)
                self._wait(cluster, pid)
            finally:
                has_summary = _end(tracer)
            if not has_summary:
                return Observation(warnings=("system calls are not counted: strace did not end",))
            text = summary.read_text()
        calls = {match[2]: int(match[1]) for match in _CALL.finditer(text)}
        calls.pop("total", None)
        records = self._recording.records
        metrics = {"syscalls_per_record": sum(calls.values()) / records}
        for call in ("lseek", "pread64", "pwrite64", "fadvise64"):
            metrics[f"{call}_per_record"] = calls.get(call, 0) / records
        return Observation(metrics)

    def profile(self, name: str) -> Observation:
        """Replay once more and count stacks of the startup process, by perf or, if there is none, by looking
        at its kernel stacks (:mod:`walproof.probe.profile`)."""
        with (
            _Copy(self._workspace, self._install, self._recording, name, holds_wal=True) as copy,
            tempfile.TemporaryDirectory(dir=self._workspace.folder) as ours,
        ):
            cluster = copy.cluster
            pid = self._start(cluster)
            profiler, shortcoming = begin_profile(pid, Path(ours))
            warnings = () if shortcoming is None else (shortcoming,)
            if profiler is None:
                return Observation(warnings=warnings)
            try:
                copy.release_wal(pid)
                self._wait(cluster, pid)
            except BaseException:
                profiler.abandon()
                raise
            try:
                stacks = profiler.stop()
            except ProbeError as error:
                return Observation(warnings=(*warnings, error.message))
        return Observation(profile_metrics(profiler.method, stacks), warnings=warnings)

    def _start(self, cluster: Cluster) -> int:
        """Start the server; the process id of its startup process."""
        cluster.launch(self._settings)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and cluster.is_running():
            pid = startup_pid(cluster.pid)
            if pid is not None:
                return pid
            time.sleep(0.001)
        raise ClusterError(f"no startup process came: {cluster.last_complaint()}", detail=cluster.log_tail())

    def _wait(self, cluster: Cluster, pid: int) -> tuple[float, StartupProcess]:
        """Seconds until everything was replayed, and the startup process's counters then."""
        begun = time.monotonic()
        answers = self._settings.get("hot_standby", "on") != "off"
        last_cpu_s, flat_since = -1.0, begun
        seen: StartupProcess | None = None
        with _Positions(cluster.conninfo if answers else None) as positions:
            while time.monotonic() - begun < _PATIENCE_S:
                now = read_startup(pid)
                if now is None:
                    raise ClusterError(f"replay ended: {cluster.last_complaint()}", detail=cluster.log_tail())
                if answers:
                    reached = positions.replayed()
                    if reached is not None and reached >= self._recording.end:
                        return time.monotonic() - begun, read_startup(pid) or now
                elif now.cpu_s - last_cpu_s > 0.001 or state_of(pid) != "S":
                    # Without sessions, it has ended when it sleeps and its CPU time stands still.
                    last_cpu_s, flat_since, seen = now.cpu_s, time.monotonic(), now
                elif time.monotonic() - flat_since > _FLAT_S and seen is not None:
                    return flat_since - begun, now
                time.sleep(_POLL_S)
        raise ClusterError(
            f"the WAL was not replayed up to {self._recording.end} within {_PATIENCE_S:.0f} s",
            detail=cluster.log_tail(),
        )

    def _observation(self, wall_s: float, end: StartupProcess) -> Observation:
        recording = self._recording
        us_per_row = end.cpu_s * 1e6 / recording.rows
        metrics = {
            "startup_cpu_s": end.cpu_s,
            "startup_us_per_record": end.cpu_s * 1e6 / recording.records,
            "startup_us_per_row": us_per_row,
            "replay_mb_per_cpu_s": recording.wal_bytes / 1e6 / end.cpu_s,
            "replay_wall_s": wall_s,
            "run_queue_s": end.run_queue_s,
            "minor_faults": float(end.minor_faults),
            "rows_per_s_max": 1e6 / us_per_row,
            "wal_bytes_per_row": recording.wal_bytes / recording.rows,
            "fpi_per_row": recording.images / recording.rows,
            "records_per_row": recording.records / recording.rows,
            "wal_bytes_replayed": float(recording.wal_bytes),
        }
        if end.read_bytes is not None:
            metrics["read_bytes"] = float(end.read_bytes)
        if end.read_calls is not None:
            metrics["read_calls_per_record"] = end.read_calls / recording.records
        warnings: tuple[str, ...] = ()
        if end.run_queue_s > STARVED_SHARE * end.cpu_s:
            warnings = (
                f"the startup process waited {end.run_queue_s:.2f} s for a core and ran {end.cpu_s:.2f} s",
            )
        return Observation(metrics, warnings=warnings)


class _Copy:
    """Context manager: a cluster on a copy of the recording; stopped and removed at the end.

    With ``holds_wal`` its startup process finds no WAL and asks for it again and again, until
    ``release_wal``: whoever observes it is then there before the first record, however late it comes.
    """

    def __init__(
        self,
        workspace: Workspace,
        install: Install,
        recording: ReplayRecording,
        name: str,
        *,
        holds_wal: bool = False,
    ) -> None:
        self._workspace = workspace
        self._folder = workspace.make_folder(name)
        self._recording = recording
        self._holds_wal = holds_wal
        self.cluster = Cluster(install, workspace, self._folder)

    def __enter__(self) -> _Copy:
        try:
            templates.clone(self._recording.folder, self._folder, flush=False)
            data = self.cluster.data
            segments = sorted((self._recording.folder / "wal").iterdir())
            target = data / "pg_wal"
            if self._holds_wal:
                target = self._held
            with acting_as(self.cluster.user):
                target.mkdir(exist_ok=True)
                (data / "standby.signal").touch(mode=0o600)
            templates.copy(segments, target, "copy the WAL of the recording")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.stop("immediate")
        self._workspace.remove_folder(self._folder)

    def release_wal(self, startup_pid: int) -> None:
        """Let the startup process find the segments that were held back."""
        # The first of them is moved last: when it is found, all are there.
        with acting_as(self.cluster.user):
            for segment in sorted(self._held.iterdir(), reverse=True):
                segment.rename(self.cluster.data / "pg_wal" / segment.name)
        # It looks every five seconds (wal_retrieve_retry_interval), and at once when its latch is set.
        postmaster = self.cluster.pid
        send(startup_pid, signal.SIGHUP, lambda: parent(startup_pid) == postmaster)

    @property
    def _held(self) -> Path:
        return self._folder / "held-wal"


class _Positions:
    """Context manager: asks a standby, once it answers, how far it has replayed."""

    def __init__(self, conninfo: str | None) -> None:
        self._conninfo = conninfo
        self._session: psycopg.Connection[tuple[object, ...]] | None = None

    def __enter__(self) -> _Positions:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.close()

    def replayed(self) -> Lsn | None:
        """None while it is not consistent yet."""
        assert self._conninfo is not None
        try:
            if self._session is None:
                self._session = psycopg.connect(self._conninfo, autocommit=True)
            row = self._session.execute("SELECT pg_last_wal_replay_lsn()").fetchone()
        except psycopg.Error:
            self.__exit__()
            self._session = None
            return None
        return Lsn.parse(str(row[0])) if row is not None and row[0] is not None else None


def _first_line(tracer: subprocess.Popen[str]) -> str:
    """What strace says first; empty when it says nothing in time."""
    assert tracer.stderr is not None
    ready, _, _ = select.select([tracer.stderr], [], [], _STRACE_PATIENCE_S)
    return tracer.stderr.readline() if ready else ""


def _end(tracer: subprocess.Popen[str]) -> bool:
    """End strace. Returns whether it ended by itself, and so wrote its summary."""
    if tracer.poll() is None:
        tracer.send_signal(signal.SIGINT)
    try:
        tracer.communicate(timeout=_STRACE_PATIENCE_S)
    except subprocess.TimeoutExpired:
        tracer.kill()
        tracer.communicate()
        return False
    return True


def _forget(folder: Path) -> None:
    """Drop every file below from the page cache; they are synced, so nothing of them is dirty."""
    with acting_as(server_user()):
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.parent.name != "pg_wal":
                file = os.open(path, os.O_RDONLY)
                try:
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(file)

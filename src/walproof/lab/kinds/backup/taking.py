"""The first half of a trial: a server under load, its base backup, and the moment that is restored to.

    [full backup] -> load -> BACKUP (the load goes on, or pauses) -> load -> the moment -> load -> stop
     incremental      tps                 tps, WAL, time                                  all WAL archived

The moment is a time, as a DBA would name it (recovery_target_time), and on one machine that is exact: a
commit gets its time before its WAL is inserted and is acknowledged after that. So what was acknowledged
before the moment has an earlier time and lies before every record with a later one, and recovery stops at the
first of those. If the clock is set during a trial, the trial fails and nothing else happens."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

from walproof.errors import ClusterError, UnitError, WorkloadError
from walproof.facts.kinds import Backup, BackupConditions
from walproof.files import folder_bytes
from walproof.lab.kinds.backup.archive import ArchiveFolder
from walproof.lab.kinds.backup.load import BackupLoad
from walproof.lab.kinds.backup.programs import take_backup
from walproof.lab.pgbench_tables import open_server
from walproof.lab.trial import Bench, Measured, TrialOrder
from walproof.postgres.cluster import Cluster
from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser
from walproof.probe.throughput import read_pgbench_logs
from walproof.units import Lsn
from walproof.workload.ledger import (
    SETTINGS,
    Record,
    acknowledged,
    known_before,
    table_statements,
    with_settings,
)

MANIFEST = "backup_manifest"
_SUMMARIES = {"summarize_wal": "on"}
_BEYOND_S = 1.0
"""Load after the moment, so that recovery has something to leave out."""


@dataclass(frozen=True, slots=True)
class RestoreMoment:
    """The moment that is restored to, and what has to be there then."""

    at: str
    """As recovery_target_time."""
    lsn: Lsn
    """How far WAL was written."""
    known: Record
    """Commits that had begun by then; those that had been acknowledged by then have the time of that."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A base backup in ``folder``, with the full one that an incremental one belongs to."""

    folder: Path
    full: Path | None
    start: Lsn
    """Where its recovery begins."""
    moment: RestoreMoment


@dataclass(frozen=True, slots=True)
class _Span:
    """Unix times of a window of the load."""

    opened_at: float
    closed_at: float


def take(
    bench: Bench,
    order: TrialOrder,
    cluster: Cluster,
    folder: Path,
    archive: ArchiveFolder,
    measured: Measured,
) -> Taken:
    """Start the cluster, load it, back it up into ``folder``, and leave all its WAL in the archive.

    Raises ClusterError, WorkloadError or ProbeError.
    """
    conditions = bench.variant(order).conditions_as(BackupConditions)
    workload = bench.workload(order)
    assert workload.duration_s is not None, "the study was checked"
    is_incremental = conditions.mode == "incremental"
    observing = {**archive.archiving, **_SUMMARIES} if is_incremental else archive.archiving
    of_ledger = with_settings(bench.settings(order))
    needed = {name: of_ledger[name] for name in SETTINGS}
    open_server(bench, order, cluster, observing, measured, needed=needed)
    with cluster.connect() as session:
        for statement in table_statements():
            session.execute(statement.encode())
    full, target = folder / "full" if is_incremental else None, folder / "backup"
    if full is not None:
        take_backup(cluster, replace(conditions, rate_bytes_per_s=None, checkpoint="fast"), full)
        measured.metrics["full_backup_bytes"] = _bytes_of(full, cluster.user)
    with BackupLoad(bench, order, cluster) as load:
        load.resume()
        time.sleep(workload.warmup_s + workload.duration_s)
        before_end = time.time()
        if not conditions.is_loaded:
            load.pause()
        backup = _back_up(cluster, conditions, target, full, archive, measured)
        if not conditions.is_loaded:
            load.resume()
        time.sleep(bench.plan.kind_as(Backup).after_s)
        before_ns = time.monotonic_ns()
        at, lsn = _now(cluster)
        after_ns = time.monotonic_ns()
        moment_at = time.time()
        time.sleep(_BEYOND_S)
        load.pause()
    archive.finish(cluster)
    measured.window_start = load.connected_at + workload.warmup_s
    measured.window_s = moment_at - measured.window_start
    before = _Span(measured.window_start, before_end)
    _measure_load(load, before, backup if conditions.is_loaded else None, moment_at, measured)
    start, end = _wal_range(target, cluster.user)
    measured.metrics["backup_needed_wal_bytes"] = float(end - start)
    moment = RestoreMoment(at, lsn, _known(load.record, before_ns, after_ns))
    return Taken(target, full, start, moment)


def _back_up(
    cluster: Cluster,
    conditions: BackupConditions,
    target: Path,
    full: Path | None,
    archive: ArchiveFolder,
    measured: Measured,
) -> _Span:
    """Take the backup that is measured."""
    (_, lsn), archived = _now(cluster), archive.count_bytes()
    began_at, began_s = time.time(), time.monotonic()
    take_backup(cluster, conditions, target, since=None if full is None else full / MANIFEST)
    backup_s = time.monotonic() - began_s
    (_, end), archived_by_then = _now(cluster), archive.count_bytes()
    measured.metrics |= {
        "backup_s": backup_s,
        "backup_bytes": _bytes_of(target, cluster.user),
        "backup_wal_bytes": float(end - lsn),
        "backup_archived_wal_bytes": float(archived_by_then - archived),
    }
    if full is not None:
        summaries = cluster.data / "pg_wal" / "summaries"
        measured.metrics["wal_summary_bytes"] = _bytes_of(summaries, cluster.user)
    return _Span(began_at, began_at + backup_s)


def _bytes_of(folder: Path, user: ServerUser | None) -> float:
    with acting_as(user):
        return float(folder_bytes(folder))


def _measure_load(
    load: BackupLoad, before: _Span, backup: _Span | None, moment_at: float, measured: Measured
) -> None:
    """Throughput before the backup and, if the load goes on, while it is taken."""
    if before.closed_at <= before.opened_at:
        raise WorkloadError("the load before the backup was too short", hint="Use a longer duration.")
    seen = read_pgbench_logs(load.logs, before.opened_at, before.closed_at).metrics
    before_tps = measured.metrics["before_tps"] = seen["tps"]
    if "latency_ms_p99" in seen:
        measured.metrics["before_latency_ms_p99"] = seen["latency_ms_p99"]
    if backup is None:
        return
    measured.series["tps"] = read_pgbench_logs(load.logs, before.opened_at, moment_at).series["tps"]
    seen = read_pgbench_logs(load.logs, backup.opened_at, backup.closed_at).metrics
    measured.metrics["backup_tps"] = seen["tps"]
    if "latency_ms_p99" in seen:
        measured.metrics["backup_latency_ms_p99"] = seen["latency_ms_p99"]
    if before_tps:
        measured.metrics["backup_tps_share"] = seen["tps"] / before_tps


def _now(cluster: Cluster) -> tuple[str, Lsn]:
    """The server's clock as recovery_target_time accepts it, and how far WAL is written."""
    with cluster.connect() as session:
        row = session.execute(
            "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00',"
            " pg_current_wal_insert_lsn()::text"
        ).fetchone()
    assert row is not None
    return str(row[0]), Lsn.parse(str(row[1]))


def _known(record: Record, before_ns: int, after_ns: int) -> Record:
    """What has to be there at a moment between those two, and what may be there.

    Raises WorkloadError when the ledger has nothing on either side of it.
    """
    known = tuple(
        tuple(commit for commit in commits if commit.began_ns <= after_ns)
        for commits in known_before(record, before_ns)
    )
    later = [
        commit
        for commits in record
        for commit in commits
        if commit.began_ns > after_ns and commit.ended_ns is not None
    ]
    if not acknowledged(known) or not later:
        raise WorkloadError(
            f"no commit was acknowledged {'after' if acknowledged(known) else 'before'} the moment",
            hint="Use a longer duration.",
        )
    return known


def _wal_range(backup: Path, user: ServerUser | None) -> tuple[Lsn, Lsn]:
    """The WAL without which the backup cannot be restored. Raises ClusterError."""
    try:
        with acting_as(user):
            manifest = json.loads((backup / MANIFEST).read_text(encoding="utf-8"))
        span = manifest["WAL-Ranges"][-1]
        return Lsn.parse(span["Start-LSN"]), Lsn.parse(span["End-LSN"])
    except (OSError, ValueError, LookupError, TypeError, UnitError) as error:
        raise ClusterError(f'the manifest of the backup in "{backup}" cannot be read: {error}') from error

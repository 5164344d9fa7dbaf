"""The second half of a trial: from the backup and the archived WAL to a server at the moment.

    copy, unpack or combine -> pg_verifybackup -> start -> recovery to the moment -> the books

The time until the server is back counts everything but the verification, for which no server waits.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import psycopg

from walproof.disk.checksums import damaged_pages
from walproof.errors import ClusterError, WalproofError, WorkloadError
from walproof.facts import Workload
from walproof.facts.kinds import BackupConditions
from walproof.lab.failure import as_failure
from walproof.lab.kinds.backup.archive import ArchiveFolder
from walproof.lab.kinds.backup.programs import combine, lack_of_program, run_program, verify
from walproof.lab.kinds.backup.taking import MANIFEST, RestoreMoment, Taken
from walproof.lab.trial import Bench, Measured, TrialOrder
from walproof.postgres.build import has_extension
from walproof.postgres.cluster import Cluster
from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser
from walproof.workload.books import check_books
from walproof.workload.ledger import Record, acknowledged, prepared_identifiers, with_settings

_PATIENCE_S = 3600.0
_POLL_S = 0.01


def restore(
    bench: Bench, order: TrialOrder, taken: Taken, folder: Path, archive: ArchiveFolder, measured: Measured
) -> None:
    """Restore the backup in the empty ``folder``, recover to its moment, and look at what is there.

    Raises ClusterError when a step fails, WorkloadError when the restored cluster is not as it was then.
    """
    conditions = bench.variant(order).conditions_as(BackupConditions)
    cluster = Cluster(bench.install(order), bench.workspace, folder)
    metrics = measured.metrics
    _put_back(cluster, conditions, taken, measured)
    if (reason := lack_of_program(cluster.install, "pg_verifybackup")) is None:
        began_s = time.monotonic()
        verify(cluster.install, cluster.data, cluster.user)
        metrics["verify_s"] = time.monotonic() - began_s
    else:
        measured.warnings.append(f"backup: not compared with its manifest: {reason}")
    settings = {
        "log_checkpoints": "on",
        **with_settings(bench.settings(order)),
        **archive.restoring,
        "recovery_target_time": taken.moment.at,
        "recovery_target_action": "promote",
    }
    try:
        metrics["recover_s"] = _recover(cluster, settings)
        metrics["replayed_wal_bytes"] = float(taken.moment.lsn - taken.start)
        metrics["back_s"] = metrics["restore_s"] + metrics.get("combine_s", 0.0) + metrics["recover_s"]
        with as_failure():
            measured.warnings += _check(cluster, taken.moment, bench.workload(order))
        metrics["restored_commits"] = float(acknowledged(taken.moment.known))
    except WalproofError:
        measured.log = cluster.log_tail()
        raise
    finally:
        cluster.stop("immediate")


def _put_back(cluster: Cluster, conditions: BackupConditions, taken: Taken, measured: Measured) -> None:
    """Make the data directory from the backup, as any tool or person would: bytes are copied."""
    user, began_s = cluster.user, time.monotonic()
    is_packed = conditions.compress != "none"
    if taken.full is None:
        (_unpack if is_packed else _copy)(taken.folder, cluster.data, user)
        measured.metrics["restore_s"] = time.monotonic() - began_s
        return
    parts = [taken.full, taken.folder]
    if is_packed:
        parts = [cluster.folder / part.name for part in parts]
        for packed, part in zip((taken.full, taken.folder), parts, strict=True):
            _unpack(packed, part, user)
    unpacked_s = time.monotonic()
    combine(cluster.install, parts[0], parts[1], cluster.data, user)
    # Without an archive to unpack, combining reads the backups where they are.
    measured.metrics["restore_s"] = unpacked_s - began_s if is_packed else 0.0
    measured.metrics["combine_s"] = time.monotonic() - unpacked_s


def _copy(backup: Path, data: Path, user: ServerUser | None) -> None:
    # No shared extents: a backup is not on the disk of the server that it brings back.
    run_program(_found("cp"), ["--archive", "--reflink=never", "--", str(backup), str(data)], user)


def _unpack(backup: Path, data: Path, user: ServerUser | None) -> None:
    with acting_as(user):
        data.mkdir(mode=0o700)
    words = ["--extract", "--gzip", f"--file={backup / 'base.tar.gz'}", f"--directory={data}"]
    run_program(_found("tar"), words, user)
    with acting_as(user):
        shutil.copyfile(backup / MANIFEST, data / MANIFEST)


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise ClusterError(f"this machine has no {program}")
    return path


def _recover(cluster: Cluster, settings: dict[str, str]) -> float:
    """Start the server and wait until it accepts writes at the target; return the seconds that this took.

    Raises ClusterError.
    """
    with acting_as(cluster.user):
        (cluster.data / "recovery.signal").touch(mode=0o600)
    began_s = time.monotonic()
    cluster.launch(settings)
    while not _accepts_writes(cluster):
        if not cluster.is_running():
            raise ClusterError(
                f"the restored server ended during recovery: {cluster.last_complaint()}",
                detail=cluster.log_tail(),
            )
        if time.monotonic() - began_s > _PATIENCE_S:
            raise ClusterError(
                f"the restored server did not reach its target within {_PATIENCE_S:.0f} s",
                detail=cluster.log_tail(),
            )
        time.sleep(_POLL_S)
    return time.monotonic() - began_s


def _accepts_writes(cluster: Cluster) -> bool:
    try:
        with psycopg.connect(cluster.conninfo, autocommit=True) as session:
            return session.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
    except psycopg.Error:
        return False


def _check(cluster: Cluster, moment: RestoreMoment, workload: Workload) -> list[str]:
    """Look at everything that can be looked at, then stop the server; return what is odd but does no harm, in
    words.

    Raises WorkloadError if something that was acknowledged by the moment is missing, something that began
    after it is there, or anything does not add up or cannot be read, ClusterError if the server cannot be
    reached or does not stop.
    """
    has_amcheck = has_extension(cluster.install, "amcheck")
    with cluster.connect() as session:
        roll_back_unknown(session, moment.known)
        books = check_books(
            session, moment.known, has_amcheck=has_amcheck, has_pgbench_sums=workload.is_pgbenchs_own
        )
        rows = {way: _accounts(session, way) for way in ("indexonlyscan", "seqscan")}
        row = session.execute("SHOW data_checksums").fetchone()
        has_checksums = row == ("on",)
    lost = f"{books.lost} commits that were acknowledged before {moment.at} are gone" if books.lost else None
    # To the books, a row of a commit that began after the moment belongs to no commit at all.
    complaint = books.wrong or books.hole or lost or books.unbalanced
    if complaint is None and rows["indexonlyscan"] != rows["seqscan"]:
        complaint = (
            f'an index-only scan of "pgbench_accounts" finds {rows["indexonlyscan"]} rows, '
            f"the table has {rows['seqscan']}: its visibility map is stale"
        )
    if complaint is not None:
        raise WorkloadError(f"the restored cluster is wrong: {complaint}")
    if not cluster.stop("fast"):
        raise ClusterError("the restored server did not stop in time", detail=cluster.log_tail())
    if not has_checksums:
        return []
    damaged = damaged_pages(cluster.data)
    grave = [page for page in damaged if page.fork in ("main", "init")]
    if grave:
        raise WorkloadError(
            f'the restored cluster is wrong: checksum of block {grave[0].block} of "{grave[0].path}" is wrong'
        )
    return [
        f'checksum of block {page.block} of "{page.path}" is wrong, which is a map that the server mends'
        for page in damaged
    ]


def roll_back_unknown(session: psycopg.Connection[tuple[object, ...]], known: Record) -> None:
    """Roll back the prepared transactions that ``known`` does not have, as their coordinator would.

    Recovery to a time stops before a commit or an abort, never before a PREPARE
    (``recoveryStopsBefore`` in xlogrecovery.c): what was prepared between the moment and the first later
    commit is there, still prepared.
    """
    identifiers = prepared_identifiers(known)
    for (identifier,) in session.execute("SELECT gid FROM pg_prepared_xacts ORDER BY gid").fetchall():
        if identifier not in identifiers:
            session.execute(f"ROLLBACK PREPARED '{identifier}'".encode())


def _accounts(session: psycopg.Connection[tuple[object, ...]], way: str) -> int:
    """Count the rows of pgbench's largest table, read in only one way.

    An incremental backup can bring back a visibility map that is older than its table; index-only scans
    believe it.
    """
    # Without index scans there are no index-only scans.
    ways = {way, "indexscan"} if way == "indexonlyscan" else {way}
    with session.transaction(force_rollback=True):
        for name in ("seqscan", "indexscan", "indexonlyscan", "bitmapscan"):
            session.execute(f"SET LOCAL enable_{name} = {'on' if name in ways else 'off'}".encode())
        row = session.execute("SELECT count(*) FROM pgbench_accounts WHERE aid > 0").fetchone()
    assert row is not None
    return int(str(row[0]))

"""The WAL that trials replay again and again: a base backup, and the segments of a fixed load after it.

Rows are counted, not time, and exactly one checkpoint precedes the load: its share of full-page images is
then the same whoever writes it. It is made once for each install and each configuration of the primary;
variants that differ only in what a standby reads share a recording."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from walproof.facts import Install, Plan, Replay, ReplayConditions, Variant
from walproof.lab.trial import Bench
from walproof.postgres import template as templates
from walproof.postgres.base_backup import take_base_backup
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.units import Lsn
from walproof.wal.segment import segment_start
from walproof.wal.totals import stats
from walproof.workload.partitioned_inserts import insert_rows, make_tables

STANDBY_ONLY = frozenset({
    "hot_standby", "recovery_prefetch", "wal_decode_buffer_size", "maintenance_io_concurrency",
    "recovery_init_sync_method", "log_startup_progress_interval",
})  # fmt: skip
"""Settings that change nothing in what a primary writes."""
_PRIMARY = {
    # Nothing but the load writes, and no checkpoint falls into it.
    "autovacuum": "off",
    "fsync": "off",
    "synchronous_commit": "off",
    "max_wal_size": "64GB",
    "checkpoint_timeout": "1h",
    "wal_keep_size": "32GB",
    "bgwriter_lru_maxpages": "0",
}


RecordingKey = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class ReplayRecording:
    """A base in ``folder/data``, the segments after it in ``folder/wal``, and what they hold."""

    folder: Path
    start: Lsn
    """Where replay begins."""
    end: Lsn
    rows: int
    records: int
    images: int
    wal_bytes: int
    """Bytes from ``start`` to ``end``, without what the switch of segments after the base backup left
    unused."""


def prepare_recordings(bench: Bench) -> dict[tuple[str, str], ReplayRecording]:
    """(install, variant) -> its recording. Raises ClusterError."""
    plan, replay = bench.plan, bench.plan.kind_as(Replay)
    found: dict[tuple[str, str], ReplayRecording] = {}
    made: dict[RecordingKey, ReplayRecording] = {}
    for label, install in bench.installs.items():
        for variant in plan.variants:
            key = recording_key(plan, label, variant)
            if key not in made:
                bench.progress.preparing(f"WAL of {replay.rows} rows on PostgreSQL {label} ({variant.name})")
                folder = bench.workspace.make_folder(f"recording-{len(made)}")
                made[key] = _record(plan, install, variant, folder, bench.workspace)
            found[(label, variant.name)] = made[key]
    return found


def recording_key(plan: Plan, install: str, variant: Variant) -> RecordingKey:
    """The key of what a variant's WAL is made with; variants with the same key share a recording."""
    return (
        install,
        variant.conditions_as(ReplayConditions).checksums,
        *sorted(_of_primary(plan, variant).items()),
    )


def _of_primary(plan: Plan, variant: Variant) -> dict[str, str]:
    complete = plan.settings_of(variant)
    return {name: value for name, value in complete.items() if name not in STANDBY_ONLY}


def _record(
    plan: Plan,
    install: Install,
    variant: Variant,
    folder: Path,
    workspace: Workspace,
) -> ReplayRecording:
    replay = plan.kind_as(Replay)
    has_checksums = variant.conditions_as(ReplayConditions).checksums
    options = (*plan.initdb_options, *checksum_options(install, has_checksums))
    source = workspace.make_folder(f"{folder.name}-primary")
    try:
        templates.clone(templates.prepare_empty(workspace, install, options), source, flush=False)
        primary = Cluster(install, workspace, source)
        primary.start({**_PRIMARY, **_of_primary(plan, variant)})
        try:
            with primary.connect() as session:
                make_tables(session, replay.preloaded_rows)
                # The preload is settled before the load, so that no hint bit of it is set meanwhile.
                session.execute("VACUUM (FREEZE)")
                session.execute("CHECKPOINT")
            base = take_base_backup(primary, folder / "data")
            with primary.connect() as session:
                insert_rows(session, replay.rows, rows_per_commit=replay.rows_per_commit, seed=plan.seed)
                # An asynchronous commit is flushed a moment later; a commit that waits flushes everything
                # before it.
                session.execute("SET synchronous_commit = on")
                session.execute("CREATE TABLE load_has_ended ()")
                row = session.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
                assert row is not None
                end = Lsn.parse(str(row[0]))
        finally:
            primary.stop("immediate")
        with acting_as(workspace.user):
            _keep_segments(source / "data" / "pg_wal", folder / "wal", base.start)
    finally:
        workspace.remove_folder(source)
    found = stats(folder / "wal", start=base.start, end=end)
    return ReplayRecording(
        folder=folder,
        start=base.start,
        end=end,
        rows=replay.rows,
        records=found.totals.records,
        images=found.images.count,
        wal_bytes=end - base.start - found.accounting.switch_bytes,
    )


def checksum_options(install: Install, checksums: bool) -> tuple[str, ...]:
    """initdb's option for data checksums on or off; from 18 they are the default."""
    if checksums:
        return ("--data-checksums",)
    return ("--no-data-checksums",) if install.version_num >= 180000 else ()


def _keep_segments(pg_wal: Path, kept: Path, start: Lsn) -> None:
    """Move the segments that hold ``start`` and what follows."""
    kept.mkdir()
    for segment in sorted(pg_wal.iterdir()):
        if len(segment.name) == 24 and segment.is_file():
            shutil.move(str(segment), kept / segment.name)
    size = next(kept.iterdir()).stat().st_size
    for segment in kept.iterdir():
        if segment_start(segment.name, size) + size <= start:
            segment.unlink()

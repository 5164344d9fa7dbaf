"""What a study of a live stream says beyond settings: its load, and ``data_checksums``, chosen at initdb."""

from __future__ import annotations

from dataclasses import replace

from walproof.errors import StudyError
from walproof.facts import Install, Streaming, Workload
from walproof.lab.replay_study import CACHE, KERNEL_AUDIT, check_conditions
from walproof.lab.studyfile import StudyFile

_PIPELINES_SINCE = 140000
"""pgbench's \\startpipeline."""


def check_streaming(study: StudyFile, driver: Install) -> None:
    """Refuse what has no meaning in a study of a live stream. Raises StudyError."""
    for workload in study.workload:
        if workload.script or workload.builtin or workload.statement:
            raise StudyError(
                f'workload "{workload.name}" of a study of a live stream has a script of its own',
                detail="Its load is fixed: prepared INSERTs into five partitioned tables.",
            )
        if workload.transactions is not None or workload.warmup:
            raise StudyError(
                f'workload "{workload.name}" of a study of a live stream has no fixed length',
                detail="Its trials have a duration, and no warm-up: every standby begins alike.",
            )
    if study.power_cut is not None or study.replay is not None or study.failover is not None:
        raise StudyError("a study has one of [failover], [power_cut], [replay] and [streaming]")
    values = check_conditions(study)
    for name, _ in values:
        if name in (CACHE, KERNEL_AUDIT):
            raise StudyError(f"{name} has no meaning in a study of a live stream")
    if driver.version_num < _PIPELINES_SINCE:
        raise StudyError(
            f"pgbench {driver.version} cannot make the load of a live stream",
            detail="It sends a transaction's INSERTs in a pipeline, which pgbench has from 14 on.",
            hint="--pg embedded, beside the others, brings a newer one.",
        )


def streaming_of(study: StudyFile) -> Streaming | None:
    """What the plan's trials begin with; None for any other study."""
    table = study.streaming
    return None if table is None else Streaming(table.preloaded_rows, table.rows_per_commit)


def streaming_workload(workload: Workload) -> Workload:
    """The load as a workload: each client of pgbench is a stream of commits."""
    return replace(workload, builtin=None, protocol="prepared")

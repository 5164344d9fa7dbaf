"""What a study of replay says beyond settings: its load, and factors that are not settings.

``data_checksums`` (on, off) is chosen at initdb, ``cache`` (warm, cold) and ``kernel_audit`` (off, quiet,
recording) before each trial. Everything else that varies is a setting; each server, primary or standby, gets
those that mean something to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast, get_args

from walproof.errors import StudyError
from walproof.facts import KernelAuditLevel, Replay, ReplayConditions, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.standby_settings import OF_STANDBYS, Refused, refuse_settings
from walproof.lab.studyfile import Count, StudyFile, StudyTable

CHECKSUMS, CACHE, KERNEL_AUDIT = "data_checksums", "cache", "kernel_audit"
LEVELS: Mapping[str, tuple[str, ...]] = {
    CHECKSUMS: ("on", "off"),
    CACHE: ("warm", "cold"),
    KERNEL_AUDIT: get_args(KernelAuditLevel),
}


class ReplayTable(StudyTable):
    """``[replay]``: each trial replays the WAL of that many inserted rows."""

    rows: Count = 200_000
    preloaded_rows: Count = 300_000
    rows_per_commit: Count = 500
    quick_rows: Count = 50_000


_DELAY = Refused(
    "recovery_min_apply_delay", None, "a standby does not replay all WAL at once", "Leave it out."
)


def check_replay(asked: Asked) -> None:
    """Refuse what has no meaning in a study of replay. Raises StudyError."""
    study = asked.study
    if len(study.workload) != 1 or study.workload[0].script or study.workload[0].builtin:
        raise StudyError(
            "a study of replay has one workload, without scripts",
            detail="Its load is fixed: prepared INSERTs into five partitioned tables.",
        )
    check_conditions(study)
    refuse_settings(asked, (*OF_STANDBYS, _DELAY))


def check_conditions(study: StudyFile) -> list[tuple[str, str]]:
    """Every value that a setting or a condition takes. Raises StudyError for an impossible one."""
    values = [(name, value) for name, levels in study.factors.items() for value in levels]
    values += [(name, value) for variant in study.variant for name, value in variant.settings.items()]
    for name, value in values:
        if name in LEVELS and value not in LEVELS[name]:
            raise StudyError(f'{name} cannot be "{value}"', hint=f"It is one of {', '.join(LEVELS[name])}.")
    return values


def conditions_of(settings: Mapping[str, str]) -> ReplayConditions:
    """The part of what was typed that is not a setting."""
    return ReplayConditions(
        checksums=settings.get(CHECKSUMS) == "on",
        is_cold=settings.get(CACHE) == "cold",
        kernel_audit=cast("KernelAuditLevel", settings.get(KERNEL_AUDIT, "off")),
    )


def with_conditions(variant: Variant) -> Variant:
    """The variant, with what is not a setting taken out of its settings."""
    settings = {name: value for name, value in variant.settings.items() if name not in LEVELS}
    return replace(variant, settings=settings, conditions=conditions_of(variant.settings))


def replay_of(table: ReplayTable, quick: bool) -> Replay:
    """The plan's load of WAL."""
    rows = table.quick_rows if quick else table.rows
    return Replay(rows, table.preloaded_rows, table.rows_per_commit)


def replay_workload(workload: Workload, replay: Replay) -> Workload:
    """The load as a workload: so many transactions of one session, prepared."""
    transactions = -(-replay.rows // replay.rows_per_commit)
    return replace(workload, builtin=None, duration_s=None, transactions=transactions, protocol="prepared")

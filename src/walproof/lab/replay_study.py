"""What a study of replay says beyond settings: its load, and factors that are no settings.

``data_checksums`` (on, off) is chosen at initdb, ``cache`` (warm, cold) and ``kernel_audit`` (off, quiet,
recording) before each trial. All else that varies are settings, of which each server, primary and standby,
gets those that mean something to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast, get_args

from walproof.errors import StudyError
from walproof.facts import KernelAuditLevel, Replay, ReplayConditions, Variant, Workload
from walproof.lab.studyfile import StudyFile

CHECKSUMS, CACHE, KERNEL_AUDIT = "data_checksums", "cache", "kernel_audit"
_LEVELS: Mapping[str, tuple[str, ...]] = {
    CHECKSUMS: ("on", "off"),
    CACHE: ("warm", "cold"),
    KERNEL_AUDIT: get_args(KernelAuditLevel),
}


def check_replay(study: StudyFile) -> None:
    """Refuse what has no meaning in a study of replay. Raises StudyError."""
    if len(study.workload) != 1 or study.workload[0].script or study.workload[0].builtin:
        raise StudyError(
            "a study of replay has one workload, without scripts",
            detail="Its load is fixed: prepared INSERTs into five partitioned tables.",
        )
    check_conditions(study)


def check_conditions(study: StudyFile) -> list[tuple[str, str]]:
    """Every value that a setting or a condition takes in the study; refuses what none can be.

    Raises StudyError.
    """
    values = [(name, value) for name, levels in study.factors.items() for value in levels]
    values += [(name, value) for variant in study.variant for name, value in variant.settings.items()]
    for name, value in values:
        if name in _LEVELS and value not in _LEVELS[name]:
            raise StudyError(f'{name} cannot be "{value}"', hint=f"It is one of {', '.join(_LEVELS[name])}.")
    for minimal in [value for name, value in values if name == "wal_level" and value == "minimal"]:
        raise StudyError(f"a standby cannot be made with wal_level={minimal}", hint="Use replica or logical.")
    return values


def with_conditions(cell: Variant) -> Variant:
    """The variant with what is no setting taken out of its settings."""
    return replace(
        cell,
        settings={name: value for name, value in cell.settings.items() if name not in _LEVELS},
        replay=ReplayConditions(
            checksums=cell.settings.get(CHECKSUMS) == "on",
            is_cold=cell.settings.get(CACHE) == "cold",
            kernel_audit=cast("KernelAuditLevel", cell.settings.get(KERNEL_AUDIT, "off")),
        ),
    )


def replay_of(study: StudyFile, quick: bool) -> Replay | None:
    """The plan's load of WAL; None for any other study."""
    table = study.replay
    if table is None:
        return None
    rows = table.quick_rows if quick else table.rows
    return Replay(rows, table.preloaded_rows, table.rows_per_commit)


def replay_workload(workload: Workload, study: StudyFile, quick: bool) -> Workload:
    """The load as a workload: so many transactions of one session, prepared."""
    asked = replay_of(study, quick)
    assert asked is not None
    transactions = -(-asked.rows // asked.rows_per_commit)
    return replace(workload, builtin=None, duration_s=None, transactions=transactions, protocol="prepared")

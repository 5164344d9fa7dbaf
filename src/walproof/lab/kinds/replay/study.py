"""What a study of replay says beyond settings: its load, and factors that are not settings.

``data_checksums`` (on, off) is chosen at initdb, ``cache`` (warm, cold) and ``kernel_audit`` (off, quiet,
recording) before each trial. Everything else that varies is a setting; each server, primary or standby, gets
those that mean something to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import cast, get_args

from walproof.errors import StudyError
from walproof.facts import KernelAuditLevel, Replay, ReplayConditions, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.initdb_options import checksum_choices
from walproof.lab.standby_settings import OF_STANDBYS, Refused, refuse_settings
from walproof.lab.studyfile import Count, StudyTable

CHECKSUMS, CACHE, KERNEL_AUDIT = "data_checksums", "cache", "kernel_audit"
LEVELS: Mapping[str, tuple[str, ...]] = {
    CHECKSUMS: ("on", "off"),
    CACHE: ("warm", "cold"),
    KERNEL_AUDIT: get_args(KernelAuditLevel),
}


def _level(name: str, value: str) -> str:
    if value not in LEVELS[name]:
        raise StudyError(f'{name} cannot be "{value}"', hint=f"It is one of {', '.join(LEVELS[name])}.")
    return value


READERS: Mapping[str, Callable[[str], str]] = {name: partial(_level, name) for name in LEVELS}


OF_CPU = (
    "An emulated disk delays flushes; what is compared is the CPU of replay.",
    "Run the study without --device. Study synchronous-standby has a standby with a slow disk.",
)
"""Why no disk is emulated, and what does instead."""


class ReplayTable(StudyTable):
    """``[replay]``: each trial replays the WAL of that many inserted rows."""

    rows: Count = 200_000
    preloaded_rows: Count = 300_000
    rows_per_commit: Count = 500
    quick_rows: Count = 50_000


_DELAY = Refused(
    "recovery_min_apply_delay", None, "a standby does not replay all WAL at once", "Leave it out."
)


def refuse_checksum_options(asked: Asked) -> None:
    """Refuse data checksums among the options of initdb, where they are a condition. Raises StudyError."""
    if found := checksum_choices(asked.study.initdb):
        raise StudyError(
            f"initdb has {found[0]}, but data checksums are a condition of variants",
            detail="Every variant would have the same, whatever its data_checksums says.",
            hint=f"Leave it out of initdb; {CHECKSUMS} is on or off among the settings, or a factor.",
        )


def check_replay(asked: Asked) -> None:
    """Refuse what has no meaning in a study of replay. Raises StudyError."""
    study = asked.study
    if len(study.workload) != 1 or study.workload[0].script or study.workload[0].builtin:
        raise StudyError(
            "a study of replay has one workload, without scripts",
            detail="Its load is fixed: prepared INSERTs into five partitioned tables.",
        )
    asked.refuse_workload_keys(
        Replay.noun,
        "Its load is fixed: one session, which makes so many rows.",
        "[replay] says how many (rows) and how many of them a commit has (rows_per_commit).",
    )
    refuse_checksum_options(asked)
    asked.refuse_lengths(Replay.noun, "[replay] rows says how much is replayed.")
    asked.refuse_device(Replay.noun, *OF_CPU)
    refuse_settings(asked, (*OF_STANDBYS, _DELAY))


def conditions_of(settings: Mapping[str, str]) -> ReplayConditions:
    """The part of what was typed that is not a setting. Raises StudyError."""
    typed = {name: read(settings[name]) for name, read in READERS.items() if name in settings}
    return ReplayConditions(
        checksums=typed.get(CHECKSUMS) == "on",
        is_cold=typed.get(CACHE) == "cold",
        kernel_audit=cast("KernelAuditLevel", typed.get(KERNEL_AUDIT, "off")),
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

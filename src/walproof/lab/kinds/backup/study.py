"""What a study of backup says beyond settings: how each variant takes its backup, and which settings it must
not have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from walproof.errors import SettingError, StudyError, UnitError
from walproof.facts.kinds import (
    Backup,
    BackupCheckpoint,
    BackupCompression,
    BackupConditions,
    BackupMode,
)
from walproof.lab.asked import Asked
from walproof.lab.studyfile import Duration, StudyFile, StudyTable, VariantTable
from walproof.settings.catalogue import normalise
from walproof.units import parse_bytes

_SLOWEST_BYTES_PER_S, _FASTEST_BYTES_PER_S = 32 << 10, 1 << 30
"""Limits of pg_basebackup's --max-rate."""
_OF_THE_TRIAL = re.compile(
    r"archive_(?:mode|command|library|cleanup_command)|restore_command|recovery_(?:end_command|target.*)"
)
"""Settings by which each trial archives into a folder of its own, and restores to its own moment."""


def _rate(value: object) -> int:
    size, slash, per = str(value).rpartition("/")
    try:
        rate = parse_bytes(size if slash else "")
    except UnitError as error:
        raise ValueError(f'{error.message}; a rate looks like "32MB/s"') from None
    if per.strip() != "s" or not _SLOWEST_BYTES_PER_S <= rate <= _FASTEST_BYTES_PER_S:
        raise ValueError("expected a size per second from 32kB/s to 1GB/s, which pg_basebackup accepts")
    return rate


class BackupTable(StudyTable):
    """``[backup]``: each trial takes a base backup and restores it."""

    after: Duration = 5.0
    """Load after the backup, before the moment that is restored to."""
    quick_after: Duration = 2.0


class BackupOptions(StudyTable):
    """``[variant.backup]``: how a variant's backup is taken."""

    mode: BackupMode = "full"
    checkpoint: BackupCheckpoint = "fast"
    compress: BackupCompression = "none"
    rate: Annotated[int, BeforeValidator(_rate), WithJsonSchema({"type": "string"}, "validation")] | None = (
        None
    )
    load: bool = True


def check_backup(asked: Asked) -> None:
    """Refuse what has no meaning in a study of backup. Raises StudyError."""
    study = asked.study
    for workload in study.workload:
        if workload.script or workload.transactions is not None:
            raise StudyError(
                f'workload "{workload.name}" of a study of backup has '
                f"{'scripts' if workload.script else 'transactions'}",
                detail="Its load is pgbench's own, whose tables must add up once they are restored, and it "
                "goes on for as long as the backup takes.",
                hint="Name a builtin and a duration, which is that of the load before the backup.",
            )
    asked.refuse_device(Backup.noun, "An emulated disk delays writes and flushes; a backup reads.")
    shared = {**study.base, **asked.overrides.base}
    typed = [("every variant", shared)]
    typed += [(f'variant "{variant.name}"', variant.settings) for variant in study.variant]
    typed += [("a factor", {name: level}) for name, levels in study.factors.items() for level in levels]
    for where, settings in typed:
        for name, value in settings.items():
            _check_setting(where, name.lower(), value)
    _check_summaries(study, shared)


def _check_setting(where: str, name: str, value: str) -> None:
    if _OF_THE_TRIAL.fullmatch(name):
        raise StudyError(
            f"{where} sets {name}, which is the trial's",
            detail="Each trial archives into a folder of its own, and restores to a moment of its own.",
            hint="Leave it out.",
        )
    if _is(name, value, "wal_level", "minimal"):
        raise StudyError(
            f"{where} has wal_level=minimal, with which no base backup can be taken",
            hint="Use replica or logical.",
        )
    if _is(name, value, "max_wal_senders", "0"):
        raise StudyError(
            f"{where} has max_wal_senders=0, and pg_basebackup is a WAL sender's client", hint="Leave it out."
        )


def _check_summaries(study: StudyFile, shared: Mapping[str, str]) -> None:
    """An incremental backup is made from WAL summaries."""
    for variant in study.variant:
        complete = {**shared, **variant.settings}
        is_incremental = options_of(variant).mode == "incremental"
        if is_incremental and any(
            _is(name, value, "summarize_wal", "off") for name, value in complete.items()
        ):
            raise StudyError(
                f'variant "{variant.name}" is incremental and has summarize_wal=off',
                detail="WAL summaries say which blocks have changed since the full backup.",
                hint="Leave it out: incremental variants have it on.",
            )


def _is(name: str, value: str, wanted: str, forbidden: str) -> bool:
    if name.lower() != wanted:
        return False
    try:
        return normalise(name, value) == forbidden
    except SettingError:
        return False  # what no server takes is refused with all other settings


def options_of(variant: VariantTable | None) -> BackupOptions:
    """How a variant's backup is taken, as it was typed."""
    typed = None if variant is None else variant.find(BackupOptions)
    return typed or BackupOptions()


def conditions_of(options: BackupOptions) -> BackupConditions:
    """The same as facts."""
    return BackupConditions(
        options.mode, options.checkpoint, options.compress, options.rate, is_loaded=options.load
    )


def backup_of(table: BackupTable, quick: bool) -> Backup:
    """The plan's kind."""
    return Backup(table.quick_after if quick else table.after)

"""A study of backup, live: a base backup beside a load, and how long it takes to be back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from walproof.facts import Install, Plan, Variant
from walproof.facts.kinds import Backup, BackupConditions
from walproof.lab.asked import Asked
from walproof.lab.kind import LabKind, Length
from walproof.lab.kinds.backup.archive import ArchiveFolder
from walproof.lab.kinds.backup.programs import lack
from walproof.lab.kinds.backup.restoring import restore
from walproof.lab.kinds.backup.study import (
    BackupOptions,
    BackupTable,
    backup_of,
    check_backup,
    conditions_of,
    options_of,
)
from walproof.lab.kinds.backup.taking import take
from walproof.lab.pgbench_tables import prepare_tables
from walproof.lab.sizes import EMPTY_CLUSTER_BYTES, SCALE_BYTES, SEGMENTS_BYTES
from walproof.lab.studyfile import StudyFile, VariantTable
from walproof.lab.trial import Bench, Measured, TrialOrder, Trials

_BACKUP_S = 20.0
"""A backup of some hundred MB, its restoration and its recovery."""
_ARCHIVED_BYTES_PER_S = 50e6
"""More than pgbench's transaction writes for long."""
_TRANSACTION_WAL_BYTES = 64 << 10
"""Images of all pages that it changes."""
_BACKUP_BYTES_PER_S = 300e6
"""Where no rate is set."""


class BackupLab(LabKind[Backup]):
    """Each trial takes a base backup of a server that archives its WAL, and restores it to a moment."""

    kind = Backup
    tables: ClassVar = {"backup": BackupTable}
    variant_tables: ClassVar = {"backup": BackupOptions}
    hint_when_missing = (
        "Name an install that has the programs (Debian: postgresql-client), or make the variant optional."
    )

    def sign(self, study: StudyFile) -> str | None:
        """Its table."""
        return None if study.find(BackupTable) is None else "[backup]"

    def resolve(self, asked: Asked) -> Backup:
        """How long the load goes on after the backup."""
        check_backup(asked)
        return backup_of(asked.study.find(BackupTable) or BackupTable(), asked.quick)

    def variant(self, variant: Variant, kind: Backup, table: VariantTable | None) -> Variant:
        """The variant, with how its backup is taken."""
        return replace(variant, conditions=conditions_of(options_of(table)))

    def missing(self, variant: Variant, install: Install) -> str | None:
        """The programs that take, verify and combine backups."""
        return lack(variant.conditions_as(BackupConditions), install)

    def disk_bytes(self, plan: Plan, wal_bytes: int) -> int | None:
        """Room for a server, its backups, what is unpacked of them, the restored cluster, its WAL, and the
        archive, which keeps all of it."""
        sizes = [
            EMPTY_CLUSTER_BYTES + workload.scale * SCALE_BYTES + SEGMENTS_BYTES for workload in plan.workloads
        ]
        copies = max(_copies(variant.conditions_as(BackupConditions)) for variant in plan.variants)
        archived = max(wal_bytes, _archived_bytes(plan, max(sizes)))
        return len(plan.installs) * sum(sizes) + copies * max(sizes) + wal_bytes + archived

    def length(self, plan: Plan, length: Length) -> Length:
        """Windows, backups and what comes after them."""
        each_s = plan.kind_as(Backup).after_s + _BACKUP_S
        return replace(length, duration_s=length.duration_s + plan.rounds * len(plan.cells) * each_s)

    def prepare(self, bench: Bench) -> Trials:
        """pgbench's tables."""
        return BackupTrials(bench, prepare_tables(bench))


def _copies(conditions: BackupConditions) -> int:
    """The most data directories of a trial: the server's, its backups and the restored ones."""
    backups = 2 if conditions.mode == "incremental" else 1
    return 2 + (backups if conditions.compress == "none" else 2 * backups)


def _archived_bytes(plan: Plan, copied_bytes: int) -> int:
    """WAL of a trial, at most: of its load before the backup, meanwhile and afterwards."""
    rates = [variant.conditions_as(BackupConditions).rate_bytes_per_s for variant in plan.variants]
    slowest = min(rate or _BACKUP_BYTES_PER_S for rate in rates)
    most = 0.0
    for workload in plan.workloads:
        bytes_per_s = _ARCHIVED_BYTES_PER_S
        if workload.rate_tps is not None:
            bytes_per_s = min(bytes_per_s, workload.rate_tps * _TRANSACTION_WAL_BYTES)
        length_s = workload.warmup_s + (workload.duration_s or 0.0) + plan.kind_as(Backup).after_s
        most = max(most, bytes_per_s * (length_s + copied_bytes / slowest))
    return int(most)


@dataclass(frozen=True, slots=True)
class BackupTrials(Trials):
    """Trials that start from pgbench's tables."""

    bench: Bench
    tables: Mapping[tuple[str, str], Path]

    def run(self, order: TrialOrder, measured: Measured) -> None:
        """Take a backup beside the load; when its server is gone, restore it."""
        bench, number = self.bench, order.number
        workspace = bench.workspace
        folder = workspace.make_folder(f"backup-{number}")
        restored = workspace.make_folder(f"restored-{number}")
        archive = ArchiveFolder(folder / "wal", workspace.user)
        try:
            archive.make()
            template = self.tables[(order.install, order.workload)]
            with bench.cluster(order, f"trial-{number}", template, measured) as (cluster, _):
                taken = take(bench, order, cluster, folder, archive, measured)
            restore(bench, order, taken, restored, archive, measured)
        finally:
            workspace.remove_folder(folder)
            workspace.remove_folder(restored)

"""A study of failover, live: a pair whose primary dies under the ledger's load."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from walproof.facts import Failover, FailoverConditions, Install, Plan, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.between import lacks_tls
from walproof.lab.kind import LabKind
from walproof.lab.kinds.failover.fail_over import LAYOUTS, PairConditions, fail_over
from walproof.lab.kinds.failover.study import (
    READERS,
    FailoverTable,
    check_failover,
    failover_of,
    failover_workload,
    with_pair,
)
from walproof.lab.sizes import EMPTY_CLUSTER_BYTES, SEGMENTS_BYTES
from walproof.lab.studyfile import StudyFile, VariantTable
from walproof.lab.trial import Bench, Measured, TrialOrder, Trials
from walproof.settings.durability import DurabilityClass


class FailoverLab(LabKind[Failover]):
    """Each trial is a pair that loses its primary."""

    kind = Failover
    tables: ClassVar = {"failover": FailoverTable}
    conditions_among_settings = READERS
    takes_workload = False
    has_standbys: ClassVar = True
    has_synchronous_standby: ClassVar = True

    def sign(self, study: StudyFile) -> str | None:
        """Its table."""
        return None if study.find(FailoverTable) is None else "[failover]"

    def resolve(self, asked: Asked) -> Failover:
        """The load that the primary dies under."""
        check_failover(asked)
        return failover_of(asked.study.find(FailoverTable) or FailoverTable(), asked.quick)

    def workload(self, workload: Workload, kind: Failover, asked: Asked) -> Workload:
        """The ledger's sessions."""
        return failover_workload(workload, kind)

    def variant(self, variant: Variant, kind: Failover, table: VariantTable | None) -> Variant:
        """The variant, with what concerns its pair kept apart."""
        return with_pair(variant)

    def risk(self, variant: Variant, settings: Mapping[str, str]) -> DurabilityClass:
        """The last commits, where none of them waits for a standby that outlives its primary."""
        waits = settings.get("synchronous_commit") not in ("local", "off")
        is_lost = LAYOUTS[variant.conditions_as(FailoverConditions).standbys].lost_with_primary
        return DurabilityClass.NONE if waits and not is_lost else DurabilityClass.LAST_COMMITS

    def simulates_disk(self, plan: Plan) -> bool:
        """WAL of the primary, or only of a standby."""
        standbys = [variant.conditions_as(FailoverConditions).standby_device for variant in plan.variants]
        return any(device is not None for device in (plan.device, *standbys))

    def missing(self, variant: Variant, install: Install) -> str | None:
        """TLS, between hosts."""
        return lacks_tls(variant.conditions_as(FailoverConditions), install)

    def disk_bytes(self, plan: Plan, wal_bytes: int) -> int | None:
        """A primary and its standbys at a time."""
        empty = EMPTY_CLUSTER_BYTES + SEGMENTS_BYTES
        servers = 1 + max(variant.conditions_as(FailoverConditions).count for variant in plan.variants)
        return len(plan.installs) * empty + servers * (empty + wal_bytes)

    def prepare(self, bench: Bench) -> Trials:
        """Prepare nothing: every pair is made from scratch."""
        return _Trials(bench)


@dataclass(frozen=True, slots=True)
class _Trials(Trials):
    bench: Bench

    def run(self, order: TrialOrder, measured: Measured) -> None:
        bench = self.bench
        found = bench.variant(order).conditions_as(FailoverConditions)
        measured.window_start = time.time()
        conditions = PairConditions(
            distance_s=found.distance_s,
            bytes_per_s=found.bandwidth_bytes_per_s,
            device=bench.plan.device,
            standby_device=None if found.between_hosts else found.standby_device or bench.plan.device,
            standbys=found.standbys,
        )
        failover = bench.plan.kind_as(Failover)
        measured.add(
            "failover",
            fail_over(
                bench.workspace,
                bench.install(order),
                bench.settings(order),
                failover,
                conditions,
                order.number,
                bench.far_way() if found.between_hosts else None,
                bench.plan.initdb_options,
            ),
        )
        measured.window_s = measured.metrics["load_s"]

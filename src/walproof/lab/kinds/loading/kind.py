"""A study of loading, live: rows into a table, by one method or another."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from walproof.facts import Install, Load, LoadMethod, Plan, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.kind import LabKind
from walproof.lab.kinds.loading.cut import LoadCutLab, cut_load
from walproof.lab.kinds.loading.source import PreparedLoad, prepare_loads
from walproof.lab.kinds.loading.study import (
    LoadTable,
    MethodTable,
    check_load,
    load_of,
    load_workload,
    method_of,
    method_table,
    missing_for,
)
from walproof.lab.kinds.loading.table_load import TableLoad
from walproof.lab.power_cut.cut import draw_seed
from walproof.lab.studyfile import StudyFile, VariantTable
from walproof.lab.trial import Bench, Measured, TrialOrder, Trials
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.probe.server_settings import server_facts
from walproof.settings.durability import DurabilityClass

_LOADED_ROW_BYTES = 4 << 10
"""A generous estimate of the WAL of a loaded row with several indexes (bulk-load: 500 bytes)."""


class LoadingLab(LabKind[Load]):
    """Each trial loads rows into a table."""

    kind = Load
    tables: ClassVar = {"load": LoadTable}
    variant_tables: ClassVar = {"load": MethodTable}
    takes_workload = False
    moves_wal = True
    instead_of_additions = "[load] has its own crash and power_cut."

    def sign(self, study: StudyFile) -> str | None:
        """Its table."""
        return None if study.find(LoadTable) is None else "[load]"

    def resolve(self, asked: Asked) -> Load:
        """The table and its rows."""
        table = asked.study.find(LoadTable)
        assert table is not None
        check_load(asked.study, table)
        asked.refuse_lengths(Load.noun, "All rows are loaded; [load] rows says how many.")
        return load_of(table, asked.quick, asked.scripts)

    def workload(self, workload: Workload, kind: Load, asked: Asked) -> Workload:
        """As many sessions as the widest variant has."""
        return load_workload(workload, asked.study)

    def variant(self, variant: Variant, kind: Load, table: VariantTable | None) -> Variant:
        """The variant, with how it loads."""
        return replace(variant, conditions=method_of(method_table(table)))

    def missing(self, variant: Variant, install: Install) -> str | None:
        """What its method needs from the server or this machine."""
        reason = missing_for(variant.conditions_as(LoadMethod), install)
        return None if reason is None else f"PostgreSQL {install.label}: {reason}"

    def risk(self, variant: Variant, settings: Mapping[str, str]) -> DurabilityClass:
        """An unlogged table is emptied after a crash."""
        is_unlogged = "unlogged" in variant.conditions_as(LoadMethod).steps
        return DurabilityClass.TABLE if is_unlogged else DurabilityClass.NONE

    def loses_power(self, plan: Plan) -> bool:
        """Power is cut in the first round, if the study wants it."""
        return plan.kind_as(Load).power_cut > 0

    def wal_bytes(self, plan: Plan, wal_bytes: int) -> int:
        """A load ends long before it fills a large max_wal_size.

        The size of its rows is checked where they are prepared (walproof.lab.kinds.loading.source).
        """
        return min(wal_bytes, plan.kind_as(Load).rows * _LOADED_ROW_BYTES)

    def prepare(self, bench: Bench) -> Trials:
        """Rows and the empty table."""
        return _Trials(bench, bench.plan.kind_as(Load), prepare_loads(bench))


@dataclass(frozen=True, slots=True)
class _Trials(Trials):
    bench: Bench
    load: Load
    loads: Mapping[str, PreparedLoad]

    def run(self, order: TrialOrder, measured: Measured) -> None:
        """Run the variant's load. The first time, if the study wants it, there is one more whose server is
        killed, and one whose power is cut."""
        bench, load = self.bench, self.load
        prepared, settings = self.loads[order.install], self._settings(order)
        with bench.cluster(order, f"trial-{order.number}", prepared.folder, measured) as (cluster, _):
            cluster.start(settings)
            found, _ = server_facts(cluster.conninfo)
            measured.settings.update(found)
            measured.window_start = time.time()
            measured.add("load", self._table_load(order, cluster).measure(bench.plan.probes))
            measured.window_s = measured.metrics["load_s"]
        if load.crash and order.is_first:
            with (
                measured.added("crash"),
                bench.cluster(order, f"crash-{order.number}", prepared.folder, measured) as (cluster, _),
            ):
                cluster.start(settings)
                measured.add("crash", self._table_load(order, cluster).break_off(settings))
        if load.power_cut and order.is_first:
            lab = LoadCutLab(bench.workspace, bench.install(order), prepared, load)
            method = bench.variant(order).conditions_as(LoadMethod)
            seed = draw_seed(bench.plan.seed, order.install, order.variant)
            with measured.added("cut"):
                measured.add("cut", cut_load(lab, method, settings, order.number, seed))

    def forget(self) -> None:
        """Remove the rows that were prepared, which are as large as the user's own."""
        for prepared in self.loads.values():
            templates.forget(self.bench.workspace, prepared.folder)

    def _settings(self, order: TrialOrder) -> dict[str, str]:
        return {"log_checkpoints": "on", **self.bench.settings(order)}

    def _table_load(self, order: TrialOrder, cluster: Cluster) -> TableLoad:
        method = self.bench.variant(order).conditions_as(LoadMethod)
        return TableLoad(cluster, self.loads[order.install], self.load, method)

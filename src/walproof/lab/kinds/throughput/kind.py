"""A study of throughput, live: pgbench's load in a window, and a crash or a power cut after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from walproof.disk.simulated import SimulatedDisk
from walproof.errors import StudyError
from walproof.facts import Crash, CutConditions, Design, Plan, Throughput, Variant
from walproof.lab.asked import Asked
from walproof.lab.initdb_options import segment_mb_of
from walproof.lab.kind import LabKind, Length
from walproof.lab.kinds.power_cuts.study import (
    CutTable,
    PowerCutTable,
    conditions_of,
    refuse_initdb_settings,
)
from walproof.lab.kinds.throughput.copies import Copies
from walproof.lab.kinds.throughput.sliced import take_turns
from walproof.lab.kinds.throughput.study import CrashTable, added_to
from walproof.lab.kinds.throughput.toggled import toggle
from walproof.lab.kinds.throughput.window import measure_window
from walproof.lab.pgbench_tables import open_server, prepare_tables
from walproof.lab.power_cut.cut import SEGMENT_MB
from walproof.lab.power_cut.trials import CUT_S, IMAGE_S, PowerCutTrials, prepare_cuts
from walproof.lab.recovery.trial import crash_and_recover, predict_variants
from walproof.lab.studyfile import StudyFile, VariantTable
from walproof.lab.trial import Bench, Measured, TrialOrder, Trials
from walproof.postgres.cluster import Cluster
from walproof.settings.durability import DurabilityClass

_ALL_WAL = "1TB"


class ThroughputLab(LabKind[Throughput]):
    """Each trial measures a window of pgbench's load."""

    kind = Throughput
    tables: ClassVar = {"crash": CrashTable, "power_cut": PowerCutTable}
    variant_tables: ClassVar = {"cut": CutTable}
    moves_wal = True
    toggles = True
    cuts_on_request = True

    def sign(self, study: StudyFile) -> str | None:
        """A study is of throughput if nothing says otherwise."""
        return None

    def resolve(self, asked: Asked) -> Throughput:
        """The kind, with the crash or the power cut that is asked for."""
        kind = Throughput(added_to(asked))
        if kind.cut_images:
            refuse_initdb_settings(asked)
            return kind
        for variant in asked.study.variant:
            if variant.find(CutTable) is not None:
                raise StudyError(
                    f'variant "{variant.name}" has [variant.cut], but the study has no power cuts',
                    hint="Add [power_cut] to the study, or --power-cut N to the command.",
                )
        return kind

    def variant(self, variant: Variant, kind: Throughput, table: VariantTable | None) -> Variant:
        """The variant, with the disk under its power cuts, if it has any."""
        if not kind.cut_images:
            return variant
        typed = None if table is None else table.find(CutTable)
        return replace(variant, conditions=conditions_of(typed or CutTable()))

    def risk(self, variant: Variant, settings: Mapping[str, str]) -> DurabilityClass:
        """Unlogged tables are emptied after a crash."""
        is_unlogged = variant.conditions_as(CutConditions).unlogged
        return DurabilityClass.TABLE if is_unlogged else DurabilityClass.NONE

    def loses_power(self, plan: Plan) -> bool:
        """WAL of the server that is measured, or of another one after it."""
        crash = plan.kind.added_crash
        return plan.kind.cut_images > 0 or (crash is not None and crash.power_cut)

    def segment_mb(self, kind: Throughput, initdb_options: Sequence[str]) -> int:
        """The larger of those of windows and of power cuts."""
        own = segment_mb_of(initdb_options)
        return max(own, SEGMENT_MB) if kind.cut_images else own

    def length(self, plan: Plan, length: Length) -> Length:
        """Windows, and power cuts after them."""
        if not plan.kind.cut_images:
            return length
        cuts_s = plan.rounds * len(plan.cells) * (CUT_S + plan.kind.cut_images * IMAGE_S)
        return replace(length, duration_s=length.duration_s + cuts_s)

    def prepare(self, bench: Bench) -> Trials:
        """pgbench's tables, and clusters for power cuts if the study has them."""
        cuts = prepare_cuts(bench) if bench.plan.kind.cut_images else None
        return _Trials(bench, prepare_tables(bench), cuts, Copies(bench.workspace))


@dataclass(frozen=True, slots=True)
class _Trials(Trials):
    bench: Bench
    tables: Mapping[tuple[str, str], Path]
    cuts: PowerCutTrials | None
    copies: Copies

    def run(self, order: TrialOrder, measured: Measured) -> None:
        bench, crash = self.bench, self.bench.plan.kind.added_crash
        if bench.variant(order).design is Design.SLICED:
            take_turns(bench, order, self.tables, measured, self.copies)
            return
        template = self.tables[(order.install, order.workload)]
        can_lose_power = crash is not None and crash.power_cut
        with bench.cluster(
            order, f"trial-{order.number}", template, measured, can_lose_power=can_lose_power
        ) as (cluster, disk):
            if bench.variant(order).design is Design.TOGGLED:
                toggle(bench, order, cluster, measured)
                return
            keeping = {"wal_keep_size": _ALL_WAL} if crash is not None and crash.predict else {}
            open_server(bench, order, cluster, keeping, measured)
            measure_window(bench, order, cluster, measured)
            if crash is not None:
                with measured.added("crash"):
                    self._crash(order, cluster, crash, disk, measured)
        if self.cuts is not None:
            with measured.added("power cut"):
                self.cuts.cut(order, measured)

    def test_itself(self) -> dict[str, str]:
        return {} if self.cuts is None else self.cuts.test_itself()

    def _crash(
        self,
        order: TrialOrder,
        cluster: Cluster,
        crash: Crash,
        disk: SimulatedDisk | None,
        measured: Measured,
    ) -> None:
        plan, settings = self.bench.plan, self.bench.settings(order)
        measured.add("recovery", crash_and_recover(cluster, self.bench.workspace, settings, crash, disk))
        if crash.predict and measured.wal_start is not None:
            # Predicted from the baseline alone; of the others only the bytes that they wrote are kept.
            every = {
                variant.name: plan.settings_of(variant)
                for variant in plan.variants
                if order.variant == plan.baseline
            }
            wal = cluster.data / "pg_wal"
            measured.add("what-if", predict_variants(wal, measured.wal_start, every))

"""A study of power cuts, live: each trial is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from walproof.facts import CutConditions, Plan, PowerCuts, Variant
from walproof.lab.asked import Asked
from walproof.lab.kind import LabKind, Length
from walproof.lab.kinds.power_cuts.study import (
    CutTable,
    PowerCutTable,
    conditions_of,
    refuse_initdb_settings,
)
from walproof.lab.power_cut.cut import SEGMENT_MB
from walproof.lab.power_cut.trials import CUT_S, IMAGE_S, PowerCutTrials, prepare_cuts
from walproof.lab.studyfile import StudyFile, VariantTable
from walproof.lab.trial import Bench, Measured, TrialOrder, Trials
from walproof.settings.durability import DurabilityClass


class PowerCutsLab(LabKind[PowerCuts]):
    """Each trial is a power cut."""

    kind = PowerCuts
    tables: ClassVar = {"power_cut": PowerCutTable}
    variant_tables: ClassVar = {"cut": CutTable}
    works_in_memory = True
    cuts_on_request = True

    def sign(self, study: StudyFile) -> str | None:
        """Power cuts are a kind of their own if ``only`` is set; else they are added to a study of
        throughput."""
        table = study.find(PowerCutTable)
        return "[power_cut] only" if table is not None and table.only else None

    def resolve(self, asked: Asked) -> PowerCuts:
        """The number of images is that of the command line, or else of the file."""
        refuse_initdb_settings(asked)
        asked.refuse_lengths(PowerCuts.noun, "A cut comes at a moment that is drawn from the seed.")
        asked.refuse_device(
            PowerCuts.noun,
            "Power is cut on a simulated disk in memory, which takes no time.",
            "Leave it out; beside throughput (compare --power-cut) it is that of the windows.",
        )
        table = asked.study.find(PowerCutTable) or PowerCutTable()
        return PowerCuts(asked.overrides.power_cut_images or table.images)

    def variant(self, variant: Variant, kind: PowerCuts, table: VariantTable | None) -> Variant:
        """The variant, with the disk under it."""
        typed = None if table is None else table.find(CutTable)
        return replace(variant, conditions=conditions_of(typed or CutTable()))

    def risk(self, variant: Variant, settings: Mapping[str, str]) -> DurabilityClass:
        """Unlogged tables are emptied after a crash."""
        is_unlogged = variant.conditions_as(CutConditions).unlogged
        return DurabilityClass.TABLE if is_unlogged else DurabilityClass.NONE

    def segment_mb(self, kind: PowerCuts, initdb_options: Sequence[str]) -> int:
        """That of the clusters whose power is cut."""
        return SEGMENT_MB

    def length(self, plan: Plan, length: Length) -> Length:
        """There is no window, only a cut and its images."""
        trials = plan.rounds * len(plan.cells)
        return Length(0.0, trials * (CUT_S + plan.kind.cut_images * IMAGE_S))

    def prepare(self, bench: Bench) -> Trials:
        """Clusters that power cuts start from."""
        return _Trials(prepare_cuts(bench))


@dataclass(frozen=True, slots=True)
class _Trials(Trials):
    cuts: PowerCutTrials

    def run(self, order: TrialOrder, measured: Measured) -> None:
        self.cuts.cut(order, measured)
        assert measured.cut is not None
        measured.window_s = measured.cut.load_s

    def test_itself(self) -> dict[str, str]:
        return self.cuts.test_itself()

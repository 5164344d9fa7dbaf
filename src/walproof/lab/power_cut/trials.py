"""Power cuts as trials, or after them: what they start from, and the facts that they leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from walproof.facts import CutConditions
from walproof.lab.power_cut.cut import (
    CutLab,
    CutOrder,
    cut_initdb_options,
    cut_metrics,
    cut_power,
    draw_seed,
    prepare_cut_template,
)
from walproof.lab.power_cut.self_test import run_self_test
from walproof.lab.trial import Bench, Measured, TrialOrder
from walproof.postgres.build import has_extension

CUT_S = 2.0
IMAGE_S = 0.5
"""Seconds of a power cut with its load, and of each of its images, with small clusters (2 cores)."""


@dataclass(frozen=True, slots=True)
class PowerCutTrials:
    """The power cuts of a plan that has them."""

    bench: Bench
    labs: Mapping[tuple[str, str, bool], CutLab]
    """(install, workload, whether it has checksums) -> what its power cuts start from."""

    def test_itself(self) -> dict[str, str]:
        """Test the simulator before every campaign, also a resumed one, since a failure could be its own.
        Raises DiskError."""
        self.bench.progress.preparing("self-test of the power cuts")
        lab = next(lab for (_, _, has_checksums), lab in self.labs.items() if has_checksums)
        return {"self_test": run_self_test(lab)}

    def cut(self, order: TrialOrder, measured: Measured) -> None:
        """One power cut of that trial. Raises DiskError when it is void, ClusterError or WorkloadError."""
        bench = self.bench
        conditions = bench.variant(order).conditions_as(CutConditions)
        cut = cut_power(
            self.labs[(order.install, order.workload, conditions.checksums)],
            CutOrder(
                seed=draw_seed(bench.plan.seed, order.round, order.install, order.workload, order.variant),
                settings=bench.settings(order),
                conditions=conditions,
                images=bench.plan.kind.cut_images,
                workload=bench.workload(order),
                keep=bench.keep_failures,
            ),
        )
        measured.cut = cut
        measured.metrics.update(cut_metrics(cut))


def prepare_cuts(bench: Bench) -> PowerCutTrials:
    """Clusters that power cuts start from. Raises ClusterError or WorkloadError."""
    labs: dict[tuple[str, str, bool], CutLab] = {}
    every = [variant.conditions_as(CutConditions) for variant in bench.plan.variants]
    for label, install in bench.installs.items():
        has_amcheck = has_extension(install, "amcheck")
        for workload in bench.plan.workloads:
            needed = {cut.checksums: cut for cut in every}
            if not labs:
                # The self-test tells torn pages by their checksums.
                needed.setdefault(True, CutConditions())
            for conditions in needed.values():
                bench.progress.preparing(f"clusters for power cuts on PostgreSQL {label}")
                options = cut_initdb_options(install, conditions, bench.plan.initdb_options)
                template = prepare_cut_template(bench.workspace, install, options, bench.pgbench, workload)
                labs[(label, workload.name, conditions.checksums)] = CutLab(
                    bench.workspace, install, bench.pgbench, template, has_amcheck, workload.is_pgbenchs_own
                )
    return PowerCutTrials(bench, labs)

"""Seeded slices, as the lab would store them, with what real ones have: drift, spells, bad seconds."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace

from tests.facts import plans
from walproof.facts import Design, Plan, Slice, Toggling, Trial, Variant
from walproof.lab.slice_order import slice_orders

LENGTH_S = 0.3
CHECKPOINT_S = 1.5
STARTS = 8
"""Of builds, or versions of a load, that take turns."""


def toggled_plan(*names: str, passes: int = 40, starts: int = 2) -> Plan:
    """A plan whose variants are all toggled; the first is the baseline."""
    variants = tuple(Variant(name, {}, design=Design.TOGGLED, design_reason="a reload") for name in names)
    toggling = Toggling(names[0], starts, passes, LENGTH_S, 0.03)
    return replace(
        plans.plan(), variants=variants, baseline=names[0], rounds=starts, toggling=toggling, probes=()
    )


def start(
    plan: Plan,
    number: int,
    rng: random.Random,
    *,
    effects: Mapping[str, float] | None = None,
    own_effects: Mapping[str, float] | None = None,
    left: Mapping[str, float] | None = None,
    noise: float = 0.1,
    stalls: float = 0.01,
) -> Trial:
    """One start: log effects of variants, those of this start, and what each leaves to the next slice.

    Noise is an autoregressive walk through the slices, and so many of them stall for most of their length.
    """
    assert plan.toggling is not None
    effects, own_effects, left = effects or {}, own_effects or {}, left or {}
    names = [variant.name for variant in plan.toggled]
    slices: list[Slice] = []
    at, lsn, spell, before = 1000.0 * number, 1 << 30, 0.0, None
    for pass_number, order in enumerate(
        slice_orders(names, plan.toggling.passes, f"{plan.seed}/{number}"), 1
    ):
        for position, name in enumerate(order, 1):
            spell = 0.6 * spell + rng.gauss(0, noise)
            log = spell + effects.get(name, 0.0) + own_effects.get(name, 0.0) + left.get(before or "", 0.0)
            log += 0.1 * math.sin(pass_number / 7)
            count = round(300 * math.exp(log) * (0.1 if rng.random() < stalls else 1.0))
            slices.append(
                Slice(
                    number=len(slices) + 1,
                    pass_number=pass_number,
                    position=position,
                    variant=name,
                    predecessor=before,
                    began_at=at,
                    ended_at=at + LENGTH_S,
                    lsn_begin=lsn,
                    lsn_end=lsn + 5000 * count,
                    transactions=count,
                    latency_ms_sum=1200.0,
                    latency_ms_p50=3.9,
                    latency_ms_p95=6.0,
                    latency_ms_p99=9.0,
                    cpu_s=0.4,
                )
            )
            at, lsn, before = at + LENGTH_S + 0.035, lsn + 5200 * count, name
    trial = plans.trial(number, round_number=number, variant=plan.toggling.baseline)
    return replace(trial, slices=tuple(slices), metrics={"tps": 900.0, "since_checkpoint_s": CHECKPOINT_S})


def taking_turns(plan: Plan, names: tuple[str, str], effect: float) -> tuple[Plan, list[Trial]]:
    """The plan with its only variant sliced, and starts whose second name has that log effect."""
    variants = tuple(replace(variant, design=Design.SLICED, design_reason="so") for variant in plan.variants)
    slicing = Toggling(plan.baseline, STARTS, 8, LENGTH_S, 0.05)
    plan = replace(plan, variants=variants, rounds=STARTS, slicing=slicing, probes=())
    rng, cut = random.Random(2), toggled_plan(*names, passes=8)
    (own,) = plan.round_cells(1)
    made = [
        start(cut, number, rng, effects={names[1]: effect}, noise=0.03) for number in range(1, STARTS + 1)
    ]
    return plan, [
        replace(trial, install=own.install, workload=own.workload, variant=own.variant) for trial in made
    ]

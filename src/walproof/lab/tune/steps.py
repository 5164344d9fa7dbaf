"""A step of a search as an ordinary run. ``facts/tuning_answers.py`` reads the answers from its trials."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from walproof.facts import Plan
from walproof.facts.tuning import Candidate, Objective, Purpose, Step, TuningFacts
from walproof.lab.tune.load import PlanOrder, TuningLoad, plan_of

TIME_AWAY = "recovery_s"
"""The objective for which every trial ends in a crash."""
_SPEEDS = (0.5, 4.0)
"""Bounds of the speed by which a run is shortened or stretched to have as many transactions as recorded."""
OF_SLICES = frozenset(("tps", "latency_ms_p99", "wal_bytes_per_txn"))
"""The metrics that a slice of a toggled server has."""


def speed_of(candidate: Candidate, facts: TuningFacts) -> float:
    """Transactions per second of the candidate as a ratio to those recorded, as far as measured.

    1 at an offered rate, and if something else than throughput was measured. A limit is judged at this speed,
    whatever it is; ``run_speed`` is for the length of a run.
    """
    recording = {step.number for step in facts.steps if step.purpose is Purpose.RECORD}
    recorded = [row.value for row in facts.measured if row.step in recording and row.value]
    seen = [
        row.value
        for row in facts.measured
        if row.candidate == candidate and row.step not in recording and row.device is None and row.value
    ]
    if facts.plan.objective.metric != "tps" or not recorded or not seen:
        return 1.0
    return median(seen) / recorded[0]


def run_speed(candidate: Candidate, facts: TuningFacts) -> float:
    """Speed by which a run is made shorter or longer, to have about as many transactions as recorded."""
    least, most = _SPEEDS
    return min(most, max(least, speed_of(candidate, facts)))


def step_plan(
    load: TuningLoad,
    name: str,
    keep: Mapping[str, str],
    objective: Objective,
    step: Step,
    crash_s: float | None = None,
) -> Plan:
    """The plan of a step. ``name``: the tuning's name; ``crash_s``: length of a load that ends in a crash.

    Raises StudyError, SettingError.
    """
    is_crash = step.purpose is Purpose.CRASH
    # Toggling needs at least two candidates.
    toggled = step.design == "toggled" and objective.metrics <= OF_SLICES and len(set(step.candidates)) > 1
    return plan_of(
        load,
        PlanOrder(
            study=f"{name}-{step.number}",
            title=step.why or f"Step {step.number} of tuning {name}: {step.purpose.value}",
            candidates=step.candidates,
            keep=keep,
            rounds=step.rounds,
            seed=step.seed,
            toggled=toggled and not is_crash,
            # What a faster flush gives is the objective alone: a crash has no emulated disks besides its own.
            crash=is_crash or (TIME_AWAY in objective.metrics and not step.devices),
            devices=step.devices,
            duration_s=crash_s if is_crash else None,
        ),
    )

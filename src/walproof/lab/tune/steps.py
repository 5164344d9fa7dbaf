"""A step of a search as an ordinary run. What its trials answer is in ``facts/tuning_answers.py``."""

from __future__ import annotations

from collections.abc import Mapping

from walproof.facts import Plan
from walproof.facts.tuning import Objective, Purpose, Step
from walproof.lab.tune.load import Asked, Load, plan_of

TIME_AWAY = "recovery_s"
"""The objective whose every trial ends in a crash."""
_OF_SLICES = ("tps", "latency_ms_p99", "wal_bytes_per_txn")


def step_plan(
    load: Load,
    name: str,
    keep: Mapping[str, str],
    objective: Objective,
    step: Step,
    crash_s: float | None = None,
) -> Plan:
    """The plan of a step. ``name`` is the tuning's; ``crash_s`` the length of a load that ends in a crash.

    Raises StudyError, SettingError.
    """
    is_crash = step.purpose is Purpose.CRASH
    measured = {objective.metric, *(() if objective.limit is None else (objective.limit[0],))}
    # A candidate alone has nobody to be toggled with.
    toggled = step.design == "toggled" and measured <= set(_OF_SLICES) and len(set(step.candidates)) > 1
    return plan_of(
        load,
        Asked(
            study=f"{name}-{step.number}",
            title=step.why or f"Step {step.number} of tuning {name}: {step.purpose.value}",
            candidates=step.candidates,
            keep=keep,
            rounds=step.rounds,
            seed=step.seed,
            toggled=toggled and not is_crash,
            crash=is_crash or TIME_AWAY in measured,
            devices=step.devices,
            duration_s=crash_s if is_crash else None,
        ),
    )

"""A step of a search as an ordinary run, and its trials as answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from walproof.facts import Plan, Slice, Trial, TrialState
from walproof.facts.tuning import Candidate, Measured, Objective, Purpose, Step
from walproof.lab.tune.load import Asked, Load, names, plan_of

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
            duration_s=crash_s if is_crash else None,
        ),
    )


def answers(plan: Plan, step: Step, objective: Objective, trials: Sequence[Trial]) -> tuple[Measured, ...]:
    """What the trials of the step's run say. Of toggled settings each start is a round."""
    known = names(step.candidates)
    found: list[Measured] = []
    for trial in sorted(trials, key=lambda one: one.number):
        if trial.slices:
            found += _of_slices(step, objective, trial, known)
        elif plan.toggling is not None and trial.state is not TrialState.DONE:
            found += [
                Measured(step.number, trial.round, one, None, failure=trial.reason) for one in known.values()
            ]
        else:
            found.append(_of_trial(step, objective, trial, known[trial.variant]))
    return tuple(found)


def _of_trial(step: Step, objective: Objective, trial: Trial, candidate: Candidate) -> Measured:
    second = None if objective.limit is None else objective.limit[0]
    value = trial.metrics.get(objective.metric) if trial.state is TrialState.DONE else None
    failure = trial.reason
    if trial.state is TrialState.DONE and value is None:
        failure = "; ".join(trial.warnings) or f"{objective.metric} was not measured"
    return Measured(
        step=step.number,
        round=trial.round,
        candidate=candidate,
        value=value,
        limit_value=None if second is None or value is None else trial.metrics.get(second),
        failure=failure,
        seconds=trial.ended_at - trial.started_at,
    )


def _of_slices(
    step: Step, objective: Objective, trial: Trial, known: Mapping[str, Candidate]
) -> list[Measured]:
    """Of each candidate all slices of a start together."""
    second = None if objective.limit is None else objective.limit[0]
    seconds = (trial.ended_at - trial.started_at) / len(known)
    found = []
    for name, candidate in known.items():
        figures = _together([one for one in trial.slices if one.variant == name])
        value = figures.get(objective.metric)
        found.append(
            Measured(
                step.number,
                trial.round,
                candidate,
                value,
                None if second is None else figures.get(second),
                None if value is not None else "no transaction ended within its slices",
                seconds,
            )
        )
    return found


def _together(slices: Sequence[Slice]) -> dict[str, float]:
    """The objectives over some slices; without transactions none of them is known."""
    transactions = sum(one.transactions for one in slices)
    if not transactions:
        return {}
    found = {
        "tps": transactions / sum(one.length_s for one in slices),
        "wal_bytes_per_txn": sum(one.lsn_end - one.lsn_begin for one in slices) / transactions,
    }
    tails = [one.latency_ms_p99 for one in slices if one.latency_ms_p99 is not None]
    return found | ({"latency_ms_p99": median(tails)} if tails else {})

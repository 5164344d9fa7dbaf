"""The answers of a tuning's stored trials to its steps, for the lab and for readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from walproof.facts.plan import Plan
from walproof.facts.run import Slice, Trial, TrialState
from walproof.facts.store import Store
from walproof.facts.tuning import DEFAULT, Candidate, Objective, Purpose, Step, TrialAnswer, TuningFacts
from walproof.facts.tuning_journal import Journal, StepTaken


def candidate_name(candidate: Candidate) -> str:
    """The candidate's name in reports: ``commit_delay=50, wal_compression=lz4``, or ``default``."""
    return ", ".join(f"{name}={value}" for name, value in candidate.settings) or "default"


def device_name(device: str) -> str:
    """Name of the variant on an emulated disk: ``on flush=0.5ms``."""
    return f"on {device}"


def tuning_facts(journal: Journal, store: Store, trial_s: float | None) -> TuningFacts:
    """What a search is told: the finished steps with their answers. Raises StoreError.

    ``trial_s``: estimated wall time of a trial, used until some have been measured.
    """
    measured: list[TrialAnswer] = []
    steps = [step for step in journal.steps if step.finished]
    for step in steps:
        measured += step_answers(journal, step, store)
    return TuningFacts(
        plan=journal.plan,
        steps=tuple(step.step for step in steps),
        measured=tuple(measured),
        spent_s=sum(step.seconds for step in steps) + journal.asking_s,
        trial_s=_trial_s(steps, measured) or trial_s,
        notes=journal.notes,
        answer_s=journal.answer_s,
    )


def step_answers(journal: Journal, taken: StepTaken, store: Store) -> tuple[TrialAnswer, ...]:
    """The answers of a finished step. Raises StoreError."""
    objective = journal.plan.objective
    if taken.step.purpose is Purpose.RECORD:
        assert journal.recorded is not None
        value = journal.recorded.metrics.get(objective.metric)
        failure = None if value is not None else f"{objective.metric} was not measured"
        return (TrialAnswer(taken.step.number, 1, DEFAULT, value, failure=failure, seconds=taken.seconds),)
    found: list[TrialAnswer] = []
    for name in taken.runs:
        host = next((host_run.host for host_run in taken.hosts if host_run.run == name), None)
        run = store.run(name)
        before = max((answer.round for answer in found), default=0)
        found += [
            replace(answer, round=before + answer.round, host=host)
            for answer in answers(run.plan, taken.step, objective, store.trials(run.id))
        ]
    return tuple(found)


def _trial_s(steps: Sequence[StepTaken], measured: Sequence[TrialAnswer]) -> float | None:
    """Mean wall time of a trial on a fresh server, including its share of the step's preparation."""
    fresh = [
        step
        for step in steps
        if step.step.design == "fresh"
        and step.step.purpose not in (Purpose.RECORD, Purpose.CRASH, Purpose.FLUSH)
    ]
    width = {step.step.number: max(1, len(step.hosts)) for step in fresh}
    # Hosts work in parallel.
    count = sum(1 / width[trial.step] for trial in measured if trial.step in width)
    return sum(step.seconds for step in fresh) / count if count else None


def answers(plan: Plan, step: Step, objective: Objective, trials: Sequence[Trial]) -> tuple[TrialAnswer, ...]:
    """The answers of the trials of the step's run. With toggled settings each start is a round."""
    known = {candidate_name(candidate): candidate for candidate in step.candidates}
    on_device = {device_name(device): device for device in step.devices}
    found: list[TrialAnswer] = []
    for trial in sorted(trials, key=lambda trial: trial.number):
        if trial.slices:
            found += _of_slices(step, objective, trial, known)
        elif plan.toggling is not None and trial.state is not TrialState.DONE:
            found += [
                TrialAnswer(step.number, trial.round, candidate, None, failure=trial.reason)
                for candidate in known.values()
            ]
        else:
            device = on_device.get(trial.variant)
            candidate = step.candidates[0] if device is not None else known[trial.variant]
            found.append(replace(_of_trial(step, objective, trial, candidate), device=device))
    return tuple(found)


def _of_trial(step: Step, objective: Objective, trial: Trial, candidate: Candidate) -> TrialAnswer:
    second = None if objective.limit is None else objective.limit[0]
    value = trial.metrics.get(objective.metric) if trial.state is TrialState.DONE else None
    failure = trial.reason
    if trial.state is TrialState.DONE and value is None:
        failure = "; ".join(trial.warnings) or f"{objective.metric} was not measured"
    return TrialAnswer(
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
) -> list[TrialAnswer]:
    """One answer for each candidate, from all of its slices of a start together."""
    second = None if objective.limit is None else objective.limit[0]
    seconds = (trial.ended_at - trial.started_at) / len(known)
    found = []
    for name, candidate in known.items():
        figures = _together([slice_ for slice_ in trial.slices if slice_.variant == name])
        value = figures.get(objective.metric)
        found.append(
            TrialAnswer(
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
    """The objectives over some slices; empty if there were no transactions."""
    transactions = sum(slice_.transactions for slice_ in slices)
    if not transactions:
        return {}
    found = {
        "tps": transactions / sum(slice_.length_s for slice_ in slices),
        "wal_bytes_per_txn": sum(slice_.lsn_end - slice_.lsn_begin for slice_ in slices) / transactions,
    }
    tails = [slice_.latency_ms_p99 for slice_ in slices if slice_.latency_ms_p99 is not None]
    return found | ({"latency_ms_p99": median(tails)} if tails else {})

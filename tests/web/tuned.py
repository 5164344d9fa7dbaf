"""A tuning of a known truth in a folder of results: journal, runs of its steps, and the answer so far."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.facts.plans import ENVIRONMENT, plan, trial
from walproof.facts import Trial, TrialState, Variant
from walproof.facts.store import Store
from walproof.facts.tuning import Purpose, Step, TuningFacts
from walproof.facts.tuning_answers import candidate_name
from walproof.facts.tuning_journal import Journal, JournalFile, RecordedFacts, StepTaken
from walproof.settings.durability import DurabilityClass

NAME = "tune-shop-1"


def put_tuning(
    out: Path, facts: TuningFacts, *, pending: Step | None = None, load: str = "shop <b>"
) -> Journal:
    """The tuning as far as the facts; ``pending``: a step whose run has begun and has no trial yet."""
    store = Store(out / "walproof.sqlite")
    recorded = RecordedFacts({"tps": 1000.0, "wal_bytes_per_txn": 8000.0}, {}, 1 << 24, 60.0)
    taken = []
    for step in facts.steps:
        run = None if step.purpose is Purpose.RECORD else _put_run(store, facts, step)
        taken.append(StepTaken(step, run, 20.0, finished=True))
    if pending is not None:
        _put_run(store, facts, pending, is_over=False)
        taken.append(StepTaken(pending))
    store.close()
    journal = Journal(
        NAME, facts.plan, load, ("walproof", "tune"), "18.4", None, recorded, tuple(taken),
        finished=pending is None,
    )  # fmt: skip
    return JournalFile(out / "tunings" / NAME).write(journal)


def _put_run(store: Store, facts: TuningFacts, step: Step, *, is_over: bool = True) -> str:
    names = [candidate_name(candidate) for candidate in step.candidates]
    variants = tuple(Variant(name, {}, durability=DurabilityClass.NONE) for name in names)
    asked = replace(
        plan(rounds=step.rounds), study=f"{NAME}-{step.number}", title=step.why or "a step",
        variants=variants, baseline=names[0], seed=step.seed,
    )  # fmt: skip
    run = store.add_run(asked, ("walproof", "tune"), ENVIRONMENT, "0.1.0")
    answered = [trial for trial in facts.measured if trial.step == step.number]
    for number, answer in enumerate(answered, 1):
        done = trial(number, round_number=answer.round, variant=candidate_name(answer.candidate))
        store.add_trial(run.id, _with(done, answer.value))
    if is_over:
        store.finish_run(run.id)
    return run.id


def _with(done: Trial, value: float | None) -> Trial:
    if value is None:
        return replace(done, state=TrialState.FAILED, reason="it did not start", metrics={})
    return replace(done, metrics={"tps": value})

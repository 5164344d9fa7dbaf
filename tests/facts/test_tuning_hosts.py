"""A tuning's step that two hosts measured: ratios stay inside a host, time is that of both at once."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.tuning.synthetic import DELAY, plan_of
from tests.facts.plans import ENVIRONMENT, plan, trial
from walproof.analysis.tuning.budget import BudgetClock
from walproof.analysis.tuning.values import mean_log, objective_values
from walproof.facts import Variant
from walproof.facts.codec import from_json, to_json
from walproof.facts.store import Store
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, Step
from walproof.facts.tuning_answers import candidate_name, tuning_facts
from walproof.facts.tuning_journal import HostRun, Journal, RecordedFacts, StepTaken, journal_file
from walproof.settings.durability import DurabilityClass

QUICK = Candidate.of({"commit_delay": "100"})
SPEEDS = {"elm": (1000.0, 1.2), "oak": (100.0, 1.3)}
"""tps of the default on a host, and what the candidate makes of it."""
TRIAL_S = 10.0


def _run(store: Store, host: str, step: Step) -> HostRun:
    names = [candidate_name(candidate) for candidate in step.candidates]
    variants = tuple(Variant(name, {}, durability=DurabilityClass.NONE) for name in names)
    asked = replace(
        plan(rounds=step.rounds), study=f"tune-shop-1-{step.number}", variants=variants, baseline=names[0]
    )
    run = store.add_run(asked, ("walproof", "tune"), ENVIRONMENT, "0.2.0")
    tps, gain = SPEEDS[host]
    for number in range(2 * step.rounds):
        name = names[number % 2]
        done = trial(number + 1, round_number=number // 2 + 1, variant=name)
        value = tps * (gain if number % 2 else 1.0) * (1.0 + 0.01 * (number // 2))
        store.add_trial(run.id, replace(done, metrics={"tps": value}, started_at=0.0, ended_at=TRIAL_S))
    store.finish_run(run.id)
    return HostRun(host, run.id)


def test_rounds_are_each_hosts_and_hosts_work_at_the_same_time(tmp_path: Path) -> None:
    steps = (Step(1, Purpose.RECORD, (DEFAULT,), 1, 1), Step(2, Purpose.SEARCH, (DEFAULT, QUICK), 2, 2))
    store = Store(tmp_path / "facts.sqlite")
    try:
        runs = tuple(_run(store, host, steps[1]) for host in SPEEDS)
        wall_s = 4 * TRIAL_S
        journal = Journal(
            "tune-shop-1", plan_of((DELAY,), trials=60, seed=1), "shop", ("walproof", "tune"), "18.4", None,
            RecordedFacts({"tps": 900.0}, {}, 1 << 24, 20.0),
            (
                StepTaken(steps[0], None, 20.0, finished=True),
                StepTaken(steps[1], runs[0].run, wall_s, finished=True, hosts=runs),
            ),
        )  # fmt: skip
        assert from_json(Journal, to_json(journal)) == journal
        facts = tuning_facts(journal, store, None)
    finally:
        store.close()
    assert facts.hosts(1) == ()
    assert facts.hosts(2) == ("elm", "oak")
    assert [(trial.round, trial.host) for trial in facts.measured[1:]] == [
        (number, host) for number, host in ((1, "elm"), (2, "elm"), (3, "oak"), (4, "oak")) for _ in range(2)
    ]
    # Ten times as slow a host does not show in what the candidate does: no ratio is one of two hosts.
    values = objective_values(facts, [2])
    assert sorted(values.ratios(QUICK, DEFAULT).values()) == pytest.approx(
        [math.log(1.2)] * 2 + [math.log(1.3)] * 2
    )
    assert mean_log(values, QUICK, DEFAULT) == pytest.approx(math.log(1.2 * 1.3) / 2)
    # Eight trials in the time of four.
    clock = BudgetClock.of(facts)
    assert [clock.used_s, clock.trial_s] == pytest.approx([wall_s, TRIAL_S])
    assert facts.trial_s == pytest.approx(TRIAL_S)


def test_a_journal_of_before_has_no_hosts() -> None:
    taken = StepTaken(Step(2, Purpose.SEARCH, (DEFAULT, QUICK), 2, 2), "abc", 20.0, finished=True)
    assert taken.runs == ("abc",)
    assert from_json(StepTaken, to_json(taken).replace(',"hosts":[]', "")) == taken


def test_a_name_whose_runs_are_somebody_elses_is_not_taken(tmp_path: Path) -> None:
    """In a shared store, which has the steps of tunings whose journals are in other folders."""
    journal = Journal("x", plan_of((DELAY,), trials=60, seed=1), "shop", ("walproof",), "18.4", None)

    def name(*, new: bool, taken: set[str]) -> str:
        return journal_file(tmp_path, "tune-shop-1", new=new, taken=taken).folder.name

    theirs = {"tune-shop-1", "tune-shop-1-2"}
    assert [name(new=new, taken=set()) for new in (False, True)] == ["tune-shop-1"] * 2
    assert [name(new=new, taken=theirs) for new in (False, True)] == ["tune-shop-1-3"] * 2
    journal_file(tmp_path, "tune-shop-1", new=False, taken=theirs).write(journal)
    assert name(new=False, taken={*theirs, "tune-shop-1-3"}) == "tune-shop-1-3", "it goes on"
    assert name(new=True, taken={*theirs, "tune-shop-1-3"}) == "tune-shop-1-4"

"""Findings about the whole run."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.advise.findings import ask, make_measured_trials, sentences
from tests.analysis.facts import DEFAULT, FSYNC_OFF, fail, make_plan, make_trials
from walproof.advise.finding import FindingKind
from walproof.facts import Variant

PLAN = make_plan((DEFAULT, FSYNC_OFF))
WIDE = Variant("wide", {"max_wal_size": "4GB", "checkpoint_timeout": "1h"})


def test_stolen_processors() -> None:
    trials = make_measured_trials(PLAN, lambda cell: {"host_cpu_steal_share": 0.04})
    worst = replace(trials[2], metrics={**trials[2].metrics, "host_cpu_steal_share": 0.2})
    trials = (*trials[:2], worst, *trials[3:])
    assert sentences(PLAN, trials, FindingKind.STEAL, None) == [
        "steal 6.0 % of the CPU time, at most 20 % in trial 3: another machine took the CPU"
    ]
    calm = make_measured_trials(PLAN, lambda cell: {"host_cpu_steal_share": 0.005})
    assert sentences(PLAN, calm, FindingKind.STEAL, None) == []
    assert sentences(PLAN, make_trials(PLAN, 3, lambda c: 1.0), FindingKind.STEAL, None) == []


def test_no_checkpoint_in_any_window() -> None:
    counts = ("checkpoints_timed", "checkpoints_requested", "checkpoints_immediate")
    none = dict.fromkeys((*counts, "checkpoint_active_share"), 0.0)
    text = "no checkpoint fell in any window: a setting that acts at checkpoints cannot show"
    assert sentences(PLAN, make_measured_trials(PLAN, lambda c: none), FindingKind.CHECKPOINT, None) == [text]
    plan = make_plan((DEFAULT, WIDE))
    assert sentences(plan, make_measured_trials(plan, lambda c: none), FindingKind.CHECKPOINT, None) == [
        f"{text} (checkpoint_timeout and max_wal_size here)"
    ]
    for seen in none:
        trials = make_measured_trials(PLAN, lambda c: none)
        changed = replace(trials[3], metrics={**trials[3].metrics, seen: 1.0})
        trials = (*trials[:3], changed, *trials[4:])
        assert sentences(PLAN, trials, FindingKind.CHECKPOINT, None) == []
    # Nothing known is not "none".
    half = make_measured_trials(PLAN, lambda c: {"checkpoints_timed": 0.0})
    assert sentences(PLAN, half, FindingKind.CHECKPOINT, None) == []


def test_drift() -> None:
    steady = make_trials(PLAN, 8, lambda c: 500.0, seed=2)
    (sentence,) = sentences(PLAN, steady, FindingKind.DRIFT, None)
    assert re.match(
        r"the machine was steady: \d\.\d+x \(\d\.\d+ to \d\.\d+\) from the first to the last", sentence
    )
    noisy = make_trials(PLAN, 8, lambda c: 500.0, noise=0.5, seed=4)
    (sentence,) = sentences(PLAN, noisy, FindingKind.DRIFT, None)
    assert sentence.startswith("trials differ too much to say whether the machine was steady: ")
    falling = make_trials(PLAN, 8, lambda c: 500.0, drift_per_trial=-0.02)
    (sentence,) = sentences(PLAN, falling, FindingKind.DRIFT, None)
    assert sentence.startswith("the machine became slower over the run: throughput 0.7")
    rising = make_trials(PLAN, 8, lambda c: 500.0, drift_per_trial=0.02)
    assert "became faster" in sentences(PLAN, rising, FindingKind.DRIFT, None)[0]
    spells = make_trials(make_plan(), 12, lambda c: 500.0, noise=0.01, round_noise=0.1, seed=3)
    (sentence,) = sentences(make_plan(), spells, FindingKind.DRIFT, None)
    assert re.fullmatch(
        r"the machine had better and worse spells: trials close in time are alike \(correlation 0\.\d\d\); "
        r"comparing within rounds removed 9\d % of the variance",
        sentence,
    )
    assert sentences(PLAN, make_trials(PLAN, 2, lambda c: 500.0), FindingKind.DRIFT, None) == []


def test_run_findings_come_last_and_name_no_cell() -> None:
    trials = make_measured_trials(PLAN, lambda cell: {"host_cpu_steal_share": 0.3}, rounds=6)
    found = ask(PLAN, trials)
    about_run = [finding.variant is None for finding in found]
    assert about_run == sorted(about_run)
    last = found[-1]
    assert (last.install, last.workload, last.variant, last.durability) == (None, None, None, None)
    assert set(last.trials) == {trial.number for trial in trials}


def test_failed_trials_say_nothing_about_the_machine() -> None:
    trials = make_measured_trials(PLAN, lambda cell: {"host_cpu_steal_share": 0.3})
    found = ask(PLAN, fail(trials, lambda trial: True))
    assert {finding.kind for finding in found} == {FindingKind.FAILURE}

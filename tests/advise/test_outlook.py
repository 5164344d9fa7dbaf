"""What a run is told after the pilot and after each later round."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tests.analysis.facts import make_plan, make_trials
from walproof.advise.outlook import say_outlook
from walproof.analysis.within import outlook
from walproof.facts import Plan, Trial

PLAN = replace(make_plan(), rounds=50, half_width=0.02)


def lines(plan: Plan, trials: Sequence[Trial], rounds: int) -> tuple[str, ...]:
    found = outlook(plan, [trial for trial in trials if trial.round <= rounds], "tps")
    assert found is not None
    return say_outlook(plan, found, rounds)


def test_the_pilot_says_how_long_the_wanted_width_takes() -> None:
    trials = make_trials(PLAN, 9, lambda cell: 100.0, noise=0.03, seed=6)
    (line,) = lines(PLAN, trials, 3)
    assert re.fullmatch(
        r"round 3: the widest interval reaches \+-[\d.]+ % \((fsync|full_page_writes)=off\); "
        r"\d+ more rounds, about .+, for \+-2\.0 %",
        line,
    )
    (later,) = lines(PLAN, trials, 5)
    assert "for +-" not in later
    assert "more round" in later


def test_what_there_is_no_time_for_is_said_with_what_it_comes_to() -> None:
    trials = make_trials(PLAN, 3, lambda cell: 100.0, noise=0.1)
    short = replace(PLAN, budget_s=3 * 45 + 100)
    first, second = lines(short, trials, 3)
    assert "2 more rounds, about 1 min 30 s" in first
    assert re.match(
        r"\+-2\.0 % would take \d+ more rounds: the budget will come to about \+-\d+ % \(", second
    )
    (_, most) = lines(replace(PLAN, rounds=4), trials, 3)
    assert "4 rounds at most will come to about" in most


def test_a_budget_alone_says_how_narrow_intervals_will_be() -> None:
    trials = make_trials(PLAN, 3, lambda cell: 100.0, noise=0.03)
    (line,) = lines(replace(PLAN, half_width=None, budget_s=3 * 45 + 100), trials, 3)
    assert re.search(r"; 2 more rounds, about 1 min 30 s, will come to about \+-[\d.]+ %$", line)
    (last,) = lines(replace(PLAN, half_width=None, budget_s=100.0), trials, 3)
    assert last.endswith(")")

"""Progress away from a terminal: what --within says before, meanwhile and at its end, and a budget."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest
from rich.console import Console

from tests.analysis.facts import DEFAULT, INSTALL, OLDER, make_plan, make_trials
from tests.analysis.slices import toggled_plan
from tests.report.facts import make_run
from walproof.cli.plan import _rounds_text
from walproof.cli.progress import TerminalProgress
from walproof.facts import Design, Plan
from walproof.units import format_duration

PLAN = replace(make_plan(), rounds=50)


def said(capsys: pytest.CaptureFixture[str], half_width: float | None, rounds: int) -> list[str]:
    plan = replace(PLAN, half_width=half_width)
    with TerminalProgress(plan) as progress:
        progress.round_ended(make_trials(plan, rounds, lambda cell: 100.0, noise=0.02))
    return capsys.readouterr().err.splitlines()


def test_a_run_that_goes_on_says_how_many_trials_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    stored = make_trials(PLAN, 1, lambda cell: 100.0)
    for count, words in ((1, "1 stored trial"), (2, "2 stored trials")):
        with TerminalProgress(PLAN) as progress:
            progress.run_started(make_run(PLAN), stored[:count], PLAN.trials_most)
        assert f": {words} of at most {PLAN.trials_most}\n" in capsys.readouterr().err


def test_the_widest_interval_is_said_from_the_pilot_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, 0.02, 2) == []
    (line,) = said(capsys, 0.02, 3)
    assert line.startswith("round 3: the widest interval reaches +-")
    assert "more rounds, about" in line


def test_a_fixed_number_of_rounds_needs_no_such_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, None, 4) == []


def ended(plan: Plan, rounds: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is said of trials of 10 s each, round by round, without the lines about intervals."""
    trials = [
        replace(trial, started_at=10.0 * at, ended_at=10.0 * (at + 1))
        for at, trial in enumerate(make_trials(plan, rounds, lambda cell: 100.0))
    ]
    with TerminalProgress(plan) as progress:
        progress.run_started(make_run(plan), [], plan.trials_most)
        for at, trial in enumerate(trials, 1):
            progress.trial_ended(trial)
            if at == len(trials) or trials[at].round != trial.round:
                progress.round_ended(trials[:at])
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith(("run", "res", "["))]


def test_a_budget_bounds_the_trials_and_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    cells = len(PLAN.round_cells(1))
    round_s = 10.0 * cells
    plan = replace(PLAN, budget_s=2.5 * round_s)
    first, *lines = ended(plan, 2, capsys)
    assert first.endswith(
        f"at most {plan.trials_most} trials, as many as fit into {format_duration(2.5 * round_s)}"
    )
    assert [line.partition("]")[0] for line in lines] == [
        *(f"[{number}" for number in range(1, cells + 1)),
        *(f"[{number}/about {2 * cells}" for number in range(cells + 1, 2 * cells + 1)),
    ]
    assert all("left)" in line for line in lines[cells:-1])
    assert "left" not in lines[-1], "nothing is left after the last trial"


def test_before_a_round_is_over_the_budget_is_all_that_is_known() -> None:
    progress = TerminalProgress(replace(PLAN, budget_s=300.0))
    progress._most, progress._ended, progress._began = 100, 1, time.monotonic() - 30
    progress._spend(replace(make_trials(PLAN, 1, lambda cell: 1.0)[0], started_at=0.0, ended_at=30.0))
    assert (progress._count(), progress._left()) == ("1", "at most 4 min 30 s of the budget left")
    progress._most = 3
    assert progress._left() == "1 min 00 s left"


def test_the_last_trial_has_no_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ended(replace(PLAN, rounds=2), 2, capsys)
    assert lines[-1].startswith(f"[{2 * len(PLAN.round_cells(1))}/")
    assert "left" not in lines[-1]


def test_a_start_that_several_cells_share_has_the_names_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    def name(plan: Plan) -> str:
        (cell,) = plan.round_cells(1)
        return TerminalProgress(plan)._name(cell)

    assert name(toggled_plan("default", "fsync=off")) == "default and fsync=off"
    assert name(toggled_plan("default", *(f"commit_delay={delay}" for delay in range(5)))) == "6 variants"
    long = "synchronous_commit=remote_apply of a plan of one"
    assert name(toggled_plan(long)) == long
    alone = replace(DEFAULT, design=Design.SLICED)
    plan = make_plan(variants=[alone], installs=[INSTALL, OLDER])
    plan = replace(plan, slicing=toggled_plan(DEFAULT.name).toggling)
    assert name(plan) == f"18.3 and 15.9 | {DEFAULT.name}"


def test_a_pilot_has_its_own_trials_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    """The time of all fifty rounds, which such a run nearly never takes, was said all through the pilot."""
    plan = replace(PLAN, half_width=0.02)
    trials = 3 * len(plan.round_cells(1))
    first, *lines = ended(plan, 3, capsys)
    assert first.endswith(
        f": a pilot of {trials} trials says how long +-2 % takes, at most {plan.trials_most} trials"
    )
    assert all("left of the pilot)" in line for line in lines[:-1])
    assert "left" not in lines[-1], "what follows is said after it"
    toggled = replace(toggled_plan("default", "off", starts=50), half_width=0.02)
    with TerminalProgress(toggled) as progress:
        progress.run_started(make_run(toggled), [], toggled.trials_most)
    assert "a pilot of 2 trials says" in capsys.readouterr().err
    assert _rounds_text(toggled).startswith("a pilot of 2 says how many take every ratio within +-2 %")


def test_names_are_no_markup_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A name such as "[/s]" ended the study where the bar was drawn; "[raid]" was lost from it."""
    workloads = tuple(replace(PLAN.workloads[0], name=name) for name in ("orders [/s]", "[raid]"))
    plan = replace(PLAN, workloads=workloads)
    progress = TerminalProgress(plan)
    progress._console = Console(file=sys.stderr, force_terminal=True, width=150)
    with progress:
        progress.run_started(make_run(plan), [], plan.trials_most)
        assert progress._bar is not None
        for number, workload in enumerate(workloads, 1):
            progress.trial_started(number, 1, plan.cells[0]._replace(workload=workload.name))
            progress._bar.refresh()
            assert f"round 1: {workload.name} | " in capsys.readouterr().err

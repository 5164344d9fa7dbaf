"""Progress away from a terminal: what --within says before, meanwhile and at its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.facts import make_plan, make_trials
from walproof.cli.progress import TerminalProgress

PLAN = replace(make_plan(), rounds=50)


def said(capsys: pytest.CaptureFixture[str], half_width: float | None, rounds: int) -> list[str]:
    plan = replace(PLAN, half_width=half_width)
    with TerminalProgress(plan) as progress:
        progress.round_ended(make_trials(plan, rounds, lambda cell: 100.0, noise=0.02))
    return capsys.readouterr().err.splitlines()


def test_the_widest_interval_is_said_from_the_pilot_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, 0.02, 2) == []
    (line,) = said(capsys, 0.02, 3)
    assert line.startswith("round 3: the widest interval reaches +-")
    assert "more rounds, about" in line


def test_a_fixed_number_of_rounds_needs_no_such_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, None, 4) == []

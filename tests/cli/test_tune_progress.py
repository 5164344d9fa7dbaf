"""What a tuning says on stderr while it goes on."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tests.facts.plans import plan, trial
from walproof.cli.tune_progress import TrialLines


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("latency_ms_p99", "latency_ms_p99 17.6 ms, 154 tps"),
        ("recovery_s", "recovery_s 0.380 s, 154 tps"),
        ("tps", "154 tps"),
        (None, "154 tps"),
    ],
)
def test_a_trial_shows_what_the_tuning_is_for(metric: str | None, said: str) -> None:
    written = StringIO()
    lines = TrialLines(plan(), Console(file=written, soft_wrap=True), metric)
    metrics = {"tps": 154.0, "latency_ms_p99": 17.6, "recovery_s": 0.38}
    lines.trial_ended(replace(trial(1), metrics=metrics, slices=()))
    _, _, outcome = written.getvalue().partition("] ")
    assert outcome.strip().startswith(f"{said}  ")

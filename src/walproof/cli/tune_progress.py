"""Progress of a tuning on stderr: each step with its reason, the best configuration so far, the time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from walproof.advise.tune.standing import say_standing, standing
from walproof.facts import Cell, Plan, Request, Run, Trial
from walproof.facts.metrics import metric as metric_named
from walproof.facts.tuning import Purpose, Step, TuningFacts
from walproof.report.kinds.registry import report_kind
from walproof.report.numbers import shown
from walproof.report.requests import say_request
from walproof.sentences import say_count
from walproof.units import format_duration

_NOUNS = {
    Purpose.RECORD: "recording the load",
    Purpose.SCREEN: "screening settings",
    Purpose.SEARCH: "race",
    Purpose.CONFIRM: "confirming on fresh starts",
    Purpose.LINES: "does every line earn its place?",
    Purpose.FINAL: "final comparison, with a seed by which nothing was chosen",
    Purpose.CRASH: "crashing the advised configuration",
    Purpose.FLUSH: "the advised configuration on emulated disks",
}


class TuningProgress:
    """The ``TuneProgress`` that the lab is given."""

    def __init__(self, note: Callable[[Step | None], None] = lambda _: None) -> None:
        """``note`` is called with each step that has ended, and with None when the tuning is over."""
        self._note = note
        self._metric: str | None = None
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    def choosing(self) -> None:
        """Say why nothing is measured for a while."""
        self._say("choosing what to measure next: limits are judged by simulation on the recording")

    def step_began(self, facts: TuningFacts, step: Step, is_resumed: bool) -> None:
        """Say what is done and why."""
        self._metric = facts.plan.objective.metric
        left = format_duration(max(0.0, facts.plan.budget_s - facts.spent_s))
        what = f"step {step.number}: {_NOUNS[step.purpose]}"
        if is_resumed:
            what += " (goes on)"
        size = ""
        if step.purpose is not Purpose.RECORD:
            rounds = "1 round" if step.rounds == 1 else f"{step.rounds} rounds"
            noun = "configuration" if len(step.candidates) == 1 else "configurations"
            size = f", {len(step.candidates)} {noun}, {rounds}"
        self._say(f"{what}{size}; {left} of the budget left")
        if step.why:
            self._say(f"  {step.why}")

    def step_ended(self, facts: TuningFacts, step: Step) -> None:
        """Say what is best so far."""
        self._note(step)
        if step.purpose in (Purpose.RECORD, Purpose.CRASH, Purpose.FLUSH):
            return
        found = standing(facts)
        self._say(
            f"  {say_standing(found, facts.plan.objective.metric)}; {format_duration(found.left_s)} left"
        )

    def over(self) -> None:
        """Say that the answer is being made, and make it."""
        self.answering()
        self._note(None)

    def answering(self) -> None:
        """Say that the answer is being made: it takes passes over the recording."""
        self._say("making the answer: its predictions are simulated on the recording")

    def trials(self, plan: Plan) -> TrialLines:
        """Progress that prints one line per trial."""
        return TrialLines(plan, self._console, self._metric)

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False)


class TrialLines:
    """The ``Progress`` of one step: its trials, indented below it."""

    def __init__(self, plan: Plan, console: Console, metric: str | None = None) -> None:
        """``metric``: the tuning's objective, of which each trial's value is shown; None: throughput."""
        self._words = report_kind(plan.kind)
        self._metric = metric
        self._console = console
        self._most = self._ended = 0

    def preparing(self, what: str) -> None:
        """Say what takes a while before the first trial."""
        self._say(f"  preparing: {what}")

    def run_started(self, run: Run, stored: Sequence[Trial], trials_most: int) -> None:
        """Start counting; the step has been announced already."""
        self._most, self._ended = trials_most, len(stored)
        if stored:
            self._say(f"  {say_count(len(stored), 'stored trial')} of {trials_most}")

    def trial_started(self, number: int, round_number: int, cell: Cell) -> None:
        """Print nothing: the trial's end has a line."""

    def trial_ended(self, trial: Trial) -> None:
        """Print a line with the trial's outcome."""
        self._ended += 1
        outcome = f"FAILED: {trial.reason}" if trial.reason is not None else self._outcome(trial)
        name = "all of them, in turns" if trial.slices else trial.variant
        self._say(f"  [{self._ended}/{self._most}] {outcome:>10}  {name}")

    def _outcome(self, trial: Trial) -> str:
        said = self._words.outcome(trial).strip()
        value = None if self._metric is None else trial.metrics.get(self._metric)
        # A server whose configurations take turns has a value for all of them together.
        if self._metric is None or self._metric == "tps" or value is None or trial.slices:
            return said
        unit = metric_named(self._metric).unit
        return f"{self._metric} {shown(self._metric, value)}{f' {unit}' if unit else ''}, {said}"

    def round_ended(self, trials: Sequence[Trial]) -> None:
        """Print nothing: the step's end says where the tuning stands."""

    def request_heard(self, request: Request, trials_most: int) -> None:
        """Say what was asked of the step, and what becomes of it."""
        self._say(f"  asked: {say_request(request)}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False)

"""Progress on stderr: on a terminal a bar with the time left, elsewhere one plain line per trial."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from walproof.facts import Cell, Plan, Request, Run, Trial, TrialState
from walproof.report.kinds.registry import report_kind
from walproof.report.requests import say_request
from walproof.sentences import say_count, say_list
from walproof.units import format_duration

_NAMES_MOST = 40
"""Characters of names that a line has room for; where they need more, it says how many they are."""


class TerminalProgress:
    """Context manager; the ``Progress`` that the lab is given."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._words = report_kind(plan.kind)
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._most = self._stored = 0
        self._ended = 0
        self._began = time.monotonic()
        self._left_s: float | None = None
        """As it was known at ``_told``; None: by the most trials there can be."""
        self._told = self._began
        self._budget_s = plan.budget_s if plan.gate is None else None
        """What is left of it, of trials alone; None without one, and where rounds were asked for."""
        self._about: int | None = None
        """Trials in all that fit into the budget; None before a round has shown how long it takes."""

    def __enter__(self) -> TerminalProgress:
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[count]}", markup=False),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}", markup=False),
                console=self._console,
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def preparing(self, what: str) -> None:
        """Say what takes a while before the first trial."""
        self._say(f"preparing: {what}")

    def run_started(self, run: Run, stored: Sequence[Trial], trials_most: int) -> None:
        """Trials begin."""
        if stored:
            had = say_count(len(stored), "stored trial")
            self._say(f"resuming run {run.id}: {had} of at most {trials_most}")
        else:
            all_of_them = say_count(trials_most, "trial")
            most = "" if self._plan.gate is not None else f": {self._pilot()}at most {all_of_them}"
            if self._budget_s is not None:
                most += f", as many as fit into {format_duration(self._budget_s)}"
            self._say(f"run {run.id}{most}")
        self._stored = len(stored)
        self._most, self._ended, self._began = trials_most - len(stored), 0, time.monotonic()
        if self._plan.gate is not None and self._plan.budget_s is not None:
            spent = sum(trial.ended_at - trial.started_at for trial in stored)
            self._left_s, self._told = self._plan.budget_s - spent, self._began
        for trial in stored:
            self._spend(trial)
        if self._bar is not None:
            self._task = self._bar.add_task("", total=self._most, left="", count=self._count())

    def trial_started(self, number: int, round_number: int, cell: Cell) -> None:
        """Say that a trial begins."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=f"round {round_number}: {self._name(cell)}")

    def trial_ended(self, trial: Trial) -> None:
        """Say that a trial has been stored."""
        self._ended += 1
        # Sweeps add rounds of their own where more may still help.
        self._most = max(self._most, self._ended)
        self._spend(trial)
        left = self._left()
        if trial.state is not TrialState.DONE:
            result = f"    FAILED: {trial.reason}"
        else:
            result = self._words.outcome(trial)
        where = f"[{self._count()}] round {trial.round}"
        self._say(
            f"{where}  {self._name(trial.cell):<40} {result}"
            + (f"  ({left})" if left and self._bar is None else "")
        )
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=1, left=left, count=self._count())

    def round_ended(self, trials: Sequence[Trial]) -> None:
        """After a round, say how wide the widest interval is, and what comes next."""
        if self._plan.gate is not None:
            self._look(trials)
            return
        if self._plan.half_width is None and self._plan.budget_s is None:
            return
        from walproof.advise.outlook import say_outlook
        from walproof.analysis.within import outlook, rounds_left

        found = outlook(self._plan, trials, self._words.metric_of(self._plan))
        done = max(trial.round for trial in trials)
        if found is not None:
            for line in say_outlook(self._plan, found, done):
                self._say(line)
            # How many trials are to come is known better now than when the run began.
            rounds, seconds = found.rounds_more, found.seconds_more
        elif self._budget_s is not None:
            rounds, seconds = rounds_left(self._plan, trials)
        else:
            return
        self._left_s, self._told = seconds, time.monotonic()
        if self._budget_s is not None:
            cells = sum(len(self._plan.round_cells(done + more)) for more in range(1, rounds + 1))
            self._about = self._ended + cells
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, total=self._about)

    def request_heard(self, request: Request, trials_most: int) -> None:
        """Say what was asked of the run, and how long that will take."""
        self._say(f"asked: {say_request(request)}")
        more = trials_most - self._stored - self._most
        if more > 0:
            self._most += more
            # Rounds that are asked for do not count against the budget.
            self._left_s = self._budget_s = self._about = None
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, total=self._most)

    def _look(self, trials: Sequence[Trial]) -> None:
        from walproof.advise.gate import say_look
        from walproof.analysis.gate import judge

        found = judge(self._plan, trials, is_finished=False)
        if found is not None and found.done == max(trial.round for trial in trials):
            for line in say_look(self._plan, found, trials):
                self._say(line)

    def _pilot_trials(self) -> int:
        """Trials until it is known how many the wanted width takes; 0 where none is wanted."""
        if self._plan.half_width is None:
            return 0
        from walproof.analysis.within import pilot_rounds

        return sum(len(self._plan.round_cells(1 + at)) for at in range(pilot_rounds(self._plan)))

    def _pilot(self) -> str:
        if self._plan.half_width is None:
            return ""
        trials = say_count(self._pilot_trials(), "trial")
        return f"a pilot of {trials} says how long +-{100 * self._plan.half_width:.3g} % takes, "

    def _spend(self, trial: Trial) -> None:
        if self._budget_s is not None:
            self._budget_s = max(0.0, self._budget_s - (trial.ended_at - trial.started_at))

    def _count(self) -> str:
        # How many trials a gate has, nobody knows before, nor how many fit into a budget.
        if self._about is not None:
            return f"{self._ended}/about {self._about}"
        is_open = self._plan.gate is not None or self._budget_s is not None
        return f"{self._ended}" if is_open else f"{self._ended}/{self._most}"

    def _left(self) -> str:
        """Never more than the budget; nothing where nothing is left."""
        is_pilot = False
        if self._left_s is not None:
            left_s = self._left_s - (time.monotonic() - self._told)
        else:
            each = (time.monotonic() - self._began) / max(1, self._ended)
            # How many there are after the pilot, the pilot tells.
            pilot = self._pilot_trials() - self._stored
            is_pilot = pilot > 0 and self._ended <= pilot
            left_s = each * ((pilot if is_pilot else self._most) - self._ended)
        is_last = self._plan.gate is None and self._ended >= (self._about or self._most)
        if self._budget_s is not None and left_s > self._budget_s:
            left_s, words = self._budget_s, "at most {} of the budget left"
        else:
            words = "{} left of the pilot" if is_pilot else "{} left"
        return "" if is_last or left_s <= 0 else words.format(format_duration(left_s))

    def _name(self, cell: Cell) -> str:
        """The parts of a cell that differ in this run; of a start that several cells share, those of all."""
        cells = list(self._plan.shared_cells(cell).values()) or [cell]
        installs, workloads, variants = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
        parts = [_say_names(installs, "install")] if len(self._plan.installs) > 1 else []
        parts += [_say_names(workloads, "load")] if len(self._plan.workloads) > 1 else []
        return " | ".join([*parts, _say_names(variants, "variant")])

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False)


def _say_names(names: Sequence[str], noun: str) -> str:
    words = say_list(names)
    return words if len(names) == 1 or len(words) <= _NAMES_MOST else say_count(len(names), noun)

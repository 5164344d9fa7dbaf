"""The conductor of a tuning: asks a search, runs each step as an ordinary study, and reports the answers.

ask -> step in the journal -> run in the store (found again by its plan) -> answer in the journal -> ask

An interrupted tuning resumes: the same question has the same plan, whose finished trials are in the store.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from walproof.errors import DiskError, HostError, StudyError, WalproofError
from walproof.facts import Plan, Run
from walproof.facts.codec import plan_hash
from walproof.facts.store import Store
from walproof.facts.tuning import DEFAULT, NO_EMULATED_DISK, STOPPED, Purpose, Search, Step, TuningFacts
from walproof.facts.tuning_answers import tuning_facts
from walproof.facts.tuning_journal import HostRun, Journal, JournalFile, RecordedFacts, StepTaken
from walproof.lab.alone import alone
from walproof.lab.failure import OF_THE_MACHINE
from walproof.lab.schedule import Progress
from walproof.lab.session import execute
from walproof.lab.tune.load import PlanOrder, TuningLoad, plan_of
from walproof.lab.tune.recording import record_load, recorded_settings
from walproof.lab.tune.steps import run_speed, step_plan

_CRASH_SHARE, _CRASH_MOST_S = 0.02, 120.0
"""Length of the load before a crash, as a share of the budget, so that there is something to replay."""
_RECORD_SHARE, _RECORD_MOST_S = 0.06, 600.0
_REACHED_LEAST = 0.9
"""Share of an offered rate that the defaults have to reach."""


class TuneProgress(Protocol):
    """An observer of a tuning."""

    def choosing(self) -> None:
        """What to measure next is being computed, which may take long: limits are judged by simulation."""

    def step_began(self, facts: TuningFacts, step: Step, is_resumed: bool) -> None:
        """A step is about to run."""

    def step_ended(self, facts: TuningFacts, step: Step) -> None:
        """Its answers are in the facts."""

    def over(self) -> None:
        """Nothing more will be measured, and the journal says so: time for the last answer."""

    def trials(self, plan: Plan) -> Progress:
        """The observer of the step's trials."""


@dataclass(frozen=True, slots=True)
class StepOnHosts:
    """The outcome of a step on hosts."""

    runs: tuple[HostRun, ...]
    left_out: tuple[str, ...] = ()
    """Sentences about hosts that did not finish it, each with the reason."""


class Hosts(Protocol):
    """Machines that carry out steps in parallel, each of them the whole step."""

    def carry_out(self, plan: Plan, command: Sequence[str]) -> StepOnHosts:
        """The finished runs of the plan: runs that a host has already, or new ones.

        Raises a WalproofError if no host finishes.
        """

    def recording(self) -> AbstractContextManager[None]:
        """Context in which this machine records the load, and no other study measures on it."""


@dataclass(frozen=True, slots=True)
class Conductor:
    """Carries out one tuning."""

    load: TuningLoad
    store: Store
    file: JournalFile
    progress: TuneProgress
    trial_s: float
    """Estimated wall time of a trial, used until some have been measured."""
    hosts: Hosts | None = None
    """Machines that measure; None if this machine does."""

    def conduct(self, journal: Journal, search: Search) -> Journal:
        """Carry on until the search is over. Raises a WalproofError; finished steps stay in the journal.

        Where no disk can be emulated the tuning ends without that step, and with a note."""
        folder = self.file.folder
        with alone(folder / ".lock", f'carrying out tuning "{folder.name}"'):
            if journal.finished:
                return journal
            self.file.write(journal)
            since = time.monotonic()
            while True:
                # What is computed takes its time, too; without a step it is computed again.
                journal, since = _counted(journal, since), time.monotonic()
                facts = self.facts(journal)
                pending = journal.pending
                if pending is None:
                    if facts.steps:
                        self.progress.choosing()
                    has_room = facts.spent_s + facts.answer_s < journal.plan.budget_s
                    step = search.ask(facts) if has_room else None
                    if step is None:
                        return self._finish(journal, since)
                    journal = self.file.write(_counted(journal, since).asked(step))
                    pending = journal.steps[-1]
                    self.progress.step_began(self.facts(journal), step, False)
                else:
                    self.progress.step_began(facts, pending.step, True)
                since = time.monotonic()
                try:
                    journal = self._take(journal, pending)
                except (DiskError, HostError) as error:
                    # Hosts say why each is left out; what else keeps them from it may be over later.
                    cause = error.__cause__
                    is_short = isinstance(cause, OSError) and cause.errno in OF_THE_MACHINE
                    is_told = "simulated disk" in (error.detail or "")
                    is_of_disk = is_told or (isinstance(error, DiskError) and not is_short)
                    if pending.step.purpose is not Purpose.FLUSH or not is_of_disk:
                        raise
                    # The answer is there without the last step, which not every machine can carry out.
                    note = f"{NO_EMULATED_DISK}: {_why(error)}."
                    journal = replace(journal.without(pending.step), notes=(*journal.notes, note))
                    return self._finish(journal, since)
                since = time.monotonic()
                self.progress.step_ended(self.facts(journal), pending.step)
                if pending.step.purpose is not Purpose.RECORD:
                    # The first answer simulates what later ones and the search know then.
                    journal = replace(journal, answer_s=max(journal.answer_s, time.monotonic() - since))
                if self._was_stopped(journal.steps[-1]):
                    number = pending.step.number
                    note = f"{STOPPED} during step {number}: the answer is the best so far."
                    return self._finish(replace(journal, notes=(*journal.notes, note)), since)

    def _finish(self, journal: Journal, since: float) -> Journal:
        """The journal of a tuning that is over. ``since``: when its last step had ended, monotonic."""
        journal = self.file.write(replace(journal, finished=True))
        self.progress.over()
        return self.file.write(_counted(journal, since))

    def _was_stopped(self, taken: StepTaken) -> bool:
        """Whether somebody asked the step's run to stop: that ends the tuning."""
        return any(self.store.run(name).stopped is not None for name in taken.runs)

    def facts(self, journal: Journal) -> TuningFacts:
        """What a search is told.

        Before any trial a trial takes at least as long as the recording did until its load began.
        """
        trial_s = self.trial_s
        if journal.recorded is not None:
            window_s = (self.load.duration_s or 0.0) + (self.load.warmup_s or 0.0)
            trial_s = max(trial_s, journal.recorded.before_s + window_s)
        return tuning_facts(journal, self.store, trial_s)

    def plan(self, journal: Journal, step: Step) -> Plan:
        """The plan of a step."""
        crash_s = max(_least(self.load), min(_CRASH_MOST_S, journal.plan.budget_s * _CRASH_SHARE))
        if step.as_recorded:
            recorded_s = self.record_plan(journal, step.seed).workloads[0].duration_s or crash_s
            crash_s = float(round(recorded_s / run_speed(step.candidates[0], self.facts(journal))))
        return step_plan(self.load, journal.name, journal.plan.keep, journal.plan.objective, step, crash_s)

    def record_plan(self, journal: Journal, seed: int) -> Plan:
        """The plan of the recording: the load, run once, for longer than a trial."""
        length = max(_least(self.load), min(_RECORD_MOST_S, journal.plan.budget_s * _RECORD_SHARE))
        asked = PlanOrder(
            study=f"{journal.name}-1",
            title="The load under the default, recorded",
            candidates=(DEFAULT,),
            keep=recorded_settings({**self.load.base, **journal.plan.keep}),
            rounds=1,
            seed=seed,
            duration_s=float(round(length)),
        )
        return plan_of(self.load, asked)

    def _take(self, journal: Journal, taken: StepTaken) -> Journal:
        began = time.monotonic()
        if taken.step.purpose is Purpose.RECORD:
            recorded = self._record(journal, taken.step)
            seconds = taken.seconds + time.monotonic() - began
            done = replace(taken, seconds=seconds, finished=True)
            return self.file.write(replace(journal.changed(done), recorded=recorded))
        plan = self.plan(journal, taken.step)
        if self.hosts is None:
            carried = StepOnHosts(())
            names: tuple[str, ...] = (self._run(plan, journal).id,)
        else:
            carried = self.hosts.carry_out(plan, self._command(plan, journal))
            names = tuple(run.run for run in carried.runs)
        # Trials of an attempt that was interrupted took their time, too.
        spent = [
            sum(trial.ended_at - trial.started_at for trial in self.store.trials(name)) for name in names
        ]
        done = replace(
            taken, run=names[0], hosts=carried.runs, finished=True,
            seconds=max(time.monotonic() - began, *spent),
        )  # fmt: skip
        notes = [f"Step {taken.step.number}: {text}." for text in carried.left_out]
        journal = replace(journal, notes=(*journal.notes, *notes))
        return self.file.write(journal.changed(done))

    def _record(self, journal: Journal, step: Step) -> RecordedFacts:
        plan = self.record_plan(journal, step.seed)
        # The rest of an interrupted recording is of no use.
        shutil.rmtree(self.file.recording, ignore_errors=True)
        with nullcontext() if self.hosts is None else self.hosts.recording():
            found = record_load(plan, self.file.recording, self.progress.trials(plan))
        _require_rate(plan, found.metrics)
        settings = plan.settings_of(plan.variants[0])
        return RecordedFacts(found.metrics, settings, found.start_lsn, found.seconds, found.before_s)

    def _run(self, plan: Plan, journal: Journal) -> Run:
        """The finished run of the plan: a run that ended before its answer was noted, or a new one."""
        digest = plan_hash(plan)
        for run in reversed(self.store.runs()):
            if plan_hash(run.plan) == digest and run.finished_at is not None:
                return run
        return execute(
            plan,
            self.store,
            self._command(plan, journal),
            lambda number, _: plan.round_cells(number) if number <= plan.rounds else (),
            lambda _: False,
            self.progress.trials(plan),
            locks=self.file.folder,
        )

    def _command(self, plan: Plan, journal: Journal) -> tuple[str, ...]:
        return (*journal.command, f"({plan.study})")


def _why(error: WalproofError) -> str:
    """What was refused and the reason, in one line."""
    detail = "; ".join((error.detail or "").rstrip(".").splitlines())
    return f"{error.message} ({detail})" if detail else error.message


def _counted(journal: Journal, since: float) -> Journal:
    """The journal with the time that was spent between steps since then (monotonic)."""
    return replace(journal, asking_s=journal.asking_s + time.monotonic() - since)


def _require_rate(plan: Plan, metrics: Mapping[str, float]) -> None:
    """Raise StudyError where the defaults stay far below the offered rate."""
    (workload,) = plan.workloads
    reached = metrics.get("tps")
    if workload.rate_tps is None or reached is None or reached >= _REACHED_LEAST * workload.rate_tps:
        return
    raise StudyError(
        f"the defaults reach {reached:.4g} of the {workload.rate_tps:.6g} transactions/s that are offered",
        detail="What cannot be done waits in a queue, which grows with the length of a trial, so latencies "
        "would say nothing of settings.",
        hint=f"Offer less, such as --rate {max(1, int(reached * 0.7))}.",
    )


def _least(load: TuningLoad) -> float:
    (workload,) = load.tables["workload"]
    length = load.duration_s or 0.0
    return max(length, 5.0) if workload.get("transactions") is None else 5.0

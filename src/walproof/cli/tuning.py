"""A tuning: what one command line stands for. Its live and its offline half meet here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from walproof.advise.tune.answer import answer
from walproof.advise.tune.crashes import (
    CrashCheck,
    WalCheck,
    crash_checks,
    limits_now,
    shows_limits,
    wal_checks,
)
from walproof.advise.tune.judge import LoadRecording, RecordedJudge
from walproof.advise.tune.memory import allowed_bytes
from walproof.advise.tune.own_lines import broken_as_pasted, lines_left
from walproof.advise.tune.space import Bounds, SearchSpace
from walproof.advise.tune.standing import standing
from walproof.advise.tune.starts import OwnConf
from walproof.analysis.tuning.search import TuneSearch
from walproof.cli.costs import find_costs
from walproof.cli.tune_hosts import host_study
from walproof.cli.tune_progress import TuningProgress
from walproof.errors import StoreError
from walproof.facts.tuning import (
    Candidate,
    CandidatePrediction,
    Purpose,
    RuledOut,
    Step,
    TuningFacts,
    TuningPlan,
)
from walproof.facts.tuning_answers import candidate_name
from walproof.facts.tuning_journal import Journal, StepTaken
from walproof.lab.tune.conduct import Conductor
from walproof.lab.tune.load import TuningLoad
from walproof.lab.tune.steps import run_speed, speed_of
from walproof.platforms.registry import foreign_storage
from walproof.platforms.registry import platform as platform_named
from walproof.postgres.build import accepts
from walproof.report.tune.kept import KeptAnswer, keep_answer, kept_answer
from walproof.report.tune.view import TuneView, TuningContext, lines_of, tune_view
from walproof.settings.change import Before
from walproof.settings.versions import name_compression
from walproof.units import Lsn

_ANSWERING = (Purpose.RECORD, Purpose.CONFIRM, Purpose.LINES, Purpose.FINAL, Purpose.CRASH, Purpose.FLUSH)
"""Steps that change predictions or verdicts; the race itself is read from the store."""


@dataclass
class Tuning:
    """Everything that one command line stands for."""

    plan: TuningPlan
    space: SearchSpace
    load: TuningLoad
    journal: Journal
    conductor: Conductor
    bounds: Bounds
    conf: OwnConf | None
    calibration: Path | None
    trial_s: float
    """Estimated wall time of a trial."""
    notes: tuple[str, ...] = field(default=())

    @property
    def workload(self) -> Mapping[str, object]:
        """The load's ``[[workload]]``."""
        (found,) = self.load.tables["workload"]
        return dict(found)

    @property
    def clients(self) -> int:
        """Sessions of the load."""
        return int(str(self.workload.get("clients", 1)))

    @property
    def facts(self) -> TuningFacts:
        """What has been measured."""
        return self.conductor.facts(self.journal)

    def carry_out(self, platform: str) -> Tuning:
        """Carry on to the end, and keep the answer after steps that may change it. Raises a WalproofError.

        ``platform``: name of the platform that the lines are written for.
        """

        def note(step: Step | None) -> None:
            if step is None or step.purpose in _ANSWERING:
                self._answer(platform)

        conductor = replace(self.conductor, progress=TuningProgress(note))
        self.journal = conductor.conduct(self.journal, TuneSearch(self._judged))
        return self

    def judge(self, speed: float = 1.0) -> RecordedJudge:
        """A judge of configurations, at ``speed`` times the recorded load's speed."""
        recorded = self._journal().recorded
        assert recorded is not None, "the load is recorded first"
        version_num = self.load.install.version_num
        return RecordedJudge(
            LoadRecording(
                self.conductor.file.recording,
                Lsn(recorded.start_lsn),
                recorded.settings,
                recorded.metrics.get("wal_bytes_per_txn"),
            ),
            version_num,
            self.plan.promises,
            self.plan.factors,
            name_compression(
                {**self.load.base, **self.plan.keep}, version_num, partial(accepts, self.load.install)
            ),
            clients=self.clients,
            memory_bytes=allowed_bytes(self.plan.promises, self.bounds.machine.memory_bytes),
            costs=find_costs(self.calibration, version_num // 10000),
            speed=speed,
            is_archiving=self.bounds.is_archiving,
        )

    def view(self, platform: str) -> TuneView:
        """Report on what has been measured, and keep its answer. Raises StoreError, WalError."""
        kept = self._finished_answer(platform)
        if kept is None:
            TuningProgress().answering()
            kept = self._answer(platform)
        return tune_view(
            self.conductor.facts(self._journal()), kept.answer, kept.asked, platform_named(platform)
        )

    def _finished_answer(self, platform: str) -> KeptAnswer | None:
        """The answer that was made when the tuning was over; None without one, with other costs, or where the
        lines are for another platform, which may refuse others, or for a server that has changed."""
        if self._last_answer is not None:
            return self._last_answer
        journal = self._journal()
        if not journal.finished or self.calibration is not None:
            return None
        try:
            kept = kept_answer(self.conductor.file.folder)
        except StoreError:
            return None  # it is made again
        steps = sum(step.finished for step in journal.steps)
        if kept is None or not kept.is_last(steps, platform, self._before):
            return None
        if not kept.rests_on(find_costs(None, self.load.install.version_num // 10000).notes):
            sys.stderr.write(
                "warning: the costs of recovery are others than when this tuning was made: its answer is "
                "judged anew, and --new searches anew\n"
            )
            return None
        return kept

    @property
    def _before(self) -> dict[str, Before]:
        """Settings of the user's conf that may move."""
        own = OwnConf({}, {}, ()) if self.conf is None else self.conf
        return {name: Before(value, False, name in own.by_sql) for name, value in own.moved.items()}

    def _journal(self) -> Journal:
        return self.conductor.file.read() or self.journal

    def _answer(self, platform: str) -> KeptAnswer:
        """The answer so far, which is kept for readers that have no server."""
        journal = self._journal()
        facts = self.conductor.facts(journal)
        judge = self._recorded_judge()

        @cache
        def at_speed_of(conf: Candidate) -> RecordedJudge:
            return self.judge(self._speed(conf, facts))

        own = OwnConf({}, {}, ()) if self.conf is None else self.conf
        version_num, kept = self.load.install.version_num, {**self.load.base, **self.plan.keep}
        moved = name_compression(own.moved, version_num, partial(accepts, self.load.install))
        found = answer(facts, judge, at_speed_of, moved)
        fast = at_speed_of(found.conf)
        taken = [step for step in journal.steps if step.finished]
        left = lines_left(moved, kept, found.conf, fast, self.bounds.is_too_large_here, self.plan.margin)
        replaced = own.replaced(kept, version_num)
        asked = TuningContext(
            name=journal.name,
            load=self.load.name,
            install=journal.install,
            version_num=version_num,
            device=journal.device,
            before=self._before,
            replaced={name: value for name, value in replaced.items() if name not in left},
            not_moved=self.space.not_moved,
            left_out=(*own.left_out, *(f"{name}: {reason}" for name, reason in left.items())),
            crashes=self._crashes(taken, judge),
            wal_checks=self._wal_checks(journal, facts),
            limits=self._limits(taken, found.conf),
            runs=tuple(step.run for step in taken),
            seconds=tuple(step.seconds for step in taken),
            notes=(*judge.notes, *foreign_storage(platform)),
            at=self._ended_at(taken),
            command=shlex.join(journal.command),
            kept={
                name: value
                for name, value in kept.items()
                if name not in own.moved and own.kept.get(name) != value
            },
            hosts=host_study(taken, self.conductor.store, facts.plan.objective.metric),
        )
        changes = lines_of(facts, found, asked, platform_named(platform)).changes
        pasted = {change.name: change.value for change in changes}
        is_promised = facts.plan.promises.memory_bytes is not None
        not_kept = broken_as_pasted(moved, pasted, found.conf, fast, is_memory_promised=is_promised)
        asked = replace(asked, broken_as_pasted=not_kept)
        made = KeptAnswer(found, asked, platform, journal.finished)
        keep_answer(self.conductor.file.folder, made)
        if made.finished:
            self._last_answer = made
        return made

    def _ended_at(self, taken: Sequence[StepTaken]) -> float:
        """When the last step had ended, Unix time."""
        for step in reversed(taken):
            trials = [trial for name in step.runs for trial in self.conductor.store.trials(name)]
            if trials:
                return max(trial.ended_at for trial in trials)
        return self.conductor.file.path.stat().st_mtime  # nothing but the recording

    def _speed(self, conf: Candidate, facts: TuningFacts) -> float:
        """Speed of the load with that configuration over the recorded, at least 1; 1 at an offered rate.
        Of a configuration that was not measured yet it is that of the best so far."""
        if self.workload.get("rate") is not None:
            return 1.0
        is_measured = any(row.candidate == conf and row.value for row in facts.measured)
        return max(1.0, speed_of(conf if is_measured else standing(facts).candidate, facts))

    def _crashes(self, taken: Sequence[StepTaken], judge: RecordedJudge) -> tuple[CrashCheck, ...]:
        found: list[CrashCheck] = []
        for step in taken:
            if step.step.purpose is not Purpose.CRASH:
                continue
            hosts = {each.run: each.host for each in step.hosts}
            for name in step.runs:
                trials, host = self.conductor.store.trials(name), hosts.get(name)
                found += crash_checks(step.step.candidates[0], trials, judge, host)
        return tuple(found)

    def _wal_checks(self, journal: Journal, facts: TuningFacts) -> tuple[WalCheck, ...]:
        found: list[WalCheck] = []
        for step in journal.steps:
            if not step.finished or not step.step.as_recorded or journal.recorded is None:
                continue
            hosts = {each.run: each.host for each in step.hosts}
            # A timed checkpoint comes where it comes in the run, which is as much shorter as it is faster.
            judge = self.judge(run_speed(step.step.candidates[0], facts))
            for name in step.runs:
                trials = self.conductor.store.trials(name)
                found += wal_checks(step.step, trials, judge, journal.recorded.metrics, hosts.get(name))
        return tuple(found)

    def _limits(self, taken: Sequence[StepTaken], conf: Candidate) -> tuple[tuple[str, str], ...]:
        """What limits the advised configuration in the last fresh step that measured it."""
        for step in reversed(taken):
            if step.run is not None and shows_limits(step.step, conf):
                run = self.conductor.store.run(step.run)
                return limits_now(run.plan, self.conductor.store.trials(run.id), candidate_name(conf))
        return ()

    def close(self) -> None:
        """Close the store."""
        self.conductor.store.close()

    def _judged(self, candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
        return self._recorded_judge()(candidate)

    def _recorded_judge(self) -> RecordedJudge:
        if self._kept_judge is None:
            self._kept_judge = self.judge()
        return self._kept_judge

    _kept_judge: RecordedJudge | None = None
    _last_answer: KeptAnswer | None = None

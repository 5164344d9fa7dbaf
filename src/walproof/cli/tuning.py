"""Makes a tuning from its options. Its live and its offline half meet here."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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
from walproof.advise.tune.space import Bounds, Capacity, RefusedThere, SearchSpace, search_space
from walproof.advise.tune.standing import standing
from walproof.advise.tune.starts import OwnConf, as_start, own_conf
from walproof.analysis.tuning.search import TuneSearch
from walproof.cli import options
from walproof.cli.costs import find_costs
from walproof.cli.promises import may_lose
from walproof.cli.study_options import one_configuration, parse_names
from walproof.cli.tune_hosts import host_study
from walproof.cli.tune_kept import require_kept, require_possible
from walproof.cli.tune_objective import objective_of, warn_of_distance
from walproof.cli.tune_progress import TuningProgress
from walproof.errors import StoreError, StudyError
from walproof.facts.codec import measured_json
from walproof.facts.tuning import (
    DEFAULT,
    Candidate,
    CandidatePrediction,
    Limit,
    Promises,
    Purpose,
    RuledOut,
    Step,
    TuningFacts,
    TuningPlan,
)
from walproof.facts.tuning_answers import candidate_name
from walproof.facts.tuning_journal import Journal, JournalFile, StepTaken, tuning_name
from walproof.files import existing_above
from walproof.lab.load_file import read_load, slug, with_workload
from walproof.lab.sizes import EMPTY_CLUSTER_BYTES, SCALE_BYTES, SEGMENTS_BYTES
from walproof.lab.tune.conduct import Conductor
from walproof.lab.tune.load import PlanOrder, TuningLoad, plan_of
from walproof.platforms.registry import foreign_storage, refusal_there
from walproof.platforms.registry import platform as platform_named
from walproof.postgres.build import accepts
from walproof.postgres.install import find
from walproof.probe.environment import observe_environment
from walproof.report.tune.kept import KeptAnswer, keep_answer, kept_answer
from walproof.report.tune.view import TuneView, TuningContext, tune_view
from walproof.settings.change import Before, Change
from walproof.settings.pgtune import pgtune_conf
from walproof.settings.server_conf import files_of
from walproof.settings.usable import Takes
from walproof.settings.versions import name_compression
from walproof.units import Lsn, format_duration, parse_duration_s

if TYPE_CHECKING:
    from walproof.cli.tune import TuneOptions
    from walproof.cli.tune_hosts import RayHosts
    from walproof.facts import Install

_BUDGET = "45min"
_QUICK_BUDGET = "10min"
_WINDOWS = 120
"""Number of windows in a budget if neither load nor options say how long a window is."""
_WINDOW_S = (2.0, 60.0)
_WARMUP_SHARE = 0.2
_LEAST_WINDOWS = 10
"""A budget with room for fewer trials than this is refused."""
_TRIAL_OVERHEAD_S = 1.5
_COPY_BYTES_PER_S = 300e6
_TOO_LARGE = "larger than this machine can try, and left as it is on your server"
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
        )

    def view(self, platform: str) -> TuneView:
        """Report on what has been measured, and keep its answer. Raises StoreError, WalError."""
        kept = self._finished_answer()
        if kept is None:
            TuningProgress().answering()
            kept = self._answer(platform)
        return tune_view(
            self.conductor.facts(self._journal()), kept.answer, kept.asked, platform_named(platform)
        )

    def _finished_answer(self) -> KeptAnswer | None:
        """The answer that was made when the tuning was over; None without one, or with other costs."""
        if self._last_answer is not None:
            return self._last_answer
        journal = self._journal()
        if not journal.finished or self.calibration is not None:
            return None
        try:
            kept = kept_answer(self.conductor.file.folder)
        except StoreError:
            return None  # it is made again
        steps = [step for step in journal.steps if step.finished]
        return kept if kept is not None and kept.finished and len(kept.asked.runs) == len(steps) else None

    def _journal(self) -> Journal:
        return self.conductor.file.read() or self.journal

    def _answer(self, platform: str) -> KeptAnswer:
        """The answer so far, which is kept for readers that have no server."""
        journal = self._journal()
        facts = self.conductor.facts(journal)
        judge = self._recorded_judge()
        found = answer(facts, judge, self.judge(self._speed(facts)))
        taken = [step for step in journal.steps if step.finished]
        own = OwnConf({}, {}, ()) if self.conf is None else self.conf
        too_large = [name for name, value in own.moved.items() if self.bounds.is_too_large_here(name, value)]
        replaced = own.replaced(self.plan.keep, self.load.install.version_num)
        asked = TuningContext(
            name=journal.name,
            load=self.load.name,
            install=journal.install,
            version_num=self.load.install.version_num,
            device=journal.device,
            before={name: Before(value, False, name in own.by_sql) for name, value in own.moved.items()},
            replaced={name: value for name, value in replaced.items() if name not in too_large},
            not_moved=self.space.not_moved,
            left_out=(*own.left_out, *(f"{name}: {_TOO_LARGE}" for name in too_large)),
            crashes=self._crashes(taken, judge),
            wal_checks=self._wal_checks(journal, judge),
            limits=self._limits(taken, found.conf),
            runs=tuple(step.run for step in taken),
            seconds=tuple(step.seconds for step in taken),
            notes=(*judge.notes, *foreign_storage(platform)),
            at=self._ended_at(taken),
            command=shlex.join(journal.command),
            hosts=host_study(taken, self.conductor.store, facts.plan.objective.metric),
        )
        kept = KeptAnswer(found, asked, platform, journal.finished)
        keep_answer(self.conductor.file.folder, kept)
        if kept.finished:
            self._last_answer = kept
        return kept

    def _ended_at(self, taken: Sequence[StepTaken]) -> float:
        """When the last step had ended, Unix time."""
        for step in reversed(taken):
            trials = [trial for name in step.runs for trial in self.conductor.store.trials(name)]
            if trials:
                return max(trial.ended_at for trial in trials)
        return self.conductor.file.path.stat().st_mtime  # nothing but the recording

    def _speed(self, facts: TuningFacts) -> float:
        """Speed of the load with the best configuration, relative to the recorded; 1 at an offered rate."""
        if self.workload.get("rate") is not None or facts.plan.objective.metric != "tps":
            return 1.0
        found = standing(facts)
        return max(1.0, found.ratio or 1.0)

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

    def _wal_checks(self, journal: Journal, judge: RecordedJudge) -> tuple[WalCheck, ...]:
        found: list[WalCheck] = []
        for step in journal.steps:
            if not step.finished or not step.step.as_recorded or journal.recorded is None:
                continue
            hosts = {each.run: each.host for each in step.hosts}
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


def prepare(given: TuneOptions, command: Sequence[str], hosts: RayHosts | None = None) -> Tuning:
    """Resolve the options. Raises a WalproofError if a tuning is impossible with them."""
    tables, scripts = read_load(given.load)
    pg = tables.get("pg", [])
    install = find(given.pg or (str(pg[0]) if pg else None))
    tables = with_workload(tables, rate=given.rate)
    (workload,) = tables["workload"]
    objective = objective_of(given, workload)
    budget_s = _budget_s(given)
    window_s, warmup_s = _window(given, workload, budget_s)
    folder = options.work_folder(given.on, of_hosts=given.ray is not None)
    load = TuningLoad(
        slug(Path(given.load).stem), tables, scripts, folder, install, given.device, window_s, warmup_s
    )
    trial_s = window_s + _before_window_s(workload, warmup_s)
    if budget_s < _LEAST_WINDOWS * trial_s:
        raise StudyError(
            f"a budget of {format_duration(budget_s)} is too small",
            detail=f"A trial takes about {format_duration(trial_s)}, and a tuning needs at least "
            f"{_LEAST_WINDOWS} of them.",
            hint="Give a larger --budget, or a shorter --duration.",
        )
    promises = Promises(
        may_lose(given.may_lose),
        options.duration_s(given.recovery_target),
        None if given.wal_disk is None else options.positive_bytes("--wal-disk", given.wal_disk),
        None if given.memory is None else options.positive_bytes("--memory", given.memory),
    )
    machine = machine_of(folder)
    if hosts is not None:
        machine = hosts.narrowest(machine)
    takes = partial(accepts, install)
    only = None if given.only is None else parse_names(given.only)

    def refused(name: str, value: str) -> str | None:
        return refusal_there(given.platform, install.version_num, Change(name, value))

    conf = None if given.conf is None else _own_conf(given.conf, install, takes, only, refused)
    of_conf, of_keep = {} if conf is None else dict(conf.kept), one_configuration(given.keep or [])
    keep = {**of_conf, **of_keep}
    clients = int(workload.get("clients", 1))
    kept = {name.lower(): value for name, value in {**load.base, **keep}.items()}
    bounds = Bounds(install.version_num, machine, promises, clients, takes, kept, refused)
    require_kept(bounds, {"the load's [base]": load.base, "--conf": of_conf, "--keep": of_keep})
    space = search_space(
        bounds,
        only=only,
        is_offered=workload.get("rate") is not None,
    )
    warn_of_distance(objective, space.factors, window_s)
    own = DEFAULT if conf is None else _own_start(conf, space, install)
    starts = _starts(own, space, bounds)
    require_possible(bounds, only, starts)
    plan = TuningPlan(
        factors=space.factors,
        keep=keep,
        starts=starts,
        promises=promises,
        objective=objective,
        budget_s=budget_s,
        seed=given.seed,
        own=own if own != DEFAULT else None,
    )
    asked = PlanOrder("load", "The load", (DEFAULT,), keep, 1, given.seed)
    # Ranges depend on the free disk, which changes over time: a tuning that was begun keeps its ranges.
    moved = {} if conf is None else conf.moved
    depends = [measured_json(plan_of(load, asked)), str(given.only), json.dumps(dict(moved), sort_keys=True)]
    if given.ray is not None:
        depends.append("over hosts")
    if any(unmoved.limit is Limit.PLATFORM for unmoved in space.not_moved):
        depends.append(f"for {given.platform}")
    tunings = given.out.absolute() / "tunings"
    name = tuning_name(load.name, replace(plan, factors=(), starts=(), own=None), depends)
    file = JournalFile(tunings / name)
    journal = file.read()
    number = 2
    while given.new and journal is not None:
        # Earlier measurements stay; the new tuning has its own name, and so its own runs.
        file = JournalFile(tunings / f"{name}-{number}")
        journal, number = file.read(), number + 1
    if journal is None:
        journal = Journal(file.folder.name, plan, load.name, tuple(command), install.label, given.device)
    store = options.open_store(given.out, given.store)
    return Tuning(
        plan=journal.plan,
        space=space,
        load=load,
        journal=journal,
        conductor=Conductor(load, store, file, TuningProgress(), trial_s, hosts),
        bounds=bounds,
        conf=conf,
        calibration=given.calibration,
        trial_s=trial_s,
    )


def _budget_s(given: TuneOptions) -> float:
    """Wall time of the whole tuning. Raises UnitError, StudyError."""
    if given.quick and given.budget is not None:
        raise StudyError(
            "--quick and --budget both say how long the tuning takes",
            hint=f"Leave one of them out: --quick is --budget {_QUICK_BUDGET}.",
        )
    return parse_duration_s(given.budget or (_QUICK_BUDGET if given.quick else _BUDGET))


def _window(
    given: TuneOptions, workload: Mapping[str, object], budget_s: float
) -> tuple[float, float | None]:
    """(length of a window, warm-up if the load does not say it). Raises UnitError, StudyError."""
    if given.duration is not None:
        window = parse_duration_s(given.duration)
    elif workload.get("duration") is not None:
        window = parse_duration_s(workload["duration"])  # type: ignore[arg-type]
    else:
        least, most = _WINDOW_S
        window = float(round(min(most, max(least, budget_s / _WINDOWS - _TRIAL_OVERHEAD_S))))
    if workload.get("transactions") is not None and given.duration is None:
        raise StudyError(
            "a tuning needs windows of a fixed length, not of a number of transactions",
            hint="Give --duration 10s, or a duration in the workload.",
        )
    warmup = None if workload.get("warmup") is not None else float(round(max(1.0, window * _WARMUP_SHARE)))
    return window, warmup


def _before_window_s(workload: Mapping[str, object], warmup_s: float | None) -> float:
    """Time that a trial takes apart from its window: clone, start, warm-up, stop."""
    scale = int(str(workload.get("scale", 1)))
    copied = EMPTY_CLUSTER_BYTES + SEGMENTS_BYTES + scale * SCALE_BYTES
    warmup = parse_duration_s(str(workload["warmup"])) if warmup_s is None else warmup_s
    return _TRIAL_OVERHEAD_S + copied / _COPY_BYTES_PER_S + warmup


def _own_conf(
    path: Path, install: Install, takes: Takes, only: Collection[str] | None, refused: RefusedThere
) -> OwnConf:
    files = files_of(path)
    found = own_conf(files.settings, install.version_num, takes, only, refused)
    return replace(found, left_out=(*found.left_out, *files.missing), by_sql=files.by_sql)


def machine_of(folder: Path) -> Capacity:
    """Memory of this machine, and free disk for servers in that folder."""
    facts = observe_environment(Path("/"))
    free = shutil.disk_usage(existing_above(folder)).free
    return Capacity(int(facts.get("memory_bytes", 1 << 30)), free)


def _own_start(conf: OwnConf, space: SearchSpace, install: Install) -> Candidate:
    moved = name_compression(conf.moved, install.version_num, partial(accepts, install))
    return as_start(moved, space.factors, install.version_num)


def _starts(own: Candidate, space: SearchSpace, bounds: Bounds) -> tuple[Candidate, ...]:
    """The user's own configuration, and pgtune's without the lines that no configuration may have."""
    of_pgtune = {
        name: value
        for name, value in pgtune_conf(bounds.machine.memory_bytes, bounds.version_num // 10000).items()
        if bounds.refusal(name, value) is None
    }
    found = (own, as_start(of_pgtune, space.factors, bounds.version_num))
    return tuple(candidate for candidate in dict.fromkeys(found) if candidate != DEFAULT)

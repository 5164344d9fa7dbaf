"""A run from plan to stored facts: workspace, checks, templates, the run's record, then its trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from walproof import __version__
from walproof.disk.device import parse_device
from walproof.disk.flush import measure_flush
from walproof.disk.preload import check_program
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk
from walproof.errors import StudyError
from walproof.facts import Environment, Install, Plan, Run
from walproof.facts.codec import plan_hash, to_data
from walproof.facts.kept import KeptTrials
from walproof.facts.store import Store
from walproof.lab.alone import alone
from walproof.lab.failure import as_failure
from walproof.lab.joining import OtherHosts
from walproof.lab.kinds.registry import lab_kind
from walproof.lab.preflight import check
from walproof.lab.runner import conduct
from walproof.lab.schedule import Enough, Progress, RoundCells
from walproof.lab.trial import Bench, Trials, run_trial
from walproof.postgres import template as templates
from walproof.postgres.build import SERVER_PROGRAM, build_facts, server_program
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.wal_folder import wal_workspace
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.folders import own_folder
from walproof.privilege.user import explained, is_usual, server_user
from walproof.probe.environment import machine_facts, observe_environment
from walproof.sentences import say_list

_PATIENCE_S = 600.0
"""How long the end of a run waits for a store that is away."""
_GATE_PATIENCE_S = 3600.0
"""How long after its budget an interrupted gate is still resumed: tables are made first."""
_FLUSH_TEST_S = 3
"""Seconds for each of pg_test_fsync's first five tests, which run three times; its own default is 5."""


def execute(
    plan: Plan,
    store: Store,
    command: Sequence[str],
    cells_of: RoundCells,
    enough: Enough,
    progress: Progress,
    *,
    locks: Path,
    study_text: str | None = None,
    fresh: bool = False,
    keep_failures: Path | None = None,
    host: str | None = None,
    kept: Path | None = None,
    other_hosts: OtherHosts | None = None,
) -> Run:
    """Run ``plan``, or what is missing of an interrupted run of it, and return the finished run.

    ``command`` is what the user typed: an unfinished run of it whose plan has changed since is refused.
    ``fresh`` leaves unfinished runs alone and begins a new one. ``locks`` is a folder for lock files;
    ``study_text`` the TOML that is kept with the run; ``keep_failures`` a folder for images that fail after a
    power cut; ``host`` names this machine among several that carry out the same plan; ``kept`` is a folder
    for trials while a shared store is away; ``other_hosts`` are for the standbys of variants between hosts.
    Raises a WalproofError of whatever went wrong; trials that were stored stay stored.
    """
    unfinished = None if fresh else find_unfinished(store, plan, command, host, progress.preparing)
    lock = locks / f".{plan.study}-{plan_hash(plan)[:8]}.lock"
    with (
        alone(lock, f'running study "{plan.study}" into "{locks}"'),
        ready_to_run(plan, progress, keep_failures, other_hosts) as trials,
    ):
        environment = _environment(plan)
        named = {} if host is None else {"host": host}
        found = {} if other_hosts is None else other_hosts.facts()
        environment = replace(
            environment, facts={**environment.facts, **trials.test_itself(), **found, **named}
        )

        def begin() -> Run:
            return store.add_run(plan, command, environment, __version__, study_text)

        with _our_run(store, unfinished, begin) as run:
            stored = store if kept is None else KeptTrials(store, kept, _PATIENCE_S)
            conduct(stored, run, partial(run_trial, trials), cells_of, enough, progress)
        trials.forget()
    return store.run(run.id)


@contextmanager
def _our_run(store: Store, unfinished: Run | None, begin: Callable[[], Run]) -> Iterator[Run]:
    """The unfinished run, or a new one if there is none or another process goes on with it."""
    run = unfinished or begin()
    while True:
        with store.claim(run.id) as is_ours:
            if is_ours and store.run(run.id).finished_at is None:
                yield run
                return
        run = begin()


@contextmanager
def ready_to_run(
    plan: Plan,
    progress: Progress,
    keep_failures: Path | None = None,
    other_hosts: OtherHosts | None = None,
) -> Iterator[Trials]:
    """Check that the plan can run here, prepare its templates, and hand out what runs its trials.

    Everything but the templates is removed at the end, and templates that were long not asked for are, too.
    Raises a WalproofError naming all that is missing.
    """
    with opened_bench(plan, progress, keep_failures, other_hosts) as bench:
        with as_failure():
            trials = lab_kind(plan.kind).prepare(bench)
        yield trials


@contextmanager
def opened_bench(
    plan: Plan,
    progress: Progress,
    keep_failures: Path | None = None,
    other_hosts: OtherHosts | None = None,
) -> Iterator[Bench]:
    """Check that the plan can run here, and hand out where its trials can be prepared and run.

    Raises as ``ready_to_run``.
    """
    check(plan)
    user = server_user()
    if user is not None:
        progress.preparing(f"servers run as user {explained(user)}")
    reachable = {install.label: reachable_install(install, user) for install in plan.installs}
    pgbench = reachable_pgbench([*plan.installs, plan.driver], user)
    folders = sorted({variant.waldir for variant in plan.variants if variant.waldir is not None})
    half = lab_kind(plan.kind)
    with ExitStack() as stack, Workspace(Path(plan.folder), user) as workspace:
        wal = {folder: stack.enter_context(wal_workspace(Path(folder), user)) for folder in folders}
        if half.simulates_disk(plan):
            _check_simulated_disk(reachable, workspace)
        yield Bench(plan, workspace, reachable, pgbench, wal, progress, keep_failures, other_hosts)
        # Not before: gigabytes that are removed would keep the disk busy while it is measured.
        templates.forget_unused(workspace)


def find_unfinished(
    store: Store,
    plan: Plan,
    command: Sequence[str],
    host: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Run | None:
    """The interrupted run that ``plan`` continues. Raises StudyError when the study changed meanwhile.

    In a shared store there are runs of other machines, and runs that another process is carrying out: they
    are left alone. So are a run of a build that has been replaced since, and a gate that should be over for
    long: its rounds are to be of one time. ``tell`` is told that in a line. Raises InstallError, too."""
    digest = plan_hash(plan)
    here = machine_facts()
    open_runs = [
        run
        for run in store.runs()
        if run.finished_at is None
        and (plan_hash(run.plan) == digest or run.command == tuple(command))
        and _is_of_machine(run, here)
        and run.environment.facts.get("host") == host
        and _is_free(store, run)
    ]
    past = [run for run in open_runs if is_past(plan, run)]
    if past and tell is not None:
        tell(f"the gate of run {past[-1].id} is not resumed: its first rounds are of another time")
    open_runs = [run for run in open_runs if run not in past]
    for run in reversed(open_runs):
        if plan_hash(run.plan) == digest:
            replaced = replaced_builds(run, plan)
            if not replaced:
                return run
            if tell is not None:
                other = f"another build of PostgreSQL {say_list(replaced)}"
                tell(f"a new run, because run {run.id} was begun with {other}")
            return None
    for run in reversed(open_runs):
        if run.command == tuple(command) and run.plan.study == plan.study:
            raise StudyError(
                f'study "{plan.study}" has changed since run {run.id} was interrupted',
                detail="\n".join(differences(run.plan, plan)),
                hint="Undo the change to resume that run, or begin another one with --new.",
            )
    return None


def is_past(plan: Plan, run: Run) -> bool:
    """Whether the plan has a gate that was to be decided before now, had the run not been interrupted."""
    if plan.gate is None or run.plan.gate is None or plan.budget_s is None:
        return False
    return time.time() - run.created_at > plan.budget_s + _GATE_PATIENCE_S


def replaced_builds(run: Run, plan: Plan) -> tuple[str, ...]:
    """Labels of the plan's installs whose server program is not the one that the run had. A run of before
    this was stored says nothing of it. Raises InstallError."""
    return tuple(
        install.label
        for install in plan.installs
        if (known := run.environment.installs.get(install.label, {}).get(SERVER_PROGRAM)) is not None
        and known != server_program(install)
    )


def is_of_this_machine(run: Run) -> bool:
    """Whether nothing says that the run is of another machine."""
    return _is_of_machine(run, machine_facts())


def _is_of_machine(run: Run, machine: Mapping[str, str]) -> bool:
    """Whether nothing that the run's environment says about its machine differs."""
    return all(run.environment.facts.get(name, value) == value for name, value in machine.items())


def _is_free(store: Store, run: Run) -> bool:
    with store.claim(run.id) as is_ours:
        return is_ours


def differences(before: Plan, now: Plan) -> list[str]:
    """One line for each part of a plan that has changed."""
    old, new = to_data(before), to_data(now)
    lines = []
    for key, value in new.items():
        if old.get(key) == value:
            continue
        if isinstance(value, list) and isinstance(old.get(key), list):
            lines += _changed_items(key, old[key], value)
        else:
            lines.append(f"{key}: {old.get(key)!r} -> {value!r}")
    return lines


def _changed_items(key: str, old: list[object], new: list[object]) -> list[str]:
    lines = [f"{key}: no longer {_short(item)}" for item in old if item not in new]
    return lines + [f"{key}: now {_short(item)}" for item in new if item not in old]


def _short(item: object) -> str:
    if isinstance(item, dict):
        return ", ".join(f"{k}={v}" for k, v in item.items() if v not in (None, [], {}, ""))
    return str(item)


def _check_simulated_disk(reachable: dict[str, Install], workspace: Workspace) -> None:
    """Refuse before the first trial what would fail in every trial. Raises DiskError."""
    for install in reachable.values():
        check_program(Path(install.bindir) / "postgres")
    folder = workspace.make_folder("check")
    try:
        with acting_as(workspace.user):
            (folder / "data").mkdir()
        state = STATE_FOLDER / f"{workspace.folder.name}-check"
        with SimulatedDisk([folder / "data"], DiskModel(tracking=False), state, user=workspace.user):
            pass
    finally:
        workspace.remove_folder(folder)


def _environment(plan: Plan) -> Environment:
    facts = dict(observe_environment(Path(plan.folder)))
    if (user := server_user()) is not None:
        facts["server_user"] = user.name if is_usual(user) else "named by whoever ran it"
    if plan.device is not None:
        device = parse_device(plan.device)
        facts["emulated_device"] = f"{device.name} ({device.figures})"
    return Environment(
        facts=facts,
        installs={install.label: build_facts(install) for install in plan.installs},
        flush_rates=_flush_rates(plan),
    )


def _flush_rates(plan: Plan) -> dict[str, float | None]:
    if not plan.flush_rates:
        return {}
    program = Path(plan.driver.bindir) / "pg_test_fsync"
    if not program.exists():
        raise StudyError(
            f'study "{plan.study}" needs pg_test_fsync, which PostgreSQL {plan.driver.label} lacks',
            detail=f"Looked in {plan.driver.bindir}.",
            hint="--pg embedded has one.",
        )
    folder = own_folder(Path(plan.folder), passable=server_user() is not None)
    rates = measure_flush(program, folder, 1 if plan.quick else _FLUSH_TEST_S)
    return {rate.method: rate.flushes_per_s for rate in rates}

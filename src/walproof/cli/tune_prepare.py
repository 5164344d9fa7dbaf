"""Makes a tuning from its options."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

from walproof.advise.tune.space import Bounds, Capacity, RefusedThere, SearchSpace, search_space
from walproof.advise.tune.starts import OwnConf, as_start, own_conf, with_unsearched_kept
from walproof.cli import options
from walproof.cli.promises import may_lose
from walproof.cli.study_options import one_configuration, parse_names
from walproof.cli.tune_kept import require_kept, require_possible
from walproof.cli.tune_objective import objective_of, warn_of_distance
from walproof.cli.tune_progress import TuningProgress
from walproof.cli.tuning import Tuning
from walproof.errors import StudyError
from walproof.facts.codec import measured_json
from walproof.facts.tuning import DEFAULT, Candidate, Limit, Promises, TuningPlan
from walproof.facts.tuning_journal import Journal, journal_file, tuning_name
from walproof.files import existing_above
from walproof.lab.load_file import read_load, slug, with_workload
from walproof.lab.sizes import EMPTY_CLUSTER_BYTES, SCALE_BYTES, SEGMENTS_BYTES
from walproof.lab.tune.conduct import Conductor
from walproof.lab.tune.load import PlanOrder, TuningLoad, plan_of
from walproof.lab.tune.steps import OF_SLICES
from walproof.platforms.registry import refusal_there
from walproof.postgres.build import accepts
from walproof.postgres.install import find
from walproof.probe.environment import observe_environment
from walproof.settings.catalogue import as_shown, normalise
from walproof.settings.change import Change
from walproof.settings.pgtune import pgtune_conf
from walproof.settings.server_conf import files_of
from walproof.settings.usable import Takes
from walproof.settings.versions import name_compression
from walproof.units import format_duration, parse_duration_s

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
    # Over hosts the load is recorded here, too.
    folder = options.work_folder(given.on, of_hosts=given.ray is not None and given.dry_run)
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
    of_keep = as_shown(one_configuration(given.keep or []))
    of_conf = {} if conf is None else dict(conf.kept)
    clients = int(workload.get("clients", 1))
    kept = {**load.base, **of_conf, **of_keep}
    is_archiving = conf is not None and conf.is_archiving
    not_here = {} if conf is None else conf.not_here
    bounds = Bounds(
        install.version_num, machine, promises, clients, takes, kept, refused, is_archiving, not_here
    )
    require_kept(bounds, {"the load's [base]": load.base, "--conf": of_conf, "--keep": of_keep})
    toggles = workload.get("rate") is None and objective.metrics <= OF_SLICES
    conf, bounds, space = _searched(conf, bounds, only, toggles=toggles)
    keep = {**({} if conf is None else conf.kept), **of_keep}
    warn_of_distance(objective, space.factors, window_s)
    own = DEFAULT if conf is None else _own_start(conf, space, bounds, install)
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
    if not_here:
        depends.append(f"without {json.dumps(dict(not_here), sort_keys=True)}")
    if is_archiving and promises.wal_disk_bytes is not None:
        depends.append("archiving")  # of which pg_wal has less room
    if given.ray is not None:
        depends.append("over hosts")
    if any(unmoved.limit is Limit.PLATFORM for unmoved in space.not_moved):
        depends.append(f"for {given.platform}")
    store = options.open_store(given.out, given.store)
    if store.is_shared:
        # Machines that are alike may begin the same tuning at the same time.
        depends.append(f"on {gethostname()}")
    name = tuning_name(load.name, replace(plan, factors=(), starts=(), own=None), depends)
    # Who shares the store may tune the same load from another folder: those measurements are of other disks,
    # or of another time.
    taken = {run.plan.study.rpartition("-")[0] for run in store.runs()} if store.is_shared else set()
    # With --new, earlier measurements stay; the new tuning has its own name, and so its own runs.
    file = journal_file(given.out.absolute() / "tunings", name, new=given.new, taken=taken)
    journal = file.read()
    if journal is None:
        journal = Journal(file.folder.name, plan, load.name, tuple(command), install.label, given.device)
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
    return replace(
        found,
        left_out=(*found.left_out, *files.missing),
        by_sql=files.by_sql,
        is_archiving=normalise("archive_mode", files.settings.get("archive_mode", "off")) != "off",
    )


def machine_of(folder: Path) -> Capacity:
    """Memory of this machine, and free disk for servers in that folder."""
    facts = observe_environment(Path("/"))
    free = shutil.disk_usage(existing_above(folder)).free
    return Capacity(int(facts.get("memory_bytes", 1 << 30)), free)


def _searched(
    conf: OwnConf | None, bounds: Bounds, only: Collection[str] | None, *, toggles: bool
) -> tuple[OwnConf | None, Bounds, SearchSpace]:
    """The search space, and conf and bounds with what is not searched of the conf among what is kept."""
    while True:
        space = search_space(bounds, only=only, toggles=toggles)
        if conf is None:
            return conf, bounds, space
        parted = with_unsearched_kept(conf, {factor.setting for factor in space.factors}, bounds, only)
        if parted == conf:
            return conf, bounds, space
        # What is kept may leave another setting without what it needs.
        conf, bounds = parted, replace(bounds, keep={**parted.kept, **bounds.keep})
        only = None if only is None else [name for name in only if name not in parted.kept]


def _own_start(conf: OwnConf, space: SearchSpace, bounds: Bounds, install: Install) -> Candidate:
    """The user's own configuration, without the lines that this machine cannot try."""
    moved = name_compression(conf.moved, install.version_num, partial(accepts, install))
    here = {name: value for name, value in moved.items() if not bounds.is_too_large_here(name, value)}
    return as_start(here, space.factors, install.version_num)


def _starts(own: Candidate, space: SearchSpace, bounds: Bounds) -> tuple[Candidate, ...]:
    """The user's own configuration, and pgtune's without the lines that no configuration may have."""
    of_pgtune = {
        name: value
        for name, value in pgtune_conf(bounds.machine.memory_bytes, bounds.version_num // 10000).items()
        if bounds.refusal(name, value) is None
    }
    found = (own, as_start(of_pgtune, space.factors, bounds.version_num))
    return tuple(candidate for candidate in dict.fromkeys(found) if candidate != DEFAULT)

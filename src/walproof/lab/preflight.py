"""What a plan needs from this machine, checked before the first trial and reported all at once."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from walproof.disk.simulated import DiskModel
from walproof.errors import StudyError
from walproof.facts import Plan, Variant
from walproof.files import existing_above, folder_bytes
from walproof.lab.kind import Length
from walproof.lab.kinds.registry import lab_kind
from walproof.lab.kinds.throughput.sliced import WARM_S
from walproof.lab.sizes import (
    EMPTY_CLUSTER_BYTES,
    SCALE_BYTES,
    SEGMENTS_BYTES,
    WAL_BYTES_PER_S,
    at_once_bytes,
    server_bytes,
)
from walproof.postgres import template as templates
from walproof.postgres.build import missing_libraries, rejection
from walproof.postgres.wal_folder import check_wal_folder
from walproof.settings.catalogue import Catalogue
from walproof.settings.value import parse
from walproof.units import format_bytes
from walproof.workload.pgbench import setup_description

_SHM_BYTES = 16 << 20
"""Dynamic shared memory of a server without parallel queries takes about 1 MB; this leaves room for some."""
_OPEN_FILES = 100
_SERVER_PROCESSES = 24
"""More than a server has besides its sessions, with what walproof opens to watch it."""
_TRIAL_OVERHEAD_S = 1.0
_COPY_BYTES_PER_S = 300e6
_LOAD_BYTES_PER_S = 100e6


@dataclass(frozen=True, slots=True)
class Needs:
    """An estimate of what a plan takes. Bytes and seconds."""

    trials_most: int
    length: Length | None
    """All rounds with their overhead, and preparing; None when a workload counts transactions."""
    disk_bytes: int
    memory_bytes: int


def estimate(plan: Plan, templates_folder: Path) -> Needs:
    """The most that ``plan`` takes; templates that already exist cost nothing more."""
    half = lab_kind(plan.kind)
    sizes = {w.name: EMPTY_CLUSTER_BYTES + w.scale * SCALE_BYTES + SEGMENTS_BYTES for w in plan.workloads}
    missing = [
        (install, workload)
        for install in plan.installs
        for workload in plan.workloads
        if not (
            templates_folder / templates.key_of(install, plan.initdb_options, setup_description(workload))
        ).exists()
    ]
    # For each design whose trials are starts: how many starts, how long the slices of all workloads and
    # installs, how many servers of each of these.
    own_cells = plan.round_cells(1)
    cuts = [
        (cut.starts, sum(cell.variant == cut.baseline for cell in own_cells) * cut.start_s(turns), servers)
        for cut, turns, servers in (
            (plan.toggling, len(plan.toggled), 1),
            (plan.slicing, len(plan.turns), len(plan.sliced)),
        )
        if cut is not None
    ]
    in_slices = len(plan.toggled) + len(plan.sliced)
    fresh = plan.rounds * len(plan.installs) * (len(plan.variants) - in_slices)
    each = fresh + sum(starts * servers for starts, _, servers in cuts) * len(plan.installs)
    wal_bytes = half.wal_bytes(plan, max(_max_wal_size(plan, v) for v in plan.variants))
    disk_bytes = half.disk_bytes(plan, wal_bytes)
    if disk_bytes is None:
        # Copies that took turns are kept for later starts, of each workload.
        in_turns = [size + min(wal_bytes, _sliced_wal_bytes(plan)) for size in sizes.values()]
        disk_bytes = sum(sizes[w.name] for _, w in missing)
        disk_bytes += len(plan.sliced) * len(plan.installs) * sum(in_turns)
        if not plan.slices_all or plan.toggling is not None:
            disk_bytes += max(sizes.values()) + wal_bytes
    length: Length | None = None
    if all(workload.duration_s is not None for workload in plan.workloads):
        window_s = sum(fresh * (w.duration_s or 0.0) for w in plan.workloads)
        window_s += sum(starts * slices_s for starts, slices_s, _ in cuts)
        duration_s = window_s + sum(
            each * (w.warmup_s + _TRIAL_OVERHEAD_S + sizes[w.name] / _COPY_BYTES_PER_S)
            for w in plan.workloads
        )
        duration_s += sum(5.0 + sizes[workload.name] / _LOAD_BYTES_PER_S for _, workload in missing)
        length = half.length(plan, Length(window_s, duration_s))
    clients = max(workload.clients for workload in plan.workloads)
    memory = {
        variant.name: server_bytes(plan.installs[0].version_num, plan.settings_of(variant), clients)
        for variant in plan.variants
    }
    return Needs(
        trials_most=plan.trials_most,
        length=length,
        disk_bytes=disk_bytes,
        memory_bytes=max(*memory.values(), at_once_bytes(plan)),
    )


def check(plan: Plan) -> None:
    """Raise StudyError naming everything that keeps the plan from running here.

    That is disk, memory, shared memory and open files that are too small, what the installs were built
    without, and what the conditions of a variant need.
    """
    machine, files, builds, conditions = _machine(plan), _open_files(plan), _builds(plan), _conditions(plan)
    if not any((machine, files, builds, conditions)):
        return
    hint = lab_kind(plan.kind).hint_when_missing
    hints = [hint] if conditions and hint is not None else []
    if machine:
        hints.append("A smaller scale or max_wal_size, a shorter load, or another folder (--on) needs less.")
    if files:
        hints.append("ulimit -n raises the limit for what this shell starts.")
    if builds:
        hints.append("--pg names another install; the embedded one has no contrib modules, lz4 or zstd.")
    raise StudyError(
        f'study "{plan.study}" cannot run here',
        detail="\n".join([*machine, *files, *builds, *conditions]),
        hint=" ".join(hints),
    )


def _machine(plan: Plan) -> list[str]:
    work = Path(plan.folder)
    kept = work / "templates"
    needs = estimate(plan, kept)
    existing = existing_above(work)
    free_bytes = shutil.disk_usage(existing).free
    found = {
        f"free disk in {existing}": (needs.disk_bytes, free_bytes),
        "available memory": (needs.memory_bytes, psutil.virtual_memory().available),
    }
    if Path("/dev/shm").is_dir():
        # What a power cut could undo is kept there, up to a bound (walproof.disk.simulated).
        undo_bytes = DiskModel().undo_bytes if lab_kind(plan.kind).loses_power(plan) else 0
        found["free shared memory in /dev/shm"] = (
            _SHM_BYTES + undo_bytes,
            shutil.disk_usage("/dev/shm").free,
        )
    for waldir in sorted({v.waldir for v in plan.variants if v.waldir is not None}):
        check_wal_folder(Path(waldir), work)
        wal_bytes = max(_max_wal_size(plan, v) for v in plan.variants if v.waldir == waldir)
        found[f"free disk in {waldir}"] = (wal_bytes + SEGMENTS_BYTES, shutil.disk_usage(waldir).free)
    problems = [
        f"{what}: needs about {format_bytes(needed)}, there is {format_bytes(there)}"
        for what, (needed, there) in found.items()
        if needed > there
    ]
    if needs.disk_bytes > free_bytes and (taken := folder_bytes(kept)):
        problems.append(f"what earlier runs prepared takes {format_bytes(taken)} and may be deleted: {kept}")
    return problems


def _open_files(plan: Plan) -> list[str]:
    descriptors = os.sysconf("SC_OPEN_MAX")
    needed = max(workload.clients for workload in plan.workloads)
    if plan.slicing is not None:
        # Servers that wait are stopped, and a handle of each of their processes is held meanwhile.
        needed = len(plan.turns) * (needed + _SERVER_PROCESSES)
    needed += _OPEN_FILES
    if 0 < descriptors < needed:
        return [f"open files: needs about {needed}, the limit is {descriptors}"]
    return []


def _builds(plan: Plan) -> list[str]:
    """What each server's own binary objects to in each variant.

    The table of settings knows what a version has; only the install knows what it was built with
    (wal_compression=lz4 needs a build with lz4) and whether it brought contrib along.
    """
    problems = []
    for install in plan.installs:
        for variant in plan.variants:
            settings = plan.settings_of(variant)
            complaint = rejection(install, settings)
            if complaint is not None:
                said = " ".join(line.split(":", 1)[-1].strip() for line in complaint.splitlines())
                problems.append(f"{variant.name}: PostgreSQL {install.label} says: {said}")
            problems += [
                f'{variant.name}: PostgreSQL {install.label} has no library "{name}"'
                for name in missing_libraries(install, settings)
            ]
    return problems


def _conditions(plan: Plan) -> list[str]:
    """What keeps an install, or this machine, from the conditions of each variant."""
    half = lab_kind(plan.kind)
    found = [
        f"{variant.name}: {reason}"
        for variant in plan.variants
        for install in plan.installs
        if (reason := half.missing(variant, install)) is not None
    ]
    return list(dict.fromkeys(found))


def _sliced_wal_bytes(plan: Plan) -> int:
    """The most WAL that a server writes in its turns."""
    if plan.slicing is None:
        return 0
    slices_s = plan.slicing.passes * (plan.slicing.slice_s + plan.slicing.guard_s)
    warmup_s = max(workload.warmup_s for workload in plan.workloads)
    return int((max(WARM_S, warmup_s) + slices_s) * WAL_BYTES_PER_S)


def _max_wal_size(plan: Plan, variant: Variant) -> int:
    complete = plan.settings_of(variant)
    if "max_wal_size" not in complete:
        return 1 << 30
    setting = Catalogue.for_version(plan.installs[0].version_num).get("max_wal_size")
    return int(parse(setting, complete["max_wal_size"])) << 20

"""What a plan needs of this machine, checked before the first trial and complained of all at once."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from walproof.disk.simulated import DiskModel
from walproof.errors import StudyError
from walproof.facts import Plan, Variant
from walproof.lab.crash import shared_buffers
from walproof.lab.replay_recording import recording_key
from walproof.postgres import template as templates
from walproof.postgres.build import missing_libraries, rejection
from walproof.postgres.kernel_audit import audit_refusal
from walproof.postgres.wal_folder import check_wal_folder
from walproof.settings.catalogue import Catalogue
from walproof.settings.value import parse
from walproof.units import format_bytes
from walproof.wal.recovery import PAGE_BYTES
from walproof.workload.pgbench import setup_description

_EMPTY_CLUSTER_BYTES = 40 << 20
_SCALE_BYTES = 16 << 20
"""pgbench's tables and indexes grow by 15 to 16 MB with each unit of scale (measured, 13 to 18)."""
_SEGMENTS_BYTES = 96 << 20
"""Recycled segments (min_wal_size) that every template keeps."""
_SEGMENT_BYTES = 16 << 20
_ROW_BYTES, _ROW_IMAGE_BYTES, _ROW_WAL_BYTES = 160, 60, 300
"""A row of the partitioned tables: with its index entry, as its part of a leaf page, and as WAL without
images (measured on 18)."""
_LOADED_ROW_BYTES = 4 << 10
"""WAL of a loaded row with several indexes, generously (bulk-load: 500 bytes)."""
_BACKEND_BYTES = 8 << 20
_SHM_BYTES = 16 << 20
"""Dynamic shared memory of a server without parallel queries takes about 1 MB; room for some."""
_TRIAL_OVERHEAD_S = 1.0
_COPY_BYTES_PER_S = 300e6
_LOAD_BYTES_PER_S = 100e6
_CUT_S = 2.0
_IMAGE_S = 0.5
"""A power cut with its load, and each of its images, where the clusters are small (2 cores)."""


@dataclass(frozen=True, slots=True)
class Needs:
    """An estimate of what a plan takes. Bytes and seconds."""

    trials_most: int
    window_s: float | None
    """Sum of all measurement windows; None when a workload counts transactions."""
    duration_s: float | None
    """All rounds with their overhead, and preparing; None when a workload counts transactions."""
    disk_bytes: int
    memory_bytes: int


def estimate(plan: Plan, templates_folder: Path) -> Needs:
    """What ``plan`` takes at most; templates that exist already cost nothing more."""
    sizes = {w.name: _EMPTY_CLUSTER_BYTES + w.scale * _SCALE_BYTES + _SEGMENTS_BYTES for w in plan.workloads}
    missing = [
        (install, workload)
        for install in plan.installs
        for workload in plan.workloads
        if not (
            templates_folder / templates.key_of(install, plan.initdb_options, setup_description(workload))
        ).exists()
    ]
    trials = plan.rounds * len(plan.cells)
    each = plan.rounds * len(plan.installs) * len(plan.variants)
    wal_bytes = max(_max_wal_size(plan, v) for v in plan.variants)
    if plan.load is not None:
        # A load ends long before it fills a large max_wal_size; the size of its rows is checked where they
        # are prepared (walproof.lab.load_source).
        wal_bytes = min(wal_bytes, plan.load.rows * _LOADED_ROW_BYTES)
    window_s: float | None = None
    duration_s: float | None = None
    if all(workload.duration_s is not None for workload in plan.workloads):
        window_s = sum(each * (w.duration_s or 0.0) for w in plan.workloads)
        duration_s = window_s + sum(
            each * (w.warmup_s + _TRIAL_OVERHEAD_S + sizes[w.name] / _COPY_BYTES_PER_S)
            for w in plan.workloads
        )
        duration_s += sum(5.0 + sizes[workload.name] / _LOAD_BYTES_PER_S for _, workload in missing)
    if plan.power_cut is not None and duration_s is not None:
        cuts_s = trials * (_CUT_S + plan.power_cut.images * _IMAGE_S)
        window_s, duration_s = (0.0, cuts_s) if plan.power_cut.only else (window_s, duration_s + cuts_s)
    return Needs(
        trials_most=trials,
        window_s=window_s,
        duration_s=duration_s,
        disk_bytes=_standby_disk_bytes(plan, wal_bytes)
        or sum(sizes[w.name] for _, w in missing) + max(sizes.values()) + wal_bytes,
        memory_bytes=max(
            shared_buffers(plan.installs[0].version_num, plan.settings_of(v)) for v in plan.variants
        )
        * PAGE_BYTES
        + max(w.clients for w in plan.workloads) * _BACKEND_BYTES,
    )


def _standby_disk_bytes(plan: Plan, wal_bytes: int) -> int:
    """What a study of standbys takes: recordings that are kept for all of the run, or two servers at a time;
    0 for any other study."""
    empty = _EMPTY_CLUSTER_BYTES + _SEGMENTS_BYTES
    if plan.replay is not None:
        recordings = {
            recording_key(plan, install.label, variant)
            for install in plan.installs
            for variant in plan.variants
        }
        # Base and WAL, in which at most every leaf page that was there has an image, in whole segments.
        each = _EMPTY_CLUSTER_BYTES + plan.replay.preloaded_rows * (_ROW_BYTES + _ROW_IMAGE_BYTES)
        each += plan.replay.rows * (_ROW_BYTES + _ROW_WAL_BYTES) + 2 * _SEGMENT_BYTES
        # Beside them, the copy that is replayed, or the primary whose WAL is recorded.
        return len(recordings) * each + (each + _SEGMENTS_BYTES) + len(plan.installs) * empty
    if plan.streaming is not None:
        cluster = empty + plan.streaming.preloaded_rows * _ROW_BYTES
        templates_made = len(plan.installs) * len({variant.replay.checksums for variant in plan.variants})
        return templates_made * (empty + cluster) + 2 * (cluster + wal_bytes)
    if plan.failover is not None:
        return len(plan.installs) * empty + 2 * (empty + wal_bytes)
    return 0


def check(plan: Plan) -> None:
    """Raise StudyError naming everything that keeps the plan from running here.

    That is disk, memory, shared memory and open files that are too small, and what the installs were built
    without.
    """
    machine, builds, audit = _machine(plan), _builds(plan), _audit(plan)
    if not machine and not builds and not audit:
        return
    hints = ["Kernel audit needs auditctl, CAP_AUDIT_CONTROL and that nobody else uses it."] if audit else []
    if machine:
        hints.append("A smaller scale or max_wal_size, or another folder (--on), needs less.")
    if builds:
        hints.append("--pg names another install; the embedded one has no contrib modules, lz4 or zstd.")
    raise StudyError(
        f'study "{plan.study}" cannot run here',
        detail="\n".join([*machine, *builds, *audit]),
        hint=" ".join(hints),
    )


def _machine(plan: Plan) -> list[str]:
    work = Path(plan.folder)
    needs = estimate(plan, work / "templates")
    existing = next(folder for folder in (work, *work.parents) if folder.exists())
    found = {
        f"free disk in {existing}": (needs.disk_bytes, shutil.disk_usage(existing).free),
        "available memory": (needs.memory_bytes, psutil.virtual_memory().available),
    }
    if Path("/dev/shm").is_dir():
        # What a power cut could undo is kept there, up to a bound (walproof.disk.simulated).
        is_cut = (
            plan.power_cut is not None
            or (plan.load is not None and plan.load.power_cut > 0)
            or (plan.crash is not None and plan.crash.power_cut)
        )
        undo_bytes = DiskModel().undo_bytes if is_cut else 0
        found["free shared memory in /dev/shm"] = (
            _SHM_BYTES + undo_bytes,
            shutil.disk_usage("/dev/shm").free,
        )
    for waldir in sorted({v.waldir for v in plan.variants if v.waldir is not None}):
        check_wal_folder(Path(waldir), work)
        wal_bytes = max(_max_wal_size(plan, v) for v in plan.variants if v.waldir == waldir)
        found[f"free disk in {waldir}"] = (wal_bytes + _SEGMENTS_BYTES, shutil.disk_usage(waldir).free)
    problems = [
        f"{what}: needs about {format_bytes(needed)}, there is {format_bytes(there)}"
        for what, (needed, there) in found.items()
        if needed > there
    ]
    descriptors = os.sysconf("SC_OPEN_MAX")
    clients = max(workload.clients for workload in plan.workloads)
    if 0 < descriptors < clients + 100:
        problems.append(f"open files: needs about {clients + 100}, the limit is {descriptors}")
    return problems


def _builds(plan: Plan) -> list[str]:
    """What each server's own binary says against each variant.

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


def _audit(plan: Plan) -> list[str]:
    """What keeps the variants that want it from the kernel's audit."""
    audited = [variant.name for variant in plan.variants if variant.replay.kernel_audit != "off"]
    refusal = audit_refusal() if audited else None
    return [] if refusal is None else [f"{name}: kernel audit: {refusal}" for name in audited]


def _max_wal_size(plan: Plan, variant: Variant) -> int:
    complete = plan.settings_of(variant)
    if "max_wal_size" not in complete:
        return 1 << 30
    setting = Catalogue.for_version(plan.installs[0].version_num).get("max_wal_size")
    return int(parse(setting, complete["max_wal_size"])) << 20

"""Crashes and recoveries of throw-away clusters: images of a crash, and what a server needs to recover one.

    server runs, is filled -> every process is stopped for a moment, its files are copied -> it runs on, is
    filled further -> the next image.   Each image: cloned, its cache dropped or not, started, watched, read,
    removed.

The copy is what kill -9 would have left then: the kernel keeps what was written, and shared_buffers is lost.
(After a power cut torn pages and a smaller file or two come on top, which recovery repairs from the same WAL;
``walproof.lab.power_cut.cut`` cuts.) An image is taken without stopping the server for good, so one filled
cluster gives images at many distances; an image shortened by whole segments gives smaller distances, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from walproof.disk.read_limit import ReadLimit
from walproof.errors import DiskError
from walproof.facts import Install
from walproof.facts.recovery_log import RecoveryTimes, read_recovery_log
from walproof.files import folder_bytes
from walproof.lab.recovery.backed_memory import backed_memory, on_processor
from walproof.lab.recovery.memory_reserve import MemoryReserve
from walproof.lab.sizes import shared_buffers
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.control_file import read_redo
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.environment import child_environment
from walproof.privilege.user import running_as, server_user
from walproof.probe.device import find_device, find_mount
from walproof.probe.replay import ReplayCourse, ReplayWatch
from walproof.units import format_bytes
from walproof.wal import stats
from walproof.wal.recovery import PAGE_BYTES, find_redo
from walproof.wal.segment import segment_name
from walproof.wal.whatif import identify

_PATIENCE_S = 1800.0
"""The longest recovery that is waited for."""
_OTHER_MEMORY = 64 << 20
_NO_DISK = ("tmpfs", "ramfs")
"""What initdb chooses on any modern machine (src/bin/initdb/initdb.c, test_config_settings)."""


class Cache(Enum):
    """What the kernel has of the data directory when recovery starts."""

    WARM = "warm"
    """Everything, as after a crash of the server alone."""
    COLD = "cold"
    """Nothing, as after a reboot, on another host or from a snapshot."""


@dataclass(frozen=True, slots=True)
class CrashImage:
    """A copy of a data directory as a crash would leave it, in ``folder``/data."""

    install: Install
    folder: Path

    @property
    def wal(self) -> Path:
        """Its pg_wal."""
        return self.folder / "data" / "pg_wal"


@dataclass(frozen=True, slots=True)
class MeasuredRecovery:
    """One recovery: what the server says of it, and what was seen from outside."""

    times: RecoveryTimes
    course: ReplayCourse
    cache: Cache
    log: str
    answer: tuple[object, ...] | None = None
    """The row that the query returned once the server was ready."""


def crash_server(cluster: Cluster) -> CrashImage:
    """Kill every process of a server; its own files are the image."""
    cluster.kill()
    cluster.forget_postmaster()
    templates.sync(cluster.folder)
    return CrashImage(cluster.install, cluster.folder)


def take_crash_image(cluster: Cluster, folder: Path) -> CrashImage:
    """Copy the files of a running server as they are at one moment. Raises DiskError, ClusterError."""
    with cluster.suspended():
        _copy(cluster.data, to=folder)
    # The file belongs to the server that lives on: nobody is to take the copy for its own.
    with acting_as(cluster.user):
        (folder / "data" / "postmaster.pid").unlink(missing_ok=True)
    templates.sync(folder)
    return CrashImage(cluster.install, folder)


def recover(
    image: CrashImage,
    workspace: Workspace,
    settings: Mapping[str, str],
    cache: Cache = Cache.WARM,
    *,
    until: str | None = None,
    query: str | None = None,
    name: str = "recovery",
    iops: int | None = None,
    shares_wal: bool = False,
) -> MeasuredRecovery:
    """Start a server on a clone of ``image`` and return when it has recovered; the clone is removed.

    ``until``: the first segment that is left out, which shortens the distance; ``query``: of one row, asked
    when the server is ready; ``iops``: most reads that it may do each second; ``shares_wal``: segments that
    recovery only reads are the image's own (hard links), which saves most of the copying, and are not
    recycled, which saves the checkpoint at the end some time. Raises ClusterError when the image has no
    control file or the server does not start, AnalysisError when it needed no redo, DiskError.
    """
    folder = workspace.make_folder(name)
    try:
        _clone(image, folder, until, shares_wal=shares_wal)
        cluster = Cluster(image.install, workspace, folder)
        watch, answer = ReplayWatch(), None
        with contextlib.ExitStack() as stack:
            limit = None
            if iops is not None:
                limit = stack.enter_context(ReadLimit(workspace.helper(), find_device(folder), iops))
            buffers = shared_buffers(image.install.version_num, settings)
            # A little more than shared_buffers, because the server has other memory, too.
            need = buffers * PAGE_BYTES * 5 // 4 + _OTHER_MEMORY
            wal_bytes = 0
            if cache is Cache.COLD:
                # The kernel needs memory as well, for pages that are read and written and, in large blocks,
                # for WAL.
                drop_cache(folder / "data")
                wal_bytes = folder_bytes(folder / "data" / "pg_wal")
                need += folder_bytes(folder / "data") - wal_bytes
            memory = stack.enter_context(backed_memory(need))
            stack.enter_context(MemoryReserve(wal_bytes, memory.processor))
            try:
                with on_processor(memory.processor):
                    # The server would write new WAL into a recycled segment, and so into the image's.
                    kept = {"wal_recycle": "off"} if shares_wal else {}
                    cluster.launch({"log_checkpoints": "on", **settings, **kept})
                if limit is not None:
                    limit.add(cluster.pid)
                watch.start(cluster.pid)
                cluster.wait_until_ready(_PATIENCE_S)
                if query is not None:
                    with cluster.connect() as connection:
                        answer = connection.execute(query.encode()).fetchone()
            finally:
                course = watch.stop()
                cluster.stop("immediate")
        log = cluster.log_text()
        return MeasuredRecovery(read_recovery_log(log), course, cache, log, answer)
    finally:
        workspace.remove_folder(folder)


def _clone(image: CrashImage, folder: Path, until: str | None, *, shares_wal: bool) -> None:
    """Put what recovery needs of the image into ``folder``, and bring it to the disk."""
    if shares_wal:
        _copy_with_links(image, folder / "data")
    else:
        templates.clone(image.folder, folder, flush=False)
    wal = folder / "data" / "pg_wal"
    first = _redo_segment(image)
    with acting_as(server_user()):
        for path in wal.iterdir():
            if len(path.name) == 24 and (path.name < first or (until is not None and path.name >= until)):
                path.unlink()
    if shares_wal:
        written = _end_segment(wal)
        _copy(*(image.wal / path.name for path in wal.iterdir() if path.name >= written), to=wal)
    templates.sync(folder)


def _copy_with_links(image: CrashImage, data: Path) -> None:
    """Copy everything but the WAL."""
    source = image.folder / "data"
    with acting_as(server_user()):
        data.mkdir()
        shutil.copystat(source, data)
    _copy(*(path for path in source.iterdir() if path != image.wal), to=data)
    _copy(image.wal, to=data, links=True)


def _redo_segment(image: CrashImage) -> str:
    """The segment in which redo begins, according to the control file: the first that its server had to keep.
    Older ones were kept for us (wal_keep_size). The checkpoint at the end would remove them, at up to 5 ms
    each; a server that has already removed them would not have to."""
    redo, timeline = read_redo(image.folder / "data")
    _, segment_size = identify(image.wal, start=redo)
    return segment_name(redo, timeline, segment_size)


def _end_segment(wal: Path) -> str:
    """Name of the segment with the end of the WAL, where a recovered server goes on.

    Reading it also brings all of it into the kernel's cache, as copying would.
    """
    found = stats(wal, start=find_redo(wal).redo)
    return segment_name(found.end, found.timeline, found.segment_size)


def _copy(*paths: Path, to: Path, links: bool = False) -> None:
    """Copy files and folders with everything in them, replacing what ``to`` has of them. ``links``: make hard
    links to the same files instead. Raises DiskError."""
    how = ["--link"] if links else ["--reflink=auto", "--sparse=never", "--remove-destination"]
    done = subprocess.run(
        ["cp", "--archive", *how, "--target-directory", str(to), "--", *map(str, paths)],
        capture_output=True, text=True, check=False, cwd="/", env=child_environment(),
        **running_as(server_user()),
    )  # fmt: skip
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise DiskError("could not copy the files of the server", detail=said[-1] if said else None)


def drop_cache(folder: Path) -> None:
    """Make the kernel forget every file of a folder; what is dirty must have been synced before.

    (posix_fadvise(2), POSIX_FADV_DONTNEED.) Raises DiskError if there is no disk to read from again.
    """
    check_disk(folder)
    with acting_as(server_user()):
        for path in folder.rglob("*"):
            if path.is_symlink() or not path.is_file():
                continue
            file = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def check_disk(folder: Path, need_bytes: int = 0) -> None:
    """Raises DiskError if there is no disk under the folder, or too little space on it."""
    mount = find_mount(folder)
    if mount is not None and mount.filesystem in _NO_DISK:
        raise DiskError(
            f'folder "{folder}" is in memory ({mount.filesystem})',
            detail="There is no disk to read from and write to, so nothing can be said about one.",
            hint="Name a folder on the server's own kind of disk with --on.",
        )
    free = shutil.disk_usage(folder).free
    if free < need_bytes:
        raise DiskError(
            f'too little space in "{folder}"',
            detail=f"expected {format_bytes(need_bytes)} free, got {format_bytes(free)}",
            hint="Name a folder with more room with --on.",
        )

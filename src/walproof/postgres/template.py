"""Prepared data directories: made once, cloned for every trial, so that all trials start from equal bytes.

A template is known by a hash of everything that its bytes depend on. It is built inside the workspace and
moved into place when it is complete, so a template that exists is whole. Its folder's time of modification
is when a run last asked for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from walproof.errors import ClusterError, DiskError
from walproof.facts import Install
from walproof.files import folder_bytes
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.environment import child_environment
from walproof.privilege.user import ServerUser, running_as, server_user

_FORMAT = 1
UNUSED_DAYS = 14
"""Templates that no run has asked for in so long are removed by the next one."""
LEAST_FREE = 0.1
"""Where less of their disk is free, a run's end removes templates that it did not ask for."""

LOAD_SETTINGS = {
    # The load is thrown away if it is interrupted, so nothing needs to be durable before the final sync.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    # A COPY into a table of the same transaction writes no WAL under minimal.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "maintenance_work_mem": "256MB",
}

Setup = Callable[[Cluster], None]


def key_of(install: Install, initdb_options: Sequence[str], setup: str) -> str:
    """Name of the template for this install, these initdb options and this description of the load."""
    binary = Path(install.bindir) / "postgres"
    ingredients = [_FORMAT, install.version, str(binary.resolve()), binary.stat().st_mtime_ns]
    if (user := server_user()) is not None:
        ingredients.append(user.uid)  # who owns its files, and no other server can start on them
    text = json.dumps([*ingredients, list(initdb_options), setup])
    return f"{install.version}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def prepare_empty(workspace: Workspace, install: Install, initdb_options: Sequence[str]) -> Path:
    """The template's folder of a fresh data directory (initdb); built when it is missing.

    Raises ClusterError with what initdb said.
    """

    def build(folder: Path) -> None:
        Cluster(install, workspace, folder).init(initdb_options)

    return _prepare(workspace, key_of(install, initdb_options, ""), build)


def prepare_loaded(
    workspace: Workspace,
    install: Install,
    initdb_options: Sequence[str],
    setup: str,
    load: Setup,
    *,
    recycled_segments: bool = True,
) -> Path:
    """The template's folder after ``load``; built (clone, start, load, clean stop) when it is missing.

    ``setup`` describes what ``load`` does, for the key; ``recycled_segments`` leaves recycled segments of
    min_wal_size in all. Raises ClusterError, and whatever ``load`` raises."""

    def build(folder: Path) -> None:
        clone(prepare_empty(workspace, install, initdb_options), folder)
        cluster = Cluster(install, workspace, folder)
        cluster.start(LOAD_SETTINGS)
        try:
            load(cluster)
            if recycled_segments:
                _fill_recycled_segments(cluster)
        finally:
            has_stopped = cluster.stop("fast")
        if not has_stopped:
            # Its files may be of any moment, and every trial would start from them.
            raise ClusterError("the server of a template did not stop in time", detail=cluster.log_tail())
        with acting_as(workspace.user):
            cluster.log.unlink()
            (cluster.data / "walproof.conf").unlink()

    return _prepare(workspace, key_of(install, initdb_options, setup), build)


def forget(workspace: Workspace, template: Path) -> None:
    """Remove a template that nothing will start from again; leave it where other runs may be copying it."""
    assert template.parent == workspace.templates, template
    if not workspace.is_alone():
        return
    # Out of sight at once, so that nobody finds half of it.
    gone = workspace.make_folder(f"forgotten-{template.name}")
    template.replace(gone)
    workspace.remove_folder(gone)


def forget_unused(workspace: Workspace, least_free: float = LEAST_FREE) -> None:
    """Remove the templates that no run has asked for in ``UNUSED_DAYS``; none while another process may be
    copying one.

    Where a smaller share of their disk than ``least_free`` is free, others go as well, the one that was asked
    for the longest ago first, until it is; those that were asked for since the workspace began stay.
    """
    long_ago = time.time() - UNUSED_DAYS * 86_400
    disk = shutil.disk_usage(workspace.templates)
    missing_bytes = least_free * disk.total - disk.free
    for asked_at, template in sorted(_asked_for(workspace)):
        is_needed = asked_at >= workspace.began_at
        if asked_at < long_ago or (missing_bytes > 0 and not is_needed):
            missing_bytes -= folder_bytes(template)
            forget(workspace, template)


def _asked_for(workspace: Workspace) -> Iterator[tuple[float, Path]]:
    for template in workspace.templates.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            yield template.lstat().st_mtime, template


def is_prepared(workspace: Workspace, install: Install, initdb_options: Sequence[str], setup: str) -> bool:
    """Whether that template exists already."""
    return (workspace.templates / key_of(install, initdb_options, setup)).exists()


def _prepare(workspace: Workspace, key: str, build: Callable[[Path], None]) -> Path:
    home = workspace.templates / key
    with contextlib.suppress(FileNotFoundError):
        os.utime(home)
        return home
    folder = workspace.make_folder(f"template-{key}")
    try:
        build(folder)
        sync(folder)
        folder.replace(home)
    except OSError as error:
        if not home.exists():  # otherwise another process built the same one meanwhile
            raise ClusterError(f'could not keep template "{home}": {error.strerror}') from error
    finally:
        if folder.exists():
            workspace.remove_folder(folder)
    return home


def _fill_recycled_segments(cluster: Cluster) -> None:
    """Leave recycled segments of min_wal_size in all in pg_wal, as a server has after its first checkpoints.

    Without them every segment of a trial would be created and zero-filled inside the window.
    """
    with cluster.connect() as connection:
        row = connection.execute(
            "SELECT pg_size_bytes(current_setting('min_wal_size'))"
            " / pg_size_bytes(current_setting('wal_segment_size'))"
        ).fetchone()
        assert row is not None
        for _ in range(int(str(row[0]))):
            # A switch does nothing in a segment that holds no record yet; a transaction id writes one.
            connection.execute("SELECT txid_current()")
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")


def clone(template: Path, folder: Path, *, flush: bool = True) -> None:
    """Copy a template's data directory into ``folder``: shared extents where the filesystem can, else bytes.

    With ``flush`` it returns when the copy is on the disk, so that its write-back does not fall into a
    measurement. Raises DiskError.
    """
    copy([template / "data"], folder, f'clone template "{template.name}"')
    if flush:
        sync(folder)


def copy(paths: Sequence[Path], folder: Path, to_what: str) -> None:
    """Copy files, or folders with what is in them, into ``folder`` as the servers' user.

    ``to_what``: what it is done for, as a verb. Raises DiskError, as for a full disk.
    """
    words = ["cp", "--archive", "--reflink=auto", "--", *map(str, paths), str(folder)]
    _run(words, to_what, server_user())


def sync(folder: Path) -> None:
    """Write back everything dirty on the filesystem of ``folder`` (syncfs). Raises DiskError."""
    _run(["sync", "--file-system", str(folder.absolute())], f'write back the disk of "{folder}"')


def _run(words: Sequence[str], to_what: str, user: ServerUser | None = None) -> None:
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd="/", env=child_environment(),
        **running_as(user),
    )  # fmt: skip
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise DiskError(f"could not {to_what}", detail=said[-1] if said else None)

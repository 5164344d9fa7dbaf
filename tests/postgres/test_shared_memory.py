"""Shared memory that a server's process made and did not live to name."""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.shared_memory import free_unnamed_memory, shared_memory_of
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser, server_user


@pytest.fixture
def segment(workspace: Workspace) -> Iterator[Path]:
    """One as a process leaves it that is killed in dsm_create: all zeros, in no control segment."""
    path = Path("/dev/shm") / f"PostgreSQL.{secrets.randbelow(2**31)}"
    _make(path, workspace.user)
    yield path
    path.unlink(missing_ok=True)


def _make(path: Path, user: ServerUser | None) -> None:
    with acting_as(user):
        path.write_bytes(bytes(8192))


def test_a_segment_that_nobody_names_or_has_is_removed(segment: Path, workspace: Workspace) -> None:
    free_unnamed_memory(workspace.user)
    assert not segment.exists()


def test_a_segment_that_a_process_has_open_is_left_alone(segment: Path, workspace: Workspace) -> None:
    with segment.open():
        free_unnamed_memory(workspace.user)
        assert segment.exists()


def test_a_segment_that_a_process_has_mapped_is_left_alone(segment: Path, workspace: Workspace) -> None:
    with segment.open("r+b") as file:
        content = mmap.mmap(file.fileno(), 0)
    with content:
        free_unnamed_memory(workspace.user)
        assert segment.exists()


def test_a_segment_of_another_user_is_left_alone(workspace: Workspace) -> None:
    path = Path("/dev/shm") / f"PostgreSQL.{secrets.randbelow(2**31)}"
    if workspace.user is None:
        pytest.xfail("an unprivileged user makes no file of another one")
    _make(path, None)
    try:
        free_unnamed_memory(workspace.user)
        assert path.stat().st_uid == os.geteuid()
    finally:
        path.unlink()


@pytest.mark.live
@pytest.mark.pg(ends=True)
def test_a_running_server_keeps_its_memory(install: Install, workspace: Workspace) -> None:
    """Also the segments that only idle processes of it have mapped, or none."""
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder)
    cluster = Cluster(install, workspace, folder)
    try:
        cluster.start({"fsync": "off"})
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 1000)")
        _, before = shared_memory_of(cluster.data)
        free_unnamed_memory(workspace.user)
        assert before
        assert all(file.exists() for file in before)
        with cluster.connect() as connection:
            connection.execute(
                "SET debug_parallel_query = on"
                if install.version_num >= 160000
                else "SET force_parallel_mode = on"
            )
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (1000,)
    finally:
        cluster.stop("immediate")


def test_the_end_of_a_workspace_removes_it(work: Path) -> None:
    with Workspace(work, server_user()) as workspace:
        path = Path("/dev/shm") / f"PostgreSQL.{secrets.randbelow(2**31)}"
        _make(path, workspace.user)
    assert not path.exists()

"""Shared memory that a server's process made and did not live to name."""

from __future__ import annotations

import ctypes
import mmap
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.needs import lacking
from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.shared_memory import free_unnamed_memory, shared_memory_of
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser, server_user

_BYTES = 8192


@pytest.fixture
def segment(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[BinaryIO]:
    """One as a process leaves it that is killed in dsm_create: all zeros, in no control segment.

    Not in /dev/shm: other tests' workspaces end meanwhile, and may not see what our process has open."""
    folder = workspace.make_folder("memory")
    monkeypatch.setattr("walproof.postgres.shared_memory._FOLDER", folder)
    with _made(workspace.user, folder) as file:
        yield file


def _made(user: ServerUser | None, folder: Path = Path("/dev/shm")) -> BinaryIO:
    with acting_as(user):
        file = (folder / f"PostgreSQL.{secrets.randbelow(2**31)}").open("x+b")
        file.write(bytes(_BYTES))
        file.flush()
    return file


def test_a_segment_that_nobody_names_or_has_is_removed(segment: BinaryIO, workspace: Workspace) -> None:
    segment.close()
    free_unnamed_memory(workspace.user)
    assert not Path(segment.name).exists()


def test_a_segment_that_a_process_has_open_is_left_alone(segment: BinaryIO, workspace: Workspace) -> None:
    free_unnamed_memory(workspace.user)
    assert Path(segment.name).exists()


def test_a_segment_that_a_process_has_mapped_is_left_alone(segment: BinaryIO, workspace: Workspace) -> None:
    # Not by Python's mmap, which keeps a descriptor open.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    place = ctypes.c_void_p(
        libc.mmap(None, ctypes.c_size_t(_BYTES), mmap.PROT_READ, mmap.MAP_SHARED, segment.fileno(), 0)
    )
    segment.close()
    try:
        free_unnamed_memory(workspace.user)
        assert Path(segment.name).exists()
    finally:
        libc.munmap(place, ctypes.c_size_t(_BYTES))
    free_unnamed_memory(workspace.user)
    assert not Path(segment.name).exists()


def test_what_a_parallel_query_fills_is_not_read(segment: BinaryIO, workspace: Workspace) -> None:
    segment.truncate(1 << 40)
    free_unnamed_memory(workspace.user)
    assert Path(segment.name).exists()


def test_a_segment_of_another_user_is_left_alone(workspace: Workspace) -> None:
    if workspace.user is None:
        lacking("root", "a file of another user cannot be made")
    with _made(None) as file:
        path = Path(file.name)
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
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
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
    with Workspace(work, server_user()) as workspace, _made(workspace.user) as file:
        pass
    assert not Path(file.name).exists()

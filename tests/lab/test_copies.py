"""Copies of the tables that several starts use: taken in turn, and only after pgbench's own load."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.facts.server import store_server
from walproof.facts import Install, Script, Workload
from walproof.lab.kinds.throughput.copies import Copies, tidy
from walproof.postgres.cache import cache_folder
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

TPC_B = Workload("w", "tpcb-like", (), 1, 4, 2, 10.0, None, None, "simple", 0.0)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """A folder of this test's own where the servers' user can reach it."""
    folder = cache_folder(f"copies-{tmp_path.name}")
    yield folder
    shutil.rmtree(folder)


def test_a_copy_that_comes_back_is_used_again_and_the_first_to_come_goes_first(work: Path) -> None:
    with Workspace(work, server_user()) as workspace:
        template = workspace.templates / "18.4-abc"
        (template / "data").mkdir(parents=True)
        (template / "data/file").write_text("whole")
        copies = Copies(workspace)
        folders = [workspace.make_folder(name) for name in ("first", "second")]
        for folder in folders:
            copies.fetch(template, folder)
            (folder / "data/file").write_text(f"changed in {folder.name}")
        for folder in reversed(folders):
            copies.keep(template, folder)
            assert not (folder / "data").exists()
        found = []
        for name in ("third", "fourth", "fifth"):
            folder = workspace.make_folder(name)
            copies.fetch(template, folder)
            found.append((folder / "data/file").read_text())
        assert found == ["changed in second", "changed in first", "whole"]
    assert not list(work.glob("**/kept-*")), "copies go with their workspace"


@pytest.mark.live
def test_what_a_load_left_is_gone(work: Path, embedded: Install) -> None:
    user = server_user()
    install = reachable_install(embedded, user)
    with Workspace(work, user) as workspace, store_server(workspace, install) as server:
        with server.connect() as session:
            for name in ("accounts", "branches", "tellers", "history"):
                session.execute(f"CREATE TABLE pgbench_{name} (id int)".encode())
            session.execute("INSERT INTO pgbench_history VALUES (1)")
            session.execute("INSERT INTO pgbench_branches SELECT generate_series(1, 10000)")
            session.execute("DELETE FROM pgbench_branches")
            tidy(session)
            row = session.execute(
                "SELECT pg_relation_size('pgbench_history'), pg_relation_size('pgbench_branches')"
            ).fetchone()
        assert row == (0, 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"setup_sql": "CREATE TABLE t ()"}, False),
        ({"builtin": None, "scripts": (Script("s", "DELETE FROM pgbench_accounts"),)}, False),
    ],
)
def test_what_another_load_leaves_is_not_used_again(changes: dict[str, Any], *, expected: bool) -> None:
    assert replace(TPC_B, **changes).is_pgbenchs_own == expected

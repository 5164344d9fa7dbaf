"""Damaged pages are found where pg_checksums finds them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from walproof.disk.checksums import damaged_pages
from walproof.facts import CutConditions, Install
from walproof.lab.power_cut.cut import cut_initdb_options
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace


@pytest.mark.pg(">= 15", program="pg_checksums")
def test_as_pg_checksums(install: Install, workspace: Workspace) -> None:
    options = cut_initdb_options(install, CutConditions())
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, install, options), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start({"fsync": "off"})
    with cluster.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT g AS i, repeat('x', 50) AS s FROM generate_series(1, 5000) g"
        )
        connection.execute("VACUUM t")
        row = connection.execute("SELECT pg_relation_filepath('t')").fetchone()
    cluster.stop("fast")
    assert row is not None
    assert damaged_pages(cluster.data) == ()
    assert _pg_checksums(install, cluster.data) == 0

    table = cluster.data / str(row[0])
    for path, at in ((table, 3 * 8192 + 4096), (table, 7 * 8192 + 20), (Path(f"{table}_vm"), 100)):
        with path.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x40]))
    found = damaged_pages(cluster.data)
    assert [(page.fork, page.block) for page in found] == [("main", 3), ("main", 7), ("vm", 0)]
    assert {page.path for page in found} == {str(row[0]), f"{row[0]}_vm"}
    assert _pg_checksums(install, cluster.data) == 3
    # A part of a page at the end is nobody's: PostgreSQL counts whole pages.
    with table.open("ab") as file:
        file.write(b"rest")
    assert damaged_pages(cluster.data) == found


def _pg_checksums(install: Install, data: Path) -> int:
    done = subprocess.run(
        [str(Path(install.bindir) / "pg_checksums"), "--check", "-D", str(data)],
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.search(r"Bad checksums:\s+(\d+)", done.stdout)
    assert match is not None, done.stderr
    return int(match[1])

"""Statements measured on real servers: every byte of the WAL has a name, at every level, by every method."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.schemas import assert_valid
from tests.wal.server import BINDIRS
from walproof.analysis.statements import reconcile
from walproof.facts.store import Store

pytestmark = pytest.mark.live

STUDY = """
name = "levels"
title = "Who counts what?"
baseline = "replica"
[base]
autovacuum = "off"
bgwriter_lru_maxpages = 0
[design]
rounds = 1
probes = []
[[variant]]
name = "minimal"
settings = { wal_level = "minimal" }
[[variant]]
name = "replica"
# Nothing is flushed by itself while it is counted.
settings = { wal_level = "replica", synchronous_commit = "off", wal_writer_delay = "1s" }
[[workload]]
name = "three"
setup = "CREATE TABLE t (id int PRIMARY KEY, v text)"
[[workload.statement]]
name = "INSERT"
sql = "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 200) i"
explain = true
[[workload.statement]]
name = "CREATE TABLE AS"
setup = ["CHECKPOINT"]
sql = "CREATE TABLE copied AS SELECT * FROM t"
[[workload.statement]]
name = "DROP"
sql = "DROP TABLE copied"
"""


@pytest.mark.parametrize("version", ["18", *(["15"] if "15" in BINDIRS else [])])
def test_every_byte_has_a_name(version: str, tmp_path: Path) -> None:
    (tmp_path / "levels.toml").write_text(STUDY)
    done = walproof("run", "levels.toml", "--pg", str(BINDIRS[version]), "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bytes of WAL" in done.stderr
    store = Store(tmp_path / "out" / "walproof.sqlite")
    run = store.run("last")
    trials = store.trials(run.id)
    store.close()
    assert [trial.reason for trial in trials] == [None, None]
    methods = {"18": ("backend", "explain", "stat"), "15": ("statements", "explain", "stat")}[version]
    for trial in trials:
        for statement in run.plan.workloads[0].statements:
            found = reconcile(trial, statement.name)
            assert found is not None
            assert found.adds_up, found
            for method in methods:
                gap = found.gap(method)
                if method == "explain" and not statement.explain:
                    assert gap is None
                    continue
                assert gap is not None, (method, found)
                if method != "stat":  # of all processes, and late
                    assert gap.unexplained_bytes == 0, (trial.variant, method, found)
            if statement.name == "CREATE TABLE AS" and version == "15":
                gap = found.gap("statements")
                assert gap is not None
                images = {record.operation for record in gap.outside} - {"Transaction/COMMIT"}
                assert ("XLOG/FPI" in images) == (trial.variant == "minimal")
    page = json.loads(walproof("report", "last", "--out", "out", "--format", "json", cwd=tmp_path).stdout)
    assert_valid("report", page)
    assert page["analysis"]["metric"] == "wal_bytes_decoded"

"""Gates on real servers, by the statuses and files that a build server sees."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import walproof
from tests.schemas import assert_valid
from walproof.cli.status import ExitStatus
from walproof.facts import TrialState
from walproof.facts.store import Store

pytestmark = pytest.mark.live

SMALL = ("--pg", "embedded", "--scale", "1", "--clients", "2")
WAL = "wal_bytes_per_txn > 1.3x"


@pytest.mark.long
def test_a_version_that_writes_twice_the_rows_breaks_a_promise_about_wal(tmp_path: Path) -> None:
    """Its table and its script are the user's own; rows of one table are the other version's."""
    (tmp_path / "table.sql").write_text("CREATE TABLE t (a int, b text)")
    # Rows of 1.5 kB: what a server writes besides is little against them.
    row = "INSERT INTO t VALUES (1, repeat('x', 1500));\n"
    (tmp_path / "before.sql").write_text(row)
    (tmp_path / "after.sql").write_text(row * 4)
    done = walproof(
        "compare", "--setup", "table.sql", "--script", "after.sql", "--script-against", "before.sql", *SMALL,
        "--transactions", "1500", "--rounds", "3", "--fail-if", WAL, "--fail-if", "tps < 0.00001x",
        "--junit", "gate.xml", "--summary", "gate.md", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == ExitStatus.BROKEN, done.stderr
    assert "a gate of 2 promises: measures until it is decided, 10 min 00 s at most" in done.stderr
    assert "The gate is broken" in done.stdout
    cases = ElementTree.parse(tmp_path / "gate.xml").getroot().findall("testsuite/testcase")
    assert [case.get("name") for case in cases] == [f"fails if {WAL}", "fails if tps < 0.00001x"]
    assert cases[0].find("failure") is not None
    assert cases[1].find("failure") is None
    assert (tmp_path / "gate.md").read_text().startswith("# walproof: the gate is broken\n")


def test_equal_settings_on_one_server_hold(tmp_path: Path) -> None:
    """commit_delay is 0 anyway. The limits leave room for a busy machine: what is shown is the way, not how
    narrow intervals are."""
    done = walproof(
        "compare", "--set", "commit_delay=0", *SMALL, "--passes", "6", "--rounds", "1", "--json",
        "--fail-if", "wal_bytes_per_txn > 20x", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == ExitStatus.DONE, done.stderr
    document = json.loads(done.stdout)
    assert_valid("report", document)
    gate = document["gate"]
    assert gate["outcome"] == "holds"
    (judged,) = gate["judged"]
    assert judged["promise"] == {"metric": "wal_bytes_per_txn", "side": ">", "limit": 20.0}
    assert judged["interval"]["low"] < judged["ratio"] < judged["interval"]["high"] < 20


def test_versions_of_a_load_take_turns(tmp_path: Path) -> None:
    """One does ten times the work of the other, and both have a server in each start."""
    row = "INSERT INTO t VALUES (1, repeat('x', 1500));\n"
    (tmp_path / "table.sql").write_text("CREATE TABLE t (a int, b text)")
    (tmp_path / "before.sql").write_text(row)
    (tmp_path / "after.sql").write_text(row * 10)
    done = walproof(
        "compare", "--setup", "table.sql", "--script", "after.sql", "--script-against", "before.sql", *SMALL,
        "--passes", "4", "--rounds", "3", "--json", "--fail-if", "tps < 0.97x", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == ExitStatus.BROKEN, done.stderr
    document = json.loads(done.stdout)
    assert_valid("report", document)
    assert document["gate"]["judged"][0]["ratio"] < 0.5
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    trials = store.trials(store.run("last").id)
    store.close()
    assert [(trial.state, trial.workload) for trial in trials] == [(TrialState.DONE, "the other version")] * 3
    for trial in trials:
        counts = Counter(slice_.variant for slice_ in trial.slices)
        assert counts == {"this version": 4, "the other version": 4}


def test_a_version_whose_script_fails_is_an_error_with_undecided_ok(tmp_path: Path) -> None:
    (tmp_path / "old.sql").write_text("SELECT 1;\n")
    (tmp_path / "new.sql").write_text("SELECT absent FROM nowhere;\n")
    done = walproof(
        "compare", "--script", "new.sql", "--script-against", "old.sql", *SMALL, "--transactions", "50",
        "--rounds", "2", "--fail-if", WAL, "--undecided", "ok", "--junit", "gate.xml", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == ExitStatus.ERROR, done.stderr
    assert "error: the gate could not be measured: 2 of 2 trials of this version failed\n" in done.stderr
    assert 'relation "nowhere" does not exist' in done.stderr
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("errors") == "1"


def test_builds_take_turns(tmp_path: Path) -> None:
    """A start has a server of each, and each pass a slice of each."""
    done = walproof(
        "compare", "--pg", "embedded", "--pg", "embedded-16", "--scale", "1", "--clients", "2",
        "--passes", "3", "--rounds", "2", "--json", "--fail-if", "tps < 0.001x", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode in (ExitStatus.DONE, ExitStatus.UNDECIDED), done.stderr
    document = json.loads(done.stdout)
    assert_valid("report", document)
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    run = store.run("last")
    trials = store.trials(run.id)
    store.close()
    first, second = (install.label for install in run.plan.installs)
    assert [(trial.state, trial.install) for trial in trials] == [(TrialState.DONE, first)] * 2
    for trial in trials:
        assert Counter(slice_.variant for slice_ in trial.slices) == {first: 3, second: 3}
        assert all(slice_.transactions > 0 for slice_ in trial.slices)

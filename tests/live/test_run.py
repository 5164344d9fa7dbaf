"""The lab end to end on real servers: run, fail a variant, report, show, resume, old versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import walproof
from walproof.cli.status import ExitStatus
from walproof.facts import Install, TrialState
from walproof.facts.store import Store

pytestmark = pytest.mark.live

SMALL = ("--scale", "1", "--clients", "4", "--threads", "2", "--duration", "2", "--rounds", "1")


@pytest.mark.pg(newest=True)
def test_a_comparison_on_every_version(tmp_path: Path, install: Install) -> None:
    done = walproof(
        "compare", "--set", "fsync=off", "--set", "wal_level=minimal", "--design", "fresh",
        "--pg", install.bindir, *SMALL, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "report: walproof-out/reports/compare-" in done.stderr
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    run = store.run("last")
    trials = store.trials(run.id)
    series = store.series(run.id, ["tps"])
    store.close()
    assert run.finished_at is not None
    assert [trial.state for trial in trials] == [TrialState.DONE] * 3
    assert len(series) == 3
    for trial in trials:
        metrics = trial.metrics
        assert trial.window_s is not None
        assert trial.window_s > 0
        # The window's figures agree with what pgbench says of the same run, which began before it.
        assert metrics["tps"] == pytest.approx(metrics["pgbench_tps"], rel=0.5)
        assert metrics["latency_ms_p50"] <= metrics["latency_ms_p95"] <= metrics["latency_ms_p99"]
        assert metrics["wal_bytes"] > 0
        assert metrics["cpu_s.client_backend"] > 0
        assert sum(v for k, v in metrics.items() if k.startswith("wait_share.")) == pytest.approx(1.0)
        assert trial.settings.get("fsync", "on") == ("off" if trial.variant == "fsync=off" else "on")
        assert (trial.settings.get("wal_level") == "minimal") is (trial.variant == "wal_level=minimal")
    flushes = {t.variant: t.metrics.get("wal_flushes") for t in trials}
    assert (flushes["default"] is None) == (install.version_num < 140000), "13 does not count them"
    if flushes["default"] is not None:
        assert flushes["fsync=off"] is not None
        assert flushes["fsync=off"] < flushes["default"]
    html = (tmp_path / "walproof-out" / "reports" / f"{run.id}.html").read_text()
    assert "may corrupt" in html


def test_all_transactions_of_a_short_load_are_counted_with_all_of_their_wal(tmp_path: Path) -> None:
    done = walproof(
        "compare", "--set", "commit_delay=0", "--base", "synchronous_commit=off", "--design", "fresh",
        "--pg", "embedded", "--scale", "1", "--clients", "2", "--transactions", "100", "--rounds", "1",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    trials = store.trials(store.run("last").id)
    store.close()
    assert len(trials) == 2
    for trial in trials:
        metrics = trial.metrics
        assert metrics["transactions"] == 200
        assert metrics["wal_bytes_per_txn"] == metrics["wal_bytes"] / 200
        assert trial.window_s is not None
        assert metrics["tps"] == pytest.approx(200 / trial.window_s)


def test_a_variant_whose_server_does_not_start_is_a_stored_failure(tmp_path: Path) -> None:
    done = walproof(
        "compare", "--set", "shared_preload_libraries=/etc/passwd", "--set", "fsync=off",
        "--pg", "embedded", *SMALL, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    trials = store.trials(store.run("last").id)
    store.close()
    failed = [trial for trial in trials if trial.state is TrialState.FAILED]
    assert {trial.variant for trial in failed} == {"shared_preload_libraries=/etc/passwd"}
    assert len(failed) == 1
    assert len(trials) == 3
    for trial in failed:
        assert 'could not load library "/etc/passwd"' in str(trial.reason)
        assert "FATAL" in str(trial.server_log)
    shown = walproof("show", "last", cwd=tmp_path)
    assert "/etc/passwd" in shown.stdout
    assert "1 of 3 trials failed" in shown.stdout


def test_a_comparison_without_a_finished_trial_is_an_error_and_stays_stored(tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("SELECT absent FROM nowhere;\n")
    done = walproof(
        "compare", "--set", "commit_delay=0", "--script", "bad.sql", "--pg", "embedded", "--clients", "2",
        "--scale", "1", "--passes", "3", "--rounds", "1", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == ExitStatus.ERROR, done.stderr
    assert "walproof: error: the only trial failed\ndetail: " in done.stderr
    assert 'relation "nowhere" does not exist' in done.stderr
    assert "1 of 1 trials failed" in done.stdout
    shown = walproof("show", "last", cwd=tmp_path)
    assert (shown.returncode, "1 of 1 trials failed" in shown.stdout) == (ExitStatus.DONE, True)


def test_results_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "pair.toml").write_text(
        """
        name = "pair"
        title = "Does the script matter?"
        pg = ["embedded"]
        [design]
        rounds = 2
        [[workload]]
        name = "insert"
        clients = 2
        transactions = 50
        setup = "CREATE TABLE t (a int)"
        script = [{ sql = "INSERT INTO t VALUES (1);", weight = 2 }, { file = "two.sql" }]
        [factors]
        synchronous_commit = ["on", "off"]
        wal_compression = ["off", "pglz"]
        """
    )
    (tmp_path / "two.sql").write_text("INSERT INTO t VALUES (2);\n")
    done = walproof("run", "pair.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    rows = json.loads(walproof("runs", "--json", cwd=tmp_path).stdout)
    assert [(row["state"], row["trials"], row["failed"]) for row in rows] == [("finished", 8, 0)]
    markdown = walproof("report", "pair", "--format", "md", cwd=tmp_path)
    assert "Does the script matter?" in markdown.stdout
    assert "synchronous_commit" in markdown.stdout
    as_json = walproof("report", "last", "--format", "json", "-o", "r.json", cwd=tmp_path)
    assert as_json.stdout == "r.json\n"
    assert json.loads((tmp_path / "r.json").read_text())
    html = walproof("report", rows[0]["run"], cwd=tmp_path)
    assert (tmp_path / html.stdout.strip()).read_text().startswith("<!")


def test_the_same_command_again_begins_another_run(tmp_path: Path) -> None:
    command = (
        "compare", "--set", "fsync=off", "--design", "fresh", "--pg", "embedded", "--scale", "1",
        "--clients", "2", "--transactions", "50", "--rounds", "1",
    )  # fmt: skip
    store = ("--store", "facts.sqlite")
    for number in range(2):
        # Elsewhere, too, where the first one's report is not.
        done = walproof(*command, *store, "--out", f"out{number}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    rows = json.loads(walproof("runs", "--json", *store, cwd=tmp_path).stdout)
    assert [row["state"] for row in rows] == ["finished", "finished"]
    assert rows[1]["run"] == rows[0]["run"] + "-2"


@pytest.mark.long
def test_two_versions_are_compared(tmp_path: Path) -> None:
    done = walproof(
        "compare", "--set", "fsync=off", "--pg", "embedded", "--pg", "embedded-16", *SMALL, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    trials = store.trials(store.run("last").id)
    store.close()
    assert len({trial.install for trial in trials}) == 2
    assert len(trials) == 4

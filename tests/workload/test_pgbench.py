"""pgbench is started as the workload says, and its own summary is read in every version's form."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from walproof.errors import WorkloadError
from walproof.facts import Install, Script, Workload
from walproof.lab.kinds.throughput.toggled import Connection, wait_until_connected
from walproof.postgres import template as templates
from walproof.postgres.cluster import SUPERUSER, Cluster
from walproof.postgres.install import find_driver
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.workload.pgbench import PgbenchRun, PgbenchTarget, initialise, read_summary

VERSION_13 = """\
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 1
query mode: simple
number of clients: 15
number of threads: 1
number of transactions per client: 1000
number of transactions actually processed: 15000/15000
latency average = 18.455 ms
tps = 812.801437 (including connections establishing)
tps = 813.032862 (excluding connections establishing)
"""
VERSION_14 = """\
duration: 60 s
number of transactions actually processed: 34959
latency average = 85.816 ms
latency stddev = 218.953 ms
initial connection time = 43.051 ms
tps = 582.170001 (without initial connection time)
"""
VERSION_15 = """\
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 4523
number of failed transactions: 0 (0.000%)
latency average = 0.442 ms
initial connection time = 3.060 ms
tps = 4535.012345 (without initial connection time)
"""


@pytest.mark.parametrize(
    ("text", "tps", "transactions", "connect_ms"),
    [
        (VERSION_13, 813.032862, 15000, None),
        (VERSION_14, 582.170001, 34959, 43.051),
        (VERSION_15, 4535.012345, 4523, 3.060),
    ],
)
def test_summaries(text: str, tps: float, transactions: int, connect_ms: float | None) -> None:
    summary = read_summary(text)
    assert (summary.tps, summary.transactions, summary.connect_ms) == (tps, transactions, connect_ms)


@pytest.mark.parametrize("text", ["", "starting vacuum...end.", VERSION_14.replace("tps =", "t =")])
def test_no_summary_is_an_error(text: str) -> None:
    with pytest.raises(WorkloadError, match="printed no result"):
        read_summary(text)


_WRITING = """
import sys
from pathlib import Path
from walproof.facts import Script, Workload
from walproof.workload.pgbench import _script_arguments
scripts = (Script("s", "SELECT 'Gr\\u00f6\\u00dfe'"),)
_script_arguments(Workload("w", None, scripts, 1, 1, 1, 1.0, None, None, "simple", 0.0), Path(sys.argv[1]))
"""


def test_scripts_are_written_in_utf_8_whatever_the_locale_is(tmp_path: Path) -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", _WRITING, str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, **locale})
    (script,) = tmp_path.iterdir()
    assert script.read_text(encoding="utf-8") == "SELECT 'Größe'"


WORKLOAD = Workload("w", "tpcb-like", (), 1, 2, 1, None, 20, None, "simple", 0.0)


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    made = Cluster(install, workspace, folder)
    made.start({"fsync": "off"})
    yield made
    made.stop("immediate")


@pytest.fixture
def pgbench(install: Install) -> Path:
    return find_driver([install])[0]


def _target(cluster: Cluster) -> PgbenchTarget:
    return PgbenchTarget(cluster.sockets, cluster.port, SUPERUSER, "postgres")


def _count(cluster: Cluster, table: str) -> int:
    with cluster.connect() as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert row is not None
    return int(str(row[0]))


@pytest.mark.live
@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("builtin", ["tpcb-like", "simple-update", "select-only"])
@pytest.mark.pg(">= 18")
def test_builtins_and_protocols(cluster: Cluster, pgbench: Path, builtin: str, protocol: str) -> None:
    workload = dataclasses.replace(WORKLOAD, builtin=builtin, protocol=protocol)
    initialise(pgbench, workload, _target(cluster))
    run = PgbenchRun(pgbench, workload, _target(cluster), cluster.folder, seed=1)
    assert run.finish(60).transactions == 40
    assert _count(cluster, "pgbench_history") == (0 if builtin == "select-only" else 40)
    assert sum(len(log.read_text().splitlines()) for log in run.logs) == 40


@pytest.mark.live
@pytest.mark.pg(">= 18")
def test_it_runs_as_the_user_of_the_servers(cluster: Cluster, pgbench: Path) -> None:
    """As root, nothing that a server could harm by its answers is root's."""
    workload = dataclasses.replace(WORKLOAD, transactions=None, duration_s=30.0)
    initialise(pgbench, workload, _target(cluster))
    run = PgbenchRun(pgbench, workload, _target(cluster), cluster.folder, seed=1)
    try:
        user = server_user()
        assert Path(f"/proc/{run.pid}").stat().st_uid == (os.geteuid() if user is None else user.uid)
    finally:
        run.kill()


@pytest.mark.live
def test_scripts_with_weights_and_their_own_tables(cluster: Cluster, pgbench: Path) -> None:
    workload = dataclasses.replace(
        WORKLOAD,
        builtin=None,
        scripts=(
            Script("often", "INSERT INTO seen VALUES ('often', :scale);", 9),
            Script("rare", "INSERT INTO seen VALUES ('rare', :scale);", 1),
        ),
        scale=2,
        transactions=100,
        setup_sql="CREATE TABLE seen (script text, scale int); INSERT INTO seen VALUES ('setup', 2)",
    )
    initialise(pgbench, workload, _target(cluster))
    PgbenchRun(pgbench, workload, _target(cluster), cluster.folder, seed=1).finish(60)
    assert _count(cluster, "seen WHERE scale = 2") == 201
    assert _count(cluster, "seen WHERE script = 'often'") > 2 * _count(cluster, "seen WHERE script = 'rare'")
    assert _count(cluster, "pgbench_branches") == 2


@pytest.mark.live
@pytest.mark.pg(">= 18")
def test_the_same_seed_makes_the_same_transactions(cluster: Cluster, pgbench: Path) -> None:
    initialise(pgbench, WORKLOAD, _target(cluster))
    sums = []
    for seed in (1, 1, 2):
        with cluster.connect() as connection:
            connection.execute("TRUNCATE pgbench_history")
        one_client = dataclasses.replace(WORKLOAD, clients=1)
        PgbenchRun(pgbench, one_client, _target(cluster), cluster.folder, seed=seed).finish(60)
        with cluster.connect() as connection:
            row = connection.execute("SELECT sum(aid), sum(delta) FROM pgbench_history").fetchone()
        sums.append(row)
    assert sums[0] == sums[1] != sums[2]


@pytest.mark.live
@pytest.mark.pg(">= 18")
def test_a_rate_is_held(cluster: Cluster, pgbench: Path) -> None:
    workload = dataclasses.replace(WORKLOAD, transactions=None, duration_s=2.0, rate_tps=50.0)
    initialise(pgbench, workload, _target(cluster))
    summary = PgbenchRun(pgbench, workload, _target(cluster), cluster.folder, seed=1).finish(60)
    assert 50 < summary.transactions < 150  # 100 offered, Poisson


@pytest.mark.live
@pytest.mark.pg(">= 18")
def test_a_script_that_fails_is_explained(cluster: Cluster, pgbench: Path) -> None:
    workload = dataclasses.replace(WORKLOAD, builtin=None, scripts=(Script("bad", "SELECT no_such();"),))
    run = PgbenchRun(pgbench, workload, _target(cluster), cluster.folder, seed=1)
    with pytest.raises(WorkloadError, match="pgbench failed") as caught:
        run.finish(60)
    assert "no_such" in f"{caught.value.message} {caught.value.detail}"


@pytest.mark.live
@pytest.mark.pg(">= 18")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\\sett a 1\nSELECT 1;\n", "error: second.sql:1: "),
        ("SELECT 1 / 0;\n", ' script "second.sql" aborted '),
    ],
)
def test_the_script_that_fails_is_named(cluster: Cluster, pgbench: Path, text: str, said: str) -> None:
    scripts = (Script("first.sql", "SELECT 1;\n"), Script("second.sql", text, weight=99))
    workload = dataclasses.replace(WORKLOAD, builtin=None, scripts=scripts)
    run = PgbenchRun(pgbench, workload, _target(cluster), cluster.folder, seed=1)
    with pytest.raises(WorkloadError) as caught:
        run.finish(60)
    assert said in caught.value.message
    assert "script1.sql" not in f"{caught.value.message}{caught.value.detail}"


@pytest.mark.live
@pytest.mark.pg(">= 18")
def test_a_setup_that_fails_is_explained(cluster: Cluster, pgbench: Path) -> None:
    workload = dataclasses.replace(WORKLOAD, setup_sql="CREATE TABLE t ();\n\nCREATE TABEL u ();")
    with pytest.raises(WorkloadError, match=r'setup of workload "w" failed in line 3: .*TABEL') as caught:
        initialise(pgbench, workload, _target(cluster))
    assert caught.value.detail == "It begins with: CREATE TABEL u ()"


@pytest.mark.live
@pytest.mark.pg(">= 18")
def test_a_setup_may_vacuum_and_have_transactions(cluster: Cluster, pgbench: Path) -> None:
    setup = """
        CREATE TABLE t (n int);
        CREATE FUNCTION two() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END;
        DO $$ BEGIN INSERT INTO t VALUES (two()); END $$;
        VACUUM ANALYZE t;
        BEGIN; CREATE TABLE u (); COMMIT; CREATE TABLE v ();"""
    initialise(pgbench, dataclasses.replace(WORKLOAD, setup_sql=setup), _target(cluster))
    with cluster.connect() as session:
        query = "SELECT n, relallvisible FROM t, pg_class WHERE relname = 't'"
        assert session.execute(query).fetchall() == [(2, 1)]
        assert session.execute("SELECT FROM u, v").fetchall() == []
        # Autovacuum would come to these within a minute.
        query = "SELECT relname FROM pg_stat_user_tables WHERE n_mod_since_analyze + n_ins_since_vacuum > 0"
        assert session.execute(query).fetchall() == []


@pytest.mark.live
@pytest.mark.pg(">= 18")
def test_a_run_that_hangs_is_ended(cluster: Cluster, pgbench: Path) -> None:
    initialise(pgbench, WORKLOAD, _target(cluster))
    long = dataclasses.replace(WORKLOAD, transactions=None, duration_s=600.0)
    run = PgbenchRun(pgbench, long, _target(cluster), cluster.folder, seed=1)
    os.kill(run.pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(WorkloadError, match="did not end within 0 s"):
        run.finish(0.3)
    assert run.poll()
    assert time.monotonic() - began < 60


@pytest.mark.live
@pytest.mark.pg(">= 18")
def test_a_run_ends_early_as_if_its_time_were_up(cluster: Cluster, pgbench: Path) -> None:
    """Its summary, its logs and the server agree to the transaction on what it did."""
    initialise(pgbench, WORKLOAD, _target(cluster))
    long = dataclasses.replace(WORKLOAD, transactions=None, duration_s=600.0)
    run = PgbenchRun(pgbench, long, _target(cluster), cluster.folder, seed=1)
    deadline = time.monotonic() + 60
    while _count(cluster, "pgbench_history") < 10 and time.monotonic() < deadline:
        time.sleep(0.02)
    run.end()
    done = run.finish(60).transactions
    assert done >= 10
    logged = sum(len(log.read_text().splitlines()) for log in run.logs)
    assert done == logged == _count(cluster, "pgbench_history")


def test_a_client_that_gives_up_is_known_while_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walproof.workload.pgbench.server_user", lambda: None)
    fake = tmp_path / "pgbench"
    said = "pgbench: error: client 2 script 0 aborted in command 1 query 0: ERROR:  division by zero"
    fake.write_text(f"#!/bin/sh\necho '{said}' >&2\nsleep 60\n")
    fake.chmod(0o755)
    load = _fake_load(fake, tmp_path)
    try:
        deadline = time.monotonic() + 10
        while load.aborted() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert load.aborted() == said.replace("script 0", 'script "half"')
        assert str(load.failure()) == f"pgbench failed: {load.aborted()}"
        with pytest.raises(WorkloadError, match="division by zero"):
            wait_until_connected(cast("Connection", _NoSessions()), load, 4)
    finally:
        load.kill()


_WHOLE = "number of transactions actually processed: 9\ntps = 1.0 (without initial connection time)"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("echo 'pgbench: error: no such table' >&2; exit 1", "pgbench failed: pgbench: error: no such table"),
        ("echo 'tps = 1.0 (without initial connection time)'; exit 0", "pgbench printed no result"),
        (f"echo '{_WHOLE}'; exit 0", "pgbench ended before it was to"),
    ],
)
def test_one_that_has_ended_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, says: str
) -> None:
    monkeypatch.setattr("walproof.workload.pgbench.server_user", lambda: None)
    fake = tmp_path / "pgbench"
    fake.write_text(f"#!/bin/sh\nread -r line < {tmp_path / 'end'}\n{words}\n")
    fake.chmod(0o755)
    os.mkfifo(tmp_path / "end")
    load = _fake_load(fake, tmp_path)
    try:
        assert load.failure() is None, "it is at work"
        (tmp_path / "end").write_text("now\n")
        load.wait_until(time.time() + 60)
        assert str(load.failure()) == says
    finally:
        load.kill()


def test_a_held_pgbench_does_nothing_before_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walproof.workload.pgbench.server_user", lambda: None)
    fake, seen = tmp_path / "pgbench", tmp_path / "seen"
    fake.write_text(f"#!/bin/sh\necho $$ > {seen}\n")
    fake.chmod(0o755)
    load = _fake_load(fake, tmp_path, held=True)
    try:
        time.sleep(0.2)
        assert not seen.exists()
        assert not load.poll()
        load.go()
        deadline = time.monotonic() + 10
        while not load.poll() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert seen.read_text().strip() == str(load.pid)
    finally:
        load.kill()


def test_it_is_waited_for_without_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walproof.workload.pgbench.server_user", lambda: None)
    fake = tmp_path / "pgbench"
    os.mkfifo(tmp_path / "end")
    fake.write_text(f"#!/bin/sh\nread -r line < {tmp_path / 'end'}\n")
    fake.chmod(0o755)
    load = _fake_load(fake, tmp_path)
    looks: list[float] = []

    def poll() -> bool:
        looks.append(time.time())
        return PgbenchRun.poll(load)

    monkeypatch.setattr(load, "poll", poll)
    try:
        at = time.time() + 0.3
        load.wait_until(at)
        assert time.time() >= at, "it goes on"
        assert len(looks) <= 4, "nothing wakes up meanwhile"
        (tmp_path / "end").write_text("now\n")
        load.wait_until(time.time() + 60)
        assert load.poll()
        assert time.time() < at + 30, "its end is noticed"
        load.wait_until(time.time() + 60)
        assert time.time() < at + 30, "and known after that"
    finally:
        load.kill()


class _NoSessions:
    def execute(self, _: str) -> _NoSessions:
        return self

    def fetchone(self) -> tuple[int]:
        return (0,)


def _fake_load(program: Path, folder: Path, *, held: bool = False) -> PgbenchRun:
    half = Script("half", "SELECT 1")
    workload = Workload("w", None, (half,), 1, 4, 1, 1.0, None, None, "simple", 0.0)
    return PgbenchRun(program, workload, PgbenchTarget(folder, 1, "me", "me"), folder, 1, held=held)

"""``walproof watch`` on a server in trouble, on a healthy one, and on one that goes away."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.command import start, walproof
from tests.live.pair import writing
from tests.postgres.replication import query, run, running_primary, wait_until
from tests.schemas import assert_valid
from tests.web.reading import Reader
from walproof.cli.watch_order import ServerOrder, WatchOrder
from walproof.cli.watched import Fleet
from walproof.facts import Install
from walproof.facts.watch import StreamPhase
from walproof.facts.watch_history import open_history
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.report.watch.view import ServerView

pytestmark = pytest.mark.live
SETTINGS = {
    "fsync": "off", "autovacuum": "off", "max_wal_senders": "10", "max_replication_slots": "10",
    "max_wal_size": "64MB", "min_wal_size": "32MB", "archive_mode": "on", "archive_command": "false",
}  # fmt: skip


def dsn(cluster: Cluster, user: str = "watcher") -> str:
    return f"host={cluster.sockets} port={cluster.port} user={user} dbname=postgres"


@pytest.fixture(scope="module")
def troubled(embedded: Install, work: Path) -> Iterator[Cluster]:
    """Under load, with an archiver that fails and a slot that nobody reads."""
    with (
        Workspace(work, server_user()) as workspace,
        running_primary(embedded, workspace, SETTINGS) as primary,
    ):
        run(
            primary,
            "CREATE ROLE watcher LOGIN REPLICATION IN ROLE pg_monitor",
            "CREATE ROLE nobody_special LOGIN",
            "CREATE TABLE t (i int, filler text)",
            "SELECT pg_create_physical_replication_slot('etl', true)",
            "INSERT INTO t SELECT i, repeat('x', 900) FROM generate_series(1, 30000) i",
            "SELECT pg_switch_wal()",
        )
        wait_until(lambda: query(primary, "SELECT failed_count > 0 FROM pg_stat_archiver") == "True")
        with writing(primary, 1_000_000):
            yield primary


def own_slots(cluster: Cluster) -> int:
    return int(query(cluster, "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'walproof%'"))


def test_one_look_names_the_trouble_and_leaves_nothing(troubled: Cluster, tmp_path: Path) -> None:
    done = walproof(
        "watch", dsn(troubled) + " password=hunter2", "--json", "--once", "--every", "1s",
        "--wal-disk", "10GB", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert "hunter2" not in line
    found = json.loads(line)
    assert_valid("watch", found)
    assert {concern["key"] for concern in found["concerns"]} >= {"archiver", "slot etl"}
    assert found["wal_bytes_per_s"] > 0
    assert found["disk"]["pg_wal_bytes"] >= 32 << 20
    assert found["archive"]["is_failing"]
    assert found["stream"]["phase"] == "live", found["stream"]
    assert found["crash"]["warm"]["low"] < found["crash"]["warm"]["seconds"] < found["crash"]["warm"]["high"]
    assert found["lacks"] == []
    wait_until(lambda: own_slots(troubled) == 0, 10)


def test_what_was_shown_is_kept_and_shown_again(troubled: Cluster, tmp_path: Path) -> None:
    """Servers come from a file; what is kept of them can be given away."""
    config = tmp_path / "watch.toml"
    config.write_text(
        f'every = "500ms"\nhistory = "kept/h.sqlite"\nrecovery_target = "50ms"\n[[server]]\nname = "orders"\n'
        f'dsn = "{dsn(troubled)} password=hunter2"\nwal_disk = "10GB"\n'
    )
    config.chmod(0o600)
    done = walproof("watch", "--config", "watch.toml", "--json", "--for", "6s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = tmp_path / "kept" / "h.sqlite"
    assert [path.name for path in kept.parent.iterdir()] == ["h.sqlite"]
    with open_history(kept) as history:
        (server,) = history.servers()
        records = history.looks("orders", 0, time.time())
        assert server.records == len(records)
    assert "hunter2" not in str(records)
    again = walproof("watch", "--replay", "kept/h.sqlite", "--speed", "60x", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    # A look that is shown twice is kept once.
    shown = {line["at"]: line for line in reversed([json.loads(line) for line in done.stdout.splitlines()])}
    replayed = [json.loads(line) for line in again.stdout.splitlines()]
    assert len(replayed) == len(records) >= 6
    for line in replayed:
        assert_valid("watch", line)
        live = shown[line["at"]]
        assert {concern["key"] for concern in line["concerns"]} == {
            concern["key"] for concern in live["concerns"]
        }
        same = ("server", "at", "crash", "causes", "slots", "stream", "recovery_target_s", "lacks", "notes")
        assert {key: line[key] for key in same} == {key: live[key] for key in same}
    assert any(line["crash"] for line in replayed)
    assert any(concern["key"] == "crash recovery" for concern in replayed[-1]["concerns"])
    text = walproof("watch", "--replay", "kept/h.sqlite", "--once", "--plain", cwd=tmp_path).stdout
    assert "orders: attention, if it crashed now: " in text
    print(text)


def test_a_check_exits_as_a_plugin(
    troubled: Cluster, embedded: Install, workspace: Workspace, tmp_path: Path
) -> None:
    done = walproof("watch", dsn(troubled), "--check", "--every", "1s", cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.startswith("WALPROOF CRITICAL - ")
    assert "The archiver fails" in done.stdout
    # A look at two moments does not know how fast pg_wal fills: where it may be soon, it takes longer.
    done = walproof(
        "watch", dsn(troubled), "--once", "--json", "--every", "1s", "--wal-disk", "2GB", cwd=tmp_path
    )
    assert "pg_wal full" in {concern["key"] for concern in json.loads(done.stdout)["concerns"]}
    with running_primary(embedded, workspace) as healthy:
        done = walproof("watch", dsn(healthy, "postgres"), "--check", "--every", "1s", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    done = walproof("watch", "no such=dsn", "--check", cwd=tmp_path)
    assert done.returncode == 3, done.stdout
    assert done.stdout.startswith("WALPROOF UNKNOWN - ")


def test_prometheus_reads_what_is_served_and_a_kill_leaves_no_slot(troubled: Cluster, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = start(
        ["watch", dsn(troubled), "--every", "1s", "--listen", f"127.0.0.1:{port}"], tmp_path, tmp_path / "err"
    )
    try:

        def scraped() -> dict[str, float]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                    text = answer.read().decode()
            except OSError:
                return {}
            return {
                sample.name: sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }

        wait_until(lambda: scraped().get("walproof_stream_live") == 1.0)
        found = scraped()
        assert found["walproof_up"] == 1.0
        assert found["walproof_crash_recovery_seconds"] > 0
        assert found["walproof_pg_wal_bytes"] >= 32 << 20
        assert found["walproof_archive_failures_total"] > 0
        assert own_slots(troubled) == 1
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: own_slots(troubled) == 0, 40)


def test_a_browser_sees_the_same_and_ctrl_c_leaves_no_slot(troubled: Cluster, tmp_path: Path) -> None:
    errors = tmp_path / "err"
    process = start(
        ["watch", dsn(troubled) + " password=hunter2", "--every", "1s", "--web", "127.0.0.1:0"],
        tmp_path,
        errors,
    )
    try:
        wait_until(lambda: "?token=" in errors.read_text())
        reader = Reader(next(word for word in errors.read_text().split() if "?token=" in word))
        wait_until(lambda: reader.get("/api/live").data[0:1] and reader.get("/api/live").data[0]["crash"])
        (found,) = reader.get("/api/live").data
        assert {concern["key"] for concern in found["concerns"]} >= {"archiver", "slot etl"}
        page = reader.get(f"/live/server?name={quote(found['server'])}")
        assert page.status == 200
        for said in ("if it crashed now", 'id="plot-clock"', 'id="plot-pg_wal"', "The archiver fails"):
            assert said in page.text
        for path in ("/", "/live", "/api/live", f"/live/server?name={quote(found['server'])}"):
            text = reader.get(path).text
            assert "hunter2" not in text
            assert "watcher" not in text
        assert own_slots(troubled) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: own_slots(troubled) == 0, 10)


def watched(fleet: Fleet, is_so: Callable[[ServerView], bool], patience_s: float = 20.0) -> ServerView:
    until_s = time.monotonic() + patience_s
    while True:
        (view,) = fleet.views(1.0)
        if is_so(view):
            return view
        assert time.monotonic() < until_s, view
        time.sleep(0.1)


def order(conninfo: str, *, streams: bool) -> WatchOrder:
    return WatchOrder((ServerOrder(conninfo, streams=streams),), 0.5)


def test_a_role_without_rights_sees_the_rest(troubled: Cluster) -> None:
    with Fleet(order(dsn(troubled, "nobody_special"), streams=True)) as fleet:
        view = watched(
            fleet,
            lambda shown: shown.stream.phase is StreamPhase.BROKEN and shown.seen.wal_bytes_per_s is not None,
        )
    assert any(lack.startswith("the size of pg_wal: ") for lack in view.seen.lacks)
    assert view.stream.hint is not None
    assert "REPLICATION" in view.stream.hint
    assert view.seen.archive is not None
    assert view.seen.archive.is_failing
    assert {concern.key for concern in view.concerns} >= {"slot etl"}


def test_it_survives_a_restart_of_the_server(embedded: Install, workspace: Workspace) -> None:
    with running_primary(embedded, workspace) as primary:
        with Fleet(order(dsn(primary, "postgres"), streams=True)) as fleet:
            watched(fleet, lambda shown: shown.clock is not None)
            primary.stop("immediate")
            view = watched(fleet, lambda shown: shown.seen.no_answer is not None)
            assert [concern.key for concern in view.concerns] == ["server"]
            primary.start(SETTINGS)
            view = watched(
                fleet, lambda shown: shown.seen.no_answer is None and shown.clock is not None, 40.0
            )
            assert [event.text for event in view.seen.events] == ["the server was started again"]
            with psycopg.connect(primary.conninfo, autocommit=True) as session:
                session.execute("CREATE TABLE after_restart AS SELECT generate_series(1, 100000) i")
            before = view.stream.received or 0
            view = watched(fleet, lambda shown: (shown.stream.received or 0) > before + 1_000_000)
        assert own_slots(primary) == 0

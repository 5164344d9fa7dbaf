"""walproof advise on several servers: a primary, its standby, and a server that does not answer."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.cli.command import start, walproof
from tests.live.pair import Pair, watcher
from tests.postgres.replication import query, run
from tests.schemas import assert_valid

pytestmark = [pytest.mark.live, pytest.mark.pg(newest=True)]


def _file(pair: Pair, folder: Path) -> Path:
    path = folder / "watch.toml"
    path.write_text(f"""
        [[server]]
        name = "orders"
        dsn = "{watcher(pair.primary)}"
        wal_disk = "60MB"
        [[server]]
        name = "orders/standby"
        dsn = "{watcher(pair.standby)}"
        [[server]]
        name = "away"
        dsn = "host={folder} user=nobody"
    """)
    return path


def test_all_are_looked_at_and_what_does_not_answer_is_named(pair: Pair, tmp_path: Path) -> None:
    run(pair.primary, "DROP TABLE IF EXISTS read", "CREATE TABLE read (n int)", "CREATE INDEX ON read (n)")
    config = _file(pair, tmp_path)
    given = ("--config", str(config), "--for", "3s", "--json")
    done = walproof("advise", *given, "--save", str(tmp_path / "kept"), cwd=tmp_path)
    assert done.returncode == 2
    assert "no advice on 1 of 3 servers" in done.stderr
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout)
    assert_valid("advise", told)
    primary, standby, away = told["servers"]
    assert (primary["name"], standby["name"], away["name"]) == ("orders", "orders/standby", "away")
    assert (primary["error"], standby["error"]) == (None, None)
    assert "could not connect" in away["error"]
    # A server's own room counts, and no other's: two thirds of 60 MB are less than its max_wal_size.
    (danger,) = (advice for advice in primary["advice"]["advice"] if advice["rule"] == "max_wal_size")
    assert danger["weight"] == "danger"
    assert "60.0 MB" in " ".join(danger["evidence"])
    assert "max_wal_size" not in [advice["rule"] for advice in standby["advice"]["advice"]]
    kept = json.loads((tmp_path / "kept/orders/server.json").read_text())
    # What is kept is what was seen of it; its standby is counted when both are put together.
    assert kept["standbys_asked"] == 0
    assert (tmp_path / "kept/orders_standby/server.json").exists()

    # What was kept gives the same advice, and an earlier answer is compared by name.
    before = tmp_path / "before.json"
    before.write_text(done.stdout)
    folders = [str(tmp_path / "kept/orders"), str(tmp_path / "kept/orders_standby")]
    again = walproof("advise", *folders, "--wal-disk", "60MB", "--since", str(before), "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    same, other = json.loads(again.stdout)["servers"]
    assert [advice["rule"] for advice in same["advice"]["advice"]] == [
        advice["rule"] for advice in primary["advice"]["advice"]
    ]
    assert same["advice"]["since"][0].startswith("Compared with the advice of: ")
    # A folder with files is refused before anybody looks.
    refused = walproof("advise", *given, "--save", str(tmp_path / "kept"), cwd=tmp_path)
    assert (refused.returncode, "is not empty" in refused.stderr) == (2, True)
    # It has another name as a folder.
    assert other["advice"]["since"] == ["The earlier advice has nothing on this server."]


def test_an_interrupt_ends_all_looks_and_leaves_no_slot(pair: Pair, tmp_path: Path) -> None:
    dsns = [f"{pair.primary.conninfo} dbname={name}" for name in ("postgres", "template1")]
    process = start(("advise", *dsns, "--for", "5min"), tmp_path, tmp_path / "errors")
    count = "SELECT count(*) FROM pg_replication_slots WHERE temporary"
    deadline = time.monotonic() + 60
    while query(pair.primary, count) != "2" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert query(pair.primary, count) == "2", (tmp_path / "errors").read_text()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, (tmp_path / "errors").read_text()
    assert "Traceback" not in (tmp_path / "errors").read_text()
    deadline = time.monotonic() + 30
    while query(pair.primary, count) != "0" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert query(pair.primary, count) == "0"


def test_what_cannot_be_meant_is_refused_before_anything_is_looked_at(tmp_path: Path) -> None:
    both = walproof("advise", "host=a", "host=b", "--standby", "host=c", cwd=tmp_path)
    assert both.returncode == 2
    assert "A standby is recognised: name it as one more." in both.stderr
    (tmp_path / "watch.toml").write_text('[[server]]\nname = "a"\ndsn = "host=a"\nroom = "1GB"\n')
    typo = walproof("advise", "--config", "watch.toml", cwd=tmp_path)
    assert typo.returncode == 2
    assert "watch.toml:4: server[1].room: no such key" in typo.stderr
    (tmp_path / "empty.toml").write_text("")
    empty = walproof("advise", "--config", "empty.toml", cwd=tmp_path)
    assert empty.returncode == 2
    assert "no server is named" in empty.stderr
    earlier = walproof("advise", "host=a", "host=b", "--since", "watch.toml", cwd=tmp_path)
    assert earlier.returncode == 2
    assert "could not read earlier advice" in earlier.stderr

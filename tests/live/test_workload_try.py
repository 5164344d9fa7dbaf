"""A drafted load is tried on a throw-away server, and stands beside what the application did."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import versions
from tests.cli.command import environment, walproof
from tests.live.test_workload import COUNTING, counting_installs, execute, running
from tests.schemas import assert_valid
from walproof.cli.workload_progress import TryProgress
from walproof.facts import Install
from walproof.lab.try_load import plan_of, try_load
from walproof.postgres.cache import cache_folder
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

pytestmark = pytest.mark.live

SCHEMA = """
    CREATE TABLE owners (id int PRIMARY KEY, name text NOT NULL, n bigint NOT NULL DEFAULT 0);
    CREATE TABLE parcels (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                          owner int NOT NULL REFERENCES owners, note text NOT NULL, ratio int NOT NULL);
    CREATE INDEX ON parcels (owner);
    INSERT INTO owners SELECT i, md5(i::text) FROM generate_series(1, 500) i;
    INSERT INTO parcels (owner, note, ratio) SELECT 1 + i % 500, md5(i::text), i % 7
    FROM generate_series(1, 5000) i;
    ANALYZE;
    CREATE EXTENSION pg_stat_statements;
    SELECT pg_stat_statements_reset()"""


def application(session: psycopg.Connection[tuple[object, ...]]) -> None:
    """Its transactions and reads, each called equally often."""
    for n in range(1, 121):
        with session.transaction():
            session.execute("INSERT INTO parcels (owner, note, ratio) VALUES (%s, %s, 1)", [n, f"note {n}"])
            session.execute("UPDATE owners SET n = n + 1 WHERE id = %s", [n])
        session.execute("SELECT id, note FROM parcels WHERE owner = %s", [n]).fetchall()
        if n % 3 == 0:
            session.execute("UPDATE owners SET name = (SELECT 'x' || %s::text) WHERE id = %s", [n, n])
        if n % 4 == 0:
            # No parcel is like this in the load, where each ratio is some number of its kind.
            session.execute("SELECT id FROM parcels WHERE owner = %s AND note = 'never'", [n]).fetchall()


def statements_of(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Beginning of a statement -> what is said of it."""
    return {
        " ".join(each["query"].split()[:3]): each
        for script in found["scripts"]
        for each in script["statements"]
    }


@pytest.mark.parametrize("chosen", versions.newest(counting_installs()), ids=lambda each: each.version)
def test_each_statement_stands_beside_the_applications(
    chosen: Install, workspace: Workspace, tmp_path: Path
) -> None:
    install = reachable_install(chosen, server_user())
    versions.note(install.version)
    with running(install, workspace, "application", COUNTING) as cluster:
        execute(cluster, SCHEMA)
        with cluster.connect() as session:
            application(session)
        words = ("workload", cluster.conninfo, "--to", "shop", "--since-reset", "--json")
        done = walproof(*words, "--try", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        untried = walproof(*words[:3], "other", *words[4:], cwd=tmp_path)
    found = json.loads(done.stdout)
    assert_valid("workload", found)
    assert found["tried"]["version"].split(".")[0] == install.version.split(".")[0]
    assert found["not_tried"] is None
    assert found == json.loads((tmp_path / "shop" / "draft.json").read_text())
    assert found["tried"]["wal_records"] == pytest.approx(1.0, rel=0.15)
    said = statements_of(found)
    for begins in ("INSERT INTO parcels", "UPDATE owners SET", "SELECT id, note"):
        tried = said[begins]["tried"]
        assert tried["differs"] == [], (begins, tried)
        assert tried["calls"] == 100
    assert said["INSERT INTO parcels"]["tried"]["wal_records"] >= 4
    assert said["SELECT id, note"]["tried"]["rows"] == pytest.approx(10, rel=0.3)
    assert not list(workspace.sockets.glob(".s.PGSQL.*")), "no socket is left"
    assert "is on this machine" in json.loads(untried.stdout)["not_tried"]
    edit_and_try_again(tmp_path, found)


def edit_and_try_again(tmp_path: Path, found: dict[str, Any]) -> None:
    """As its user would: changes that find nothing or fail, a statement more, a script more."""
    script = next(each for each in found["scripts"] if len(each["statements"]) > 1)
    path = tmp_path / "shop" / script["file"]
    text = path.read_text()
    path.write_text(text.replace("WHERE id = ", "WHERE id = -"))
    done = walproof("workload", "shop/shop.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0.00 !" in done.stdout
    path.write_text(text.replace("INSERT INTO parcels", "INSERT INTO parcel"))
    done = walproof("workload", "shop/shop.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert 'fails: relation "parcel" does not exist' in done.stdout
    path.write_text(text.replace("COMMIT;", "UPDATE owners SET n = n + 1 WHERE id = 1;\nCOMMIT;"))
    (tmp_path / "shop" / "mine.sql").write_text("SELECT 1/0;\n")
    load = tmp_path / "shop" / "shop.toml"
    load.write_text(
        load.read_text().replace("[[variant]]", '[[workload.script]]\nfile = "mine.sql"\n\n[[variant]]', 1)
    )
    done = walproof("workload", "shop/shop.toml", "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    scripts = {each["file"]: each for each in json.loads(done.stdout)["scripts"]}
    changed = scripts[script["file"]]
    assert [each["tried"] for each in changed["statements"]] == [None] * len(script["statements"])
    assert changed["tried"]["rows"] == pytest.approx(script["tried"]["rows"] + 1)
    assert scripts["mine.sql"]["error"] == "division by zero"


SCRIPTS = {
    "slow.sql": "UPDATE t SET n = n + 1 WHERE id = 1;\nSELECT pg_sleep(30);",
    "after.sql": "\\set v random(1, 9)\nUPDATE t SET n = n + 1 WHERE id = :v;",
    "keeps.sql": "BEGIN;\nSELECT id AS found FROM t WHERE id = 3 \\gset\n"
    "UPDATE t SET n = 1 WHERE id = :found;\nCOMMIT;",
    "unknown.sql": "BEGIN;\nUPDATE t SET n = 2 WHERE id = 2;\nUPDATE nothing SET n = 2;\nCOMMIT;",
    "late.sql": "BEGIN;\nINSERT INTO child VALUES (0);\nCOMMIT;",
    "chooses.sql": "\\if 1\nINSERT INTO t SELECT 10 + count(*), 0 FROM t;\n\\else\nDELETE FROM t;\n\\endif",
    "large.sql": "SELECT repeat('x', 20000000);",
    "wrong.sql": "\\set v random(1, )\nSELECT :v;",
}
TABLES = """
    CREATE TABLE t (id int PRIMARY KEY, n int);
    INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i;
    CREATE TABLE child (id int REFERENCES t DEFERRABLE INITIALLY DEFERRED);
"""


@pytest.mark.parametrize("chosen", versions.newest(versions.installs()), ids=lambda each: each.version)
def test_every_script_is_tried_whatever_the_others_do(chosen: Install, tmp_path: Path) -> None:
    versions.note(chosen.version)
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text)
    tables = {
        "workload": [{"name": "odd", "setup": TABLES, "script": [{"file": name} for name in SCRIPTS]}],
    }
    plan = plan_of(tables, tmp_path, chosen, cache_folder() / "work")
    tried = {each.name: each for each in try_load(plan, TryProgress(), seconds=2).scripts}
    assert list(tried) == list(SCRIPTS)

    slow = tried["slow.sql"]
    assert (slow.error, slow.note) == (None, "no run of it ended within 2 s")
    assert [each.calls for each in slow.statements] == [1, 0]
    (after,) = tried["after.sql"].statements
    assert (after.rows, after.calls) == ((1,) * 100, 100), "what was cut held its lock no longer"
    assert {
        count - upkeep for count, upkeep in zip(after.wal_records, after.upkeep_records, strict=True)
    } == {1}
    keeps = tried["keeps.sql"]
    assert [each.rows for each in keeps.statements] == [(1,) * 100] * 2
    assert [each.sql.split()[0] for each in keeps.statements] == ["SELECT", "UPDATE"]
    unknown = tried["unknown.sql"]
    assert unknown.error == 'relation "nothing" does not exist'
    assert unknown.failed == 1
    assert unknown.statements[0].calls == 1
    late = tried["late.sql"]
    assert late.error is not None
    assert "violates foreign key constraint" in late.error
    assert late.failed is None
    chooses = tried["chooses.sql"]
    assert chooses.error is None
    assert chooses.statements[0].rows == (1,) * 100
    assert sum(each.calls for each in chooses.statements) == 100
    assert tried["large.sql"].error is None
    assert tried["large.sql"].statements[0].rows[0] == 1
    assert "syntax error" in str(tried["wrong.sql"].error)


def test_an_interrupted_try_leaves_nothing_but_the_draft(workspace: Workspace, tmp_path: Path) -> None:
    *_, chosen = counting_installs()
    install = reachable_install(chosen, server_user())
    with running(install, workspace, "application", COUNTING) as cluster:
        execute(cluster, SCHEMA)
        with cluster.connect() as session:
            application(session)
        words = ("workload", cluster.conninfo, "--to", "shop", "--since-reset", "--try")
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "walproof", *words], cwd=tmp_path, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("trying"):
                process.send_signal(signal.SIGTERM)
                break
        _, said = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM, said
    assert (
        json.loads((tmp_path / "shop" / "draft.json").read_text())["not_tried"] == "its try was interrupted."
    )
    done = walproof("workload", "shop/shop.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "each script alone on PostgreSQL" in done.stdout

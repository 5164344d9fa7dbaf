"""A drafted load is tried on a throw-away server, and stands beside what the application did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import versions
from tests.cli.command import walproof
from tests.live.test_workload import COUNTING, counting_installs, execute, running
from tests.schemas import assert_valid
from walproof.facts import Install
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


@pytest.mark.parametrize("chosen", counting_installs(), ids=lambda each: each.version)
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
    """As its user would: a change that finds nothing, one that fails, and a statement more."""
    script = next(each for each in found["scripts"] if len(each["statements"]) > 1)
    path = tmp_path / "shop" / script["file"]
    text = path.read_text()
    path.write_text(text.replace("WHERE id = :", "WHERE id = -:"))
    done = walproof("workload", "shop/shop.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0.00 !" in done.stdout
    path.write_text(text.replace("INSERT INTO parcels", "INSERT INTO parcel"))
    done = walproof("workload", "shop/shop.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert 'fails: relation "parcel" does not exist' in done.stdout
    path.write_text(text.replace("COMMIT;", "UPDATE owners SET n = n + 1 WHERE id = 1;\nCOMMIT;"))
    done = walproof("workload", "shop/shop.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (changed,) = [each for each in json.loads(done.stdout)["scripts"] if each["file"] == script["file"]]
    assert [each["tried"] for each in changed["statements"]] == [None] * len(script["statements"])
    assert changed["tried"]["rows"] == pytest.approx(script["tried"]["rows"] + 1)

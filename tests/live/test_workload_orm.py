"""Drafts of what object-relational mappers and applications with tenants send, beside the application."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from tests import versions
from tests.cli.command import walproof
from tests.live.test_workload import COUNTING, counting_installs, execute, running
from tests.live.test_workload_try import statements_of
from walproof.facts import Install
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

pytestmark = pytest.mark.live

SCHEMA = """
    CREATE TABLE products (id int PRIMARY KEY, stock int NOT NULL, lock_version int NOT NULL DEFAULT 0);
    CREATE TABLE tasks (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant_id int NOT NULL,
                        project_id int NOT NULL, title text NOT NULL, deleted_at timestamptz,
                        parent_id bigint, urgent boolean NOT NULL DEFAULT false);
    CREATE INDEX tasks_urgent ON tasks (tenant_id) WHERE urgent;
    CREATE INDEX tasks_of ON tasks (tenant_id, project_id);
    CREATE INDEX tasks_alive ON tasks (title) WHERE deleted_at IS NULL;
    CREATE TABLE members (room_id int, user_id int, seen int NOT NULL DEFAULT 0,
                          PRIMARY KEY (room_id, user_id));
    CREATE INDEX ON members (user_id);
    CREATE TABLE people (id int PRIMARY KEY, email text NOT NULL UNIQUE, org int NOT NULL);
    CREATE TABLE tags (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                       person int NOT NULL REFERENCES people DEFERRABLE INITIALLY DEFERRED);
    INSERT INTO products SELECT i, 5, 0 FROM generate_series(1, 2000) i;
    INSERT INTO tasks (urgent, tenant_id, project_id, title, deleted_at, parent_id)
    SELECT (i / 200) % 50 = 0, 1 + i % 200, 1 + (i / 200) % 20, md5(i::text),
           CASE WHEN i % 49 = 0 THEN now() END, CASE WHEN i % 11 = 0 THEN i / 2 END
    FROM generate_series(1, 20000) i;
    INSERT INTO members SELECT room, (room * 37 + n * 211) % 5000, 0
    FROM generate_series(1, 500) room, generate_series(1, 20) n;
    INSERT INTO people SELECT i, 'p' || (i * 7919) % 3001 || '@example.org', i % 30
    FROM generate_series(1, 3000) i;
    ANALYZE;
    CREATE EXTENSION pg_stat_statements;
    SELECT pg_stat_statements_reset()"""
CALLS = 200
STATEMENTS = {
    "UPDATE products SET": (
        "UPDATE products SET stock = 4, lock_version = {n} % 7 + 1 WHERE id = {n} AND lock_version = 0"
    ),
    "SELECT id, title": (
        "SELECT id, title FROM tasks WHERE tenant_id = (SELECT tenant_id FROM tasks WHERE id = {n}) "
        "AND project_id = 3"
    ),
    "SELECT title FROM": "SELECT title FROM tasks WHERE tenant_id = {tenant} AND project_id = {project}",
    "SELECT id, urgent": "SELECT id, urgent FROM tasks WHERE tenant_id = {tenant} AND urgent",
    "INSERT INTO tasks": (
        "INSERT INTO tasks (tenant_id, project_id, title, deleted_at, parent_id) "
        "VALUES ({tenant}, {project}, 'new {n}', {null}, {null})"
    ),
    "UPDATE members SET": "UPDATE members SET seen = {n} WHERE room_id = {room} AND user_id = {user}",
    "SELECT room_id FROM": "SELECT room_id FROM members WHERE user_id = {user}",
    "SELECT id FROM": "SELECT id FROM people WHERE upper(email) = upper('p{person}@example.org')",
    "SELECT email FROM": "SELECT email FROM people WHERE email = 'p{person}@example.org' AND org = {org}",
    "INSERT INTO tags": "INSERT INTO tags (person) VALUES ({n})",
}


def application(session: psycopg.Connection[tuple[object, ...]]) -> None:
    """Each statement equally often, with values that rows have."""
    pairs = session.execute("SELECT tenant_id, project_id FROM tasks ORDER BY id").fetchall()
    for n in range(1, CALLS + 1):
        tenant, project = pairs[n]
        room = 1 + n * 2
        values = {
            "n": n, "tenant": tenant, "project": project, "null": "NULL", "room": room,
            "user": (room * 37 + 3 * 211) % 5000, "person": (n * 7919) % 3001, "org": n % 30,
        }  # fmt: skip
        for query in STATEMENTS.values():
            session.execute(query.format(**values).encode())


@pytest.mark.parametrize("chosen", versions.newest(counting_installs()), ids=lambda each: each.version)
def test_a_draft_finds_and_writes_what_the_application_does(
    chosen: Install, workspace: Workspace, tmp_path: Path
) -> None:
    install = reachable_install(chosen, server_user())
    versions.note(install.version)
    with running(install, workspace, "application", COUNTING) as cluster:
        execute(cluster, SCHEMA)
        with cluster.connect() as session:
            application(session)
        done = walproof(
            "workload", cluster.conninfo, "--to", "orm", "--since-reset", "--try", "--json", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["query"] for each in found["left_out"] if "OPERATOR" in each["query"]] == []
    said = statements_of(found)
    problems = {
        begins: (each["rows"] / each["calls"], each["tried"])
        for begins, each in said.items()
        if each["tried"] is None or "rows" in each["tried"]["differs"]
    }
    assert problems == {}
    assert said["INSERT INTO tasks"]["tried"]["wal_records"] == pytest.approx(
        said["INSERT INTO tasks"]["wal_records"] / CALLS, rel=0.1
    )


DOCUMENTS = """
    CREATE TABLE doc (id bigint PRIMARY KEY, org int NOT NULL, no int NOT NULL, qty int, at timestamptz,
                      title text, data jsonb, tags text[], UNIQUE (org, no));
    CREATE TABLE log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, doc bigint, what text);
    INSERT INTO doc SELECT i, i % 30, i, i % 100, now() - i * interval '1 min', md5(i::text),
                           jsonb_build_object('n', i, 'of', md5(i::text)), ARRAY['a', 'b' || i % 9]
    FROM generate_series(1, 3000) i;
    ANALYZE;
    CREATE EXTENSION pg_stat_statements;
    SELECT pg_stat_statements_reset()"""
IDIOMS = (
    "UPDATE doc SET qty = 5 WHERE id = {n} AND qty = {n} % 100",
    "INSERT INTO doc (id, org, no) SELECT 10000 + {n}, 7, COALESCE(MAX(no), 0) + 1 FROM doc WHERE org = 7",
    "INSERT INTO log (doc, what) SELECT unnest(ARRAY[{n}, 2]::bigint[]), 'seen'",
    "WITH u AS (UPDATE doc SET qty = qty + 1 WHERE id = {n} RETURNING id) "
    "INSERT INTO log (doc, what) SELECT id, 'more' FROM u",
    "SELECT id FROM doc WHERE id > {n} ORDER BY id LIMIT 20",
    "UPDATE doc SET at = now() + (no % 9 + 1) * interval '1 second' WHERE id = {n}",
    "UPDATE doc SET at = at + {n} * interval '1 day' WHERE id = {n}",
    "UPDATE doc SET at = now() + ({n} || ' days')::interval WHERE id = {n}",
    "UPDATE doc SET at = at + make_interval(secs => {n}) WHERE id = {n}",
    "SELECT id FROM doc WHERE upper(title::text) LIKE upper('c4ca42%')",
    "SELECT sum((data->>'n')::numeric) FROM doc WHERE org = {n} % 30",
    "UPDATE doc SET data = data - 'of' WHERE id = {n}",
    "SELECT id, title FROM doc WHERE 'b3' = ANY(tags)",
    "SELECT org FROM doc GROUP BY org HAVING count(*) > {n}",
    "SELECT count(*) FROM (SELECT 1 AS one FROM doc WHERE org = {n} % 30 LIMIT 9) s",
    "SELECT id, org FROM doc WHERE data->>'of' = 'x{n}'",
)


@pytest.mark.parametrize("chosen", versions.newest(counting_installs()), ids=lambda each: each.version)
def test_what_queues_and_reports_write_runs(chosen: Install, workspace: Workspace, tmp_path: Path) -> None:
    install = reachable_install(chosen, server_user())
    versions.note(install.version)
    with running(install, workspace, "application", COUNTING) as cluster:
        execute(cluster, DOCUMENTS)
        with cluster.connect() as session:
            for n in range(1, 31):
                for query in IDIOMS:
                    session.execute(query.format(n=n).encode())
        done = walproof(
            "workload", cluster.conninfo, "--to", "docs", "--since-reset", "--try", "--json", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(each["why"], each["query"]) for each in found["left_out"]] == []
    tried = [each for script in found["scripts"] for each in script["statements"]]
    assert len(tried) == len(IDIOMS)
    assert [each["query"] for each in tried if each["tried"] is None] == []

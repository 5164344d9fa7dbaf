"""Statements of a drafted load find and make as many rows as the application's do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests import versions
from tests.live.test_workload import COUNTING, counting_installs, execute, pgbench, running
from tests.postgres.replication import wait_until
from walproof.advise.workload.draft import DraftOrder, draft
from walproof.advise.workload.toast import wide_of
from walproof.facts import Install
from walproof.observe.application import read_application
from walproof.postgres.cluster import Cluster
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.workload.loading.ddl import statements

pytestmark = pytest.mark.live

SCHEMA = """
    CREATE TABLE acc (id bigint PRIMARY KEY, code text UNIQUE, n int NOT NULL, exp timestamptz, "select" int,
                      ts timestamp, t time, dur interval, during tstzrange, j jsonb);
    INSERT INTO acc SELECT i, 'c' || i, i % 50, now(), i % 7, now(), '10:00', '1 min', tstzrange(now(), NULL),
                           jsonb_build_object('a', i) FROM generate_series(1, 5000) i;
    CREATE TABLE counters (day date, page text, hits bigint, PRIMARY KEY (day, page));
    INSERT INTO counters SELECT date '2026-01-01' + i / 100, 'p' || i % 100, 0
    FROM generate_series(0, 29999) i;
    CREATE TABLE perm (acc int, what text, PRIMARY KEY (acc, what));
    INSERT INTO perm SELECT i / 3, chr(97 + i % 3) FROM generate_series(0, 2999) i;
    CREATE SCHEMA "Sales";
    CREATE TABLE "Sales".ord (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, who int);
    CREATE TABLE "Sales".line (ord bigint REFERENCES "Sales".ord, no smallint, sku text,
                               PRIMARY KEY (ord, no));
    INSERT INTO "Sales".ord (who) SELECT i % 9 FROM generate_series(1, 2000) i;
    INSERT INTO "Sales".line SELECT 1 + i / 2, 1 + i % 2, md5(i::text) FROM generate_series(0, 3999) i;
    CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, due timestamptz NOT NULL,
                       done boolean NOT NULL DEFAULT false);
    INSERT INTO jobs (due) SELECT now() + i * interval '1 s' FROM generate_series(1, 3000) i;
    CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL, what text,
                         PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
    CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (MINVALUE) TO ('2026-01-01');
    CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO (MAXVALUE);
    INSERT INTO events (at, what) SELECT timestamptz '2025-12-31' + i * interval '60 s', 'x'
    FROM generate_series(1, 3000) i;
    CREATE SEQUENCE free;
    CREATE TABLE inv (id bigint PRIMARY KEY DEFAULT nextval('free'), what text,
                      no text UNIQUE NOT NULL DEFAULT 'I-' || nextval('free'),
                      at timestamptz NOT NULL DEFAULT now());
    INSERT INTO inv (what) SELECT 'x' FROM generate_series(1, 500);
    CREATE TABLE docs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL);
    ALTER TABLE docs ALTER body SET STORAGE EXTERNAL;
    INSERT INTO docs (body) SELECT repeat(md5(i::text), 250) FROM generate_series(1, 200) i;
    CREATE FUNCTION max(text, text) RETURNS text LANGUAGE sql AS 'SELECT greatest($1, $2)';
    CREATE FUNCTION later(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';
    CREATE VIEW best AS SELECT * FROM acc WHERE n > 40;
    CREATE EXTENSION pg_stat_statements;
    ANALYZE;
    SELECT pg_stat_statements_reset()"""
STATEMENTS = (
    "INSERT INTO counters VALUES ('2025-01-01', 'p{n}', 1)",
    "INSERT INTO counters VALUES ('2026-01-01', 'p{n}', 1) "
    "ON CONFLICT (day, page) DO UPDATE SET hits = counters.hits + 1",
    "INSERT INTO perm VALUES ({n}, 'z')",
    "UPDATE acc SET exp = now() + interval '30 min' WHERE id = {n}",
    "UPDATE acc SET exp = exp + interval '1 day' WHERE id = {n}",
    "UPDATE acc SET during = tstzrange(now(), now() + interval '1 h') WHERE id = {n}",
    "UPDATE acc SET ts = timestamp '2026-01-01', t = time '11:00', dur = interval '5 s' WHERE id = {n}",
    "SELECT extract(epoch FROM now() - exp), date_trunc('day', exp) FROM acc WHERE id = {n}",
    "SELECT coalesce(sum(n), 0), count(*) FILTER (WHERE code IS NULL) FROM acc WHERE id = {n}",
    """SELECT id FROM acc WHERE j @> '{{"a": {n}}}' AND id < 4999""",
    "INSERT INTO acc (id, code, exp, n) VALUES (9{n}, 'd{n}', now(), 1) ON CONFLICT DO NOTHING",
    "SELECT id, n FROM acc WHERE id BETWEEN {n} AND {n} + 3",
    "SELECT id, exp FROM acc WHERE id BETWEEN {n} AND 1{n}",
    "UPDATE acc SET n = v.x FROM (VALUES ({n}, 2), (1{n}, 3)) v (i, x) WHERE acc.id = v.i",
    'UPDATE acc SET n = 5 WHERE (id, "select") IN (({n}, {n} % 7), (7, 0))',
    "UPDATE acc SET n = v.x FROM unnest(ARRAY[{n}, 1{n}]::int[], ARRAY[1, 2]::int[]) v (i, x) "
    "WHERE acc.id = v.i",
    "INSERT INTO \"Sales\".line VALUES ({n}, 7, 'a'), ({n}, 8, 'b')",
    "SELECT id FROM jobs WHERE NOT done ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED",
    "INSERT INTO events (at, what) VALUES ('2026-11-01 00:00:{n}', 'y')",
    "SELECT code || 'x', now() - exp + '1 s', n * 2, -n + 1, to_char(exp, 'YYYY'), exp AT TIME ZONE 'UTC', "
    "j #>> '{{a}}', j -> 'a', left(code, 3), round(n::numeric, 2) FROM acc WHERE id = {n}",
    "SELECT sum(CASE WHEN n > 3 THEN 1 ELSE 0 END), count(*) + 1, string_agg(code, ','), "
    "coalesce(max(exp), now()), coalesce(max(code), 'none'), date_part('hour', max(exp)) "
    "FROM acc WHERE id = {n}",
    "SELECT substring(code from 2 for 3), upper('a' || code), 'x', 1, 'now' FROM acc "
    "WHERE id = {n} AND 1 = 1",
    "WITH v (i, x) AS (VALUES ({n}, 2), (1{n}, 3)) UPDATE acc SET n = acc.n + v.x FROM v WHERE acc.id = v.i",
    "SELECT id FROM acc WHERE (id, n) >= ({n}, 1) ORDER BY id LIMIT 7",
    "SELECT page FROM counters WHERE day = '2026-01-02' AND page > 'p{n}' LIMIT 5",
    "SELECT id, ts FROM acc WHERE id IN ({n}, 1{n})",
    "UPDATE events SET what = 'z' WHERE id = {n}",
    "INSERT INTO inv (what) VALUES ('y{n}')",
    "INSERT INTO inv (id, what, at) VALUES (DEFAULT, 'z{n}', now() - interval '1 h')",
    "INSERT INTO docs (body) VALUES ('x{n}')",
)
MERGE = (
    "MERGE INTO counters c USING (VALUES (date '2026-01-02', 'p{n}', 1)) v (d, p, h) "
    "ON c.day = v.d AND c.page = v.p WHEN MATCHED THEN UPDATE SET hits = hits + v.h "
    "WHEN NOT MATCHED THEN INSERT (day, page, hits) VALUES (v.d, v.p, v.h)"
)
TIMES = 40


def counted(cluster: Cluster) -> float:
    """Rows that the statements on the tables returned or changed."""
    named = "acc|count|perm|Sales|jobs|events|inv|docs"
    query = f"SELECT sum(rows)::float8 FROM pg_stat_statements WHERE query ~ '{named}'"
    with cluster.connect() as session:
        found = session.execute(query.encode()).fetchone()
    assert found is not None
    return float(str(found[0]))


@pytest.mark.parametrize("chosen", versions.newest(counting_installs()), ids=lambda each: each.version)
def test_statements_have_as_many_rows(chosen: Install, workspace: Workspace, open_place: Path) -> None:
    install = reachable_install(chosen, server_user())
    versions.note(install.version)
    queries = STATEMENTS + (MERGE,) * (chosen.version_num >= 150000)
    with running(install, workspace, "application", COUNTING) as cluster:
        execute(cluster, SCHEMA)
        for query in queries:
            with cluster.connect() as session:
                pid = session.info.backend_pid
                for n in range(10, 10 + TIMES):
                    session.execute(query.format(n=n).encode(), prepare=False)
        # A session's last counts of rows are there once it has gone.
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
        seen = read_application(cluster.conninfo, None)
    assert seen.views == (("public", "best", "v"),)
    assert "later" in seen.functions
    assert "max" not in seen.functions, "a call of it is one of the server's own"
    docs = next(each for each in seen.tables if each.name == "public.docs")
    assert wide_of(docs)["body"] == pytest.approx(8000, rel=0.15), "ANALYZE says 18"
    made = draft(replace(seen, commits=None), DraftOrder("rows", 1 << 30, 100))
    assert [(left.why, left.statement.query) for left in made.left_out
            if not re.match("CREATE|ANALYZE", left.statement.query)
            and left.statement.calls > 1] == []  # fmt: skip
    drafted = 0
    with running(install, workspace, "draft", COUNTING) as cluster:
        for each in statements(made.files["schema.sql"]):
            execute(cluster, each.sql)
        execute(cluster, "CREATE EXTENSION pg_stat_statements")
        wrong = []
        for name, transaction in made.scripts.items():
            (member,) = transaction.members
            if member.statement.calls < TIMES:
                continue
            drafted += 1
            (open_place / name).write_text(made.files[name])
            execute(cluster, "SELECT pg_stat_statements_reset()")
            with pgbench(cluster, "-f", str(open_place / name), "-t", str(TIMES)) as load:
                _, said = load.communicate()
            if load.returncode or b"aborted" in said:
                wrong.append((made.files[name], said.decode()))
                continue
            rows, expected = counted(cluster) / 2 / TIMES, member.statement.rows / member.statement.calls
            if rows != pytest.approx(expected, rel=0.05):
                wrong.append((made.files[name], f"{rows} rows, expected {expected}"))
        assert not wrong, "\n".join(map(str, wrong))
    assert drafted == len(queries)

"""A load drafted from a real server: it runs, and writes what the application writes."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests import versions
from tests.cli.command import walproof
from tests.schemas import assert_valid
from walproof.advise.workload.values import value
from walproof.facts import Install
from walproof.observe import app_tables
from walproof.observe.application import read_application
from walproof.postgres import template as templates
from walproof.postgres.build import has_extension
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.environment import child_environment
from walproof.privilege.user import server_user
from walproof.settings.conf import read_conf
from walproof.workload.loading.ddl import statements

pytestmark = pytest.mark.live

COUNTING = {"shared_preload_libraries": "pg_stat_statements"}
SCHEMA = """
    CREATE TYPE mood AS ENUM ('calm', 'cross');
    CREATE TABLE owners (id uuid PRIMARY KEY, email text NOT NULL UNIQUE, mood mood NOT NULL DEFAULT 'calm');
    CREATE TABLE parcels (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner uuid NOT NULL REFERENCES owners,
        weight numeric(8,2) NOT NULL CHECK (weight > 0), labels text[], note varchar(40), seen timestamptz
    );
    CREATE INDEX parcels_owner ON parcels (owner);
    CREATE TABLE days (day date, kind int, n bigint NOT NULL DEFAULT 0, PRIMARY KEY (day, kind));
    INSERT INTO owners SELECT md5(i::text)::uuid, i || '@example.org', 'calm' FROM generate_series(1, 2000) i;
    INSERT INTO parcels (owner, weight, note) SELECT md5((1 + i % 2000)::text)::uuid, 1 + i % 40, md5(i::text)
    FROM generate_series(1, 20000) i;
    INSERT INTO days SELECT current_date - i / 3, i % 3, 0 FROM generate_series(0, 299) i;
    ANALYZE;
    CREATE EXTENSION pg_stat_statements;
    CREATE ROLE looker LOGIN;
    GRANT pg_monitor TO looker;
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO looker"""
APPLICATION = """
    \\set o random(1, 2000)
    \\set p random(1, 20000)
    BEGIN;
    INSERT INTO parcels (owner, weight, labels, note)
    VALUES (md5(:o::text)::uuid, 7.5, ARRAY['a', 'b'], repeat('x', 20));
    INSERT INTO days (day, kind, n) VALUES (current_date, 1, 1)
    ON CONFLICT (day, kind) DO UPDATE SET n = days.n + 1;
    COMMIT;
    UPDATE parcels SET seen = now(), weight = weight + 1 WHERE id = :p;
    SELECT id, note FROM parcels WHERE owner = md5(:o::text)::uuid ORDER BY id LIMIT 3;
"""
TRANSACTIONS = 1000
"""At 100 a second. Before 15 sessions tell of commits up to half a second late: a look is much longer."""
TYPES = (
    "smallint", "integer", "bigint", "real", "double precision", "numeric", "numeric(10,2)", "money", "oid",
    "boolean", "date", "timestamp without time zone", "timestamp(3) with time zone",
    "time without time zone", "interval", "uuid", "inet", "point", "int4range", "int8range", "daterange",
    "tstzrange", "tsrange", "text", "character varying(40)", "character(12)", "name", "bytea", "json",
    "jsonb", "tsvector", "text[]", "integer[]",
)  # fmt: skip
UNIQUE = (
    "integer",
    "bigint",
    "uuid",
    "text",
    "character varying(40)",
    "timestamp without time zone",
    "bytea",
)


def counting_installs() -> list[Install]:
    """The oldest and the newest install that has pg_stat_statements."""
    return versions.ends([each for each in versions.installs() if has_extension(each, "pg_stat_statements")])


@contextmanager
def running(install: Install, workspace: Workspace, name: str, settings: dict[str, str]) -> Iterator[Cluster]:
    folder = workspace.make_folder(name)
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start(settings)
    try:
        yield cluster
    finally:
        cluster.stop("immediate")


def execute(cluster: Cluster, text: str) -> None:
    with cluster.connect() as session:
        session.execute(text.encode())


def pgbench(cluster: Cluster, *arguments: str) -> subprocess.Popen[bytes]:
    program = reachable_pgbench(discover(), server_user())
    return subprocess.Popen(
        [str(program), "-n", "-c", "2", "-M", "prepared", *arguments, cluster.conninfo],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment(),
    )  # fmt: skip


def records(cluster: Cluster) -> float:
    """WAL records of all statements."""
    query = "SELECT sum(wal_records)::float8 FROM pg_stat_statements WHERE query !~* 'pg_|checkpoint'"
    with cluster.connect() as session:
        rows = session.execute(query).fetchall()
    return float(str(rows[0][0]))


@pytest.mark.parametrize("chosen", versions.newest(counting_installs()), ids=lambda each: each.version)
def test_a_draft_writes_what_the_application_writes(
    chosen: Install, workspace: Workspace, tmp_path: Path, open_place: Path
) -> None:
    install = reachable_install(chosen, server_user())
    versions.note(install.version)
    script = open_place / "application.sql"
    script.write_text(APPLICATION)
    settings = {**COUNTING, "max_wal_size": "2GB", "shared_buffers": "48MB", "cluster_name": "secret"}
    if chosen.version_num >= 140000:
        settings["track_wal_io_timing"] = "on"
    with running(install, workspace, "application", settings) as cluster:
        execute(cluster, SCHEMA)
        execute(cluster, "SELECT pg_stat_statements_reset()")
        with pgbench(cluster, "-f", str(script), "-R", "100", "-t", str(TRANSACTIONS)) as load:
            time.sleep(1)
            conninfo = f"{cluster.conninfo} user=looker"
            done = walproof("workload", conninfo, "--to", "parcels", "--for", "8s", "--json", cwd=tmp_path)
            _, said = load.communicate()
        assert load.returncode == 0, said.decode()
        assert done.returncode == 0, done.stderr
        written = records(cluster)
    found = json.loads(done.stdout)
    assert_valid("workload", found)
    assert found["left_out"] == []
    assert found["wal_share"] == 1.0
    assert not any("ON CONFLICT" in note for note in found["notes"]), "no row of it was new"
    assert (found["device"] is not None) == (chosen.version_num >= 140000)
    assert found["rate"] == pytest.approx(300, rel=0.25), "two transactions and a read, 100 times a second"
    verbs_of = [[each["query"].split()[0] for each in script["statements"]] for script in found["scripts"]]
    assert ["INSERT", "INSERT"] in [sorted(verbs)[:2] for verbs in verbs_of]
    folder = tmp_path / "parcels"
    (load_table,) = tomllib.loads((folder / "parcels.toml").read_text())["workload"]
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    with running(install, workspace, "draft", COUNTING) as cluster:
        for each in statements((folder / "schema.sql").read_text()):
            execute(cluster, each.sql)
        execute(cluster, "CREATE EXTENSION pg_stat_statements")
        execute(cluster, "SELECT pg_stat_statements_reset()")
        words: list[str] = []
        for each in load_table["script"]:
            (open_place / each["file"]).write_text((folder / each["file"]).read_text())
            words += ["-f", f"{open_place / each['file']}@{each['weight']}"]
        scripts = round(TRANSACTIONS * 2 * found["rate"] / 100)
        with pgbench(cluster, *words, "-t", str(scripts // 2)) as load:
            _, said = load.communicate()
        assert load.returncode == 0, said.decode()
        assert b"aborted" not in said
        assert records(cluster) == pytest.approx(written, rel=0.15)
    conf = read_conf(folder / "server.conf")
    assert (conf["max_wal_size"], conf["shared_buffers"]) == ("2GB", "48MB")
    assert not {"cluster_name", "shared_preload_libraries", "listen_addresses", "port"} & set(conf)
    given = ("--load", "parcels/parcels.toml", "--conf", "parcels/server.conf", "--pg", chosen.bindir)
    for command in (("tune", *given, "--quick"), ("compare", *given, "--set", "commit_delay=10")):
        done = walproof(*command, "--dry-run", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "max_wal_size" in done.stdout


PARTITIONED = """
    CREATE TABLE readings (device int NOT NULL, at timestamptz NOT NULL, v float8, PRIMARY KEY (device, at))
        PARTITION BY RANGE (at);
    CREATE TABLE readings_1 PARTITION OF readings FOR VALUES FROM (MINVALUE) TO ('2026-01-01');
    CREATE TABLE readings_2 PARTITION OF readings FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
    CREATE TABLE readings_3 PARTITION OF readings FOR VALUES FROM ('2026-02-01') TO (MAXVALUE);
    CREATE TABLE kinds (id bigint GENERATED ALWAYS AS IDENTITY, kind text NOT NULL, note text)
        PARTITION BY LIST (kind);
    CREATE TABLE kinds_1 PARTITION OF kinds FOR VALUES IN ('a', 'b');
    CREATE TABLE kinds_2 PARTITION OF kinds DEFAULT;
    CREATE TABLE spread (id bigint PRIMARY KEY, note text) PARTITION BY HASH (id);
    CREATE TABLE spread_1 PARTITION OF spread FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE spread_2 PARTITION OF spread FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    CREATE INDEX ON spread (note);
    INSERT INTO readings SELECT i % 100, timestamptz '2025-12-31' + i * interval '100 s', i
    FROM generate_series(1, 60000) i;
    INSERT INTO kinds (kind, note) SELECT chr(97 + i % 4), md5(i::text) FROM generate_series(1, 2000) i;
    INSERT INTO spread SELECT i, md5(i::text) FROM generate_series(1, 2000) i;
    CREATE TABLE items (id bigint PRIMARY KEY, spread bigint NOT NULL REFERENCES spread);
    INSERT INTO items SELECT 1000 + i, 1 + i % 2000 FROM generate_series(1, 500) i;
    ANALYZE readings_1, readings_2, readings_3, kinds, spread;
    CREATE EXTENSION pg_stat_statements;
    SELECT pg_stat_statements_reset()"""
WRITES = (
    "INSERT INTO readings VALUES ({n}, now() + {n} * interval '1 s', 1.5)",
    "INSERT INTO readings VALUES ({n}, '2026-11-25 12:00:{n}+00', 1.5)",
    "INSERT INTO kinds (kind, note) VALUES ('a', 'x{n}')",
    "UPDATE spread SET note = 'y{n}' WHERE id = {n}",
    "INSERT INTO items VALUES ({n}, {n})",
)


@pytest.mark.parametrize("chosen", counting_installs(), ids=lambda each: each.version)
def test_partitions_come_along(
    chosen: Install, workspace: Workspace, tmp_path: Path, open_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = reachable_install(chosen, server_user())
    versions.note(install.version)
    with running(install, workspace, "application", COUNTING) as cluster:
        execute(cluster, PARTITIONED)
        for n in range(10, 40):
            for query in WRITES:
                execute(cluster, query.format(n=n))
        found = read_application(cluster.conninfo, None)
        done = walproof("workload", cluster.conninfo, "--to", "parts", "--since-reset", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        with monkeypatch.context() as patch:
            patch.setattr(app_tables, "TABLES_MOST", 3)
            few = read_application(cluster.conninfo, None)
    assert {table.name for table in few.tables} == {"public.readings", "public.kinds", "public.spread"}
    assert any(lack.startswith("tables: only 3 of 11 were read") for lack in few.lacks)
    tables = {table.name: table for table in found.tables}
    readings = tables["public.readings"]
    assert (readings.partitioned_by, readings.partition_columns, readings.partitions) == ("r", ("at",), 3)
    assert readings.rows == pytest.approx(60_000, rel=0.01)
    assert dict(readings.index_pages)["device", "at"] > 50, "those of all partitions"
    at = next(column for column in readings.columns if column.name == "at")
    assert at.correlation == pytest.approx(1.0, abs=0.01), "of the largest partition"
    items = tables["public.items"]
    assert [key.other for key in items.keys if key.kind == "f"] == ["public.spread"], "none of its partitions"
    assert items.rows == pytest.approx(530, rel=0.2), "it was never analysed"
    assert "public.kinds is partitioned by lists; here it is by hash." in " ".join(done.stdout.split())
    with running(install, workspace, "draft", COUNTING) as cluster:
        for each in statements((tmp_path / "parts" / "schema.sql").read_text()):
            execute(cluster, each.sql)
        query = "SELECT count(*) FROM pg_inherits WHERE inhparent = %s::regclass"
        with cluster.connect() as session:
            counts = [session.execute(query, [name]).fetchone() for name in ("readings", "kinds", "spread")]
            assert counts == [(3,), (2,), (2,)]
            before = sizes(session)
        assert max(before) < 1.1 * min(before)
        for script in (tmp_path / "parts").glob("0*.sql"):
            (open_place / script.name).write_text(script.read_text())
            with pgbench(cluster, "-f", str(open_place / script.name), "-t", "20") as load:
                _, said = load.communicate()
            assert load.returncode == 0, said.decode()
            assert b"aborted" not in said
        with cluster.connect() as session:
            after = sizes(session)
    assert [now - then for now, then in zip(after, before, strict=True)] == [0, 0, 80], "the newest partition"


def sizes(session: psycopg.Connection[tuple[object, ...]]) -> list[int]:
    """Rows of the three partitions of the readings."""
    names = [f"readings_part{number}" for number in (1, 2, 3)]
    rows = [session.execute(f"SELECT count(*) FROM {name}".encode()).fetchone() for name in names]
    return [int(str(row[0])) for row in rows if row is not None]


OWN_SCHEMA = """
    CREATE SCHEMA app;
    CREATE SCHEMA "Odd one";
    CREATE TYPE app.state AS ENUM ('new', 'packed', 'paid', 'sent', 'lost');
    CREATE TYPE "Odd one".grade AS ENUM ('a', 'b');
    CREATE TABLE app.tenants (id smallint PRIMARY KEY, name text NOT NULL);
    CREATE TABLE app.people (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant smallint NOT NULL REFERENCES app.tenants,
        mail text NOT NULL, grade "Odd one".grade NOT NULL, CONSTRAINT people_mail UNIQUE (mail));
    CREATE UNIQUE INDEX ON app.people (tenant, lower(mail));
    ALTER TABLE app.people ADD gone timestamptz, ADD a int, ADD b int;
    CREATE UNIQUE INDEX ON app.people (lower(mail)) WHERE gone IS NULL;
    CREATE UNIQUE INDEX ON app.people (tenant, coalesce(a, 0)) INCLUDE (grade) WHERE a > 0;
    CREATE UNIQUE INDEX ON app.people (least(a, b), greatest(a, b)) WHERE b > 0;
    CREATE TABLE app.places (id int PRIMARY KEY, name text);
    CREATE TABLE app.stock (
        tenant smallint REFERENCES app.tenants, place int REFERENCES app.places, n int NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant, place));
    CREATE TABLE app.orders (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, person bigint NOT NULL REFERENCES app.people,
        state app.state NOT NULL, during int4range, EXCLUDE USING gist (during WITH &&));
    CREATE INDEX ON app.orders (id) WHERE state IN ('new', 'paid');
    CREATE UNIQUE INDEX ON app.orders (person) WHERE state = 'lost';
    INSERT INTO app.tenants SELECT i, 'tenant ' || i FROM generate_series(1, 40) i;
    INSERT INTO app.people (tenant, mail, grade)
    SELECT 1 + i % 40, i || '@example.org', 'a' FROM generate_series(1, 4000) i;
    INSERT INTO app.places SELECT i, md5(i::text) FROM generate_series(1, 50) i;
    INSERT INTO app.stock SELECT t, p, 0 FROM generate_series(1, 40) t, generate_series(1, 50) p;
    INSERT INTO app.orders (person, state, during)
    SELECT 1 + i % 4000, (ARRAY['sent', 'lost', 'paid'])[1 + i % 3]::app.state, int4range(2 * i, 2 * i + 1)
    FROM generate_series(1, 6000) i;
    ANALYZE app.tenants, app.people, app.places, app.orders, app.stock;
    CREATE EXTENSION pg_stat_statements;
    CREATE ROLE looker LOGIN;
    GRANT pg_monitor TO looker;
    SELECT pg_stat_statements_reset()"""
OWN_WRITES = (
    "INSERT INTO people (tenant, mail, grade) VALUES (1 + {n} % 40, 'n{n}@example.org', 'b') "
    "ON CONFLICT ON CONSTRAINT people_mail DO UPDATE SET grade = excluded.grade",
    "UPDATE stock SET n = n + 1 WHERE tenant = {n} % 40 + 1 AND place = {n}",
    "UPDATE orders SET state = 'paid' WHERE id = {n}",
)


@pytest.mark.parametrize("role", ["owner", "looker"])
@pytest.mark.parametrize("chosen", versions.newest(counting_installs()), ids=lambda each: each.version)
def test_an_application_with_schemas_of_its_own(
    chosen: Install, workspace: Workspace, tmp_path: Path, open_place: Path, role: str
) -> None:
    """Its roles find tables by search_path; a role with pg_monitor alone sees no statistics of columns."""
    install = reachable_install(chosen, server_user())
    versions.note(install.version)
    with running(install, workspace, "application", COUNTING) as cluster:
        execute(cluster, OWN_SCHEMA)
        with cluster.connect() as session:
            session.execute(b"SET search_path = app, public")
            for n in range(1, 41):
                for query in OWN_WRITES:
                    session.execute(query.format(n=n).encode())
        conninfo = cluster.conninfo + (" user=looker" if role == "looker" else "")
        found = read_application(conninfo, None)
        done = walproof("workload", conninfo, "--to", "own", "--since-reset", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "not in the load" not in done.stdout
    assert "is no unique key here" not in done.stdout
    tables = {table.name: table for table in found.tables}
    unique = [each.columns for each in tables["app.people"].indexes if each.is_unique]
    # Those of expressions, too, and none of a predicate.
    assert unique == [("tenant", "mail"), ("mail",), ("tenant", "a")]
    assert "has a unique index that is a plain one here" in " ".join(done.stdout.split())
    state = next(column for column in tables["app.orders"].columns if column.name == "state")
    assert set(state.usual) == ({"sent", "lost", "paid"} if role == "owner" else set())
    with running(install, workspace, "draft", COUNTING) as cluster:
        for each in statements((tmp_path / "own" / "schema.sql").read_text()):
            execute(cluster, each.sql)
        for script in (tmp_path / "own").glob("0*.sql"):
            (open_place / script.name).write_text(script.read_text())
            with pgbench(cluster, "-f", str(open_place / script.name), "-t", "50") as load:
                _, said = load.communicate()
            assert load.returncode == 0, said.decode()
            assert b"aborted" not in said, said.decode()
        with cluster.connect() as session:
            rows = session.execute("SELECT DISTINCT state::text FROM app.orders").fetchall()
        if role == "owner":
            assert {str(name) for (name,) in rows} <= {"sent", "lost", "paid"}


def test_every_type_has_values(install: Install, workspace: Workspace) -> None:
    with running(install, workspace, "types", {}) as cluster, cluster.connect() as session:
        session.execute("CREATE TYPE mood AS ENUM ('calm', 'cross')")
        for type_ in TYPES:
            made = value(type_, "i", 200)
            assert made is not None, type_
            session.execute(f"SELECT ({made})::{type_} FROM generate_series(1::bigint, 500) i".encode())
        labels = value("public.mood", "i", None, ("calm", "cross"))
        session.execute(f"SELECT {labels} FROM generate_series(1::bigint, 9) i".encode())
        for type_ in UNIQUE:
            made = value(type_, "i", 6, is_unique=True)
            query = f"SELECT count(DISTINCT {made}) FROM generate_series(1::bigint, 70000) i"
            assert session.execute(query.encode()).fetchone() == (70000,), type_


@pytest.mark.parametrize("kind", ["missing", "not loaded", "no right", "old", "no schema"])
def test_what_a_server_lacks_is_said(kind: str, workspace: Workspace, tmp_path: Path) -> None:
    *_, chosen = counting_installs()
    install = reachable_install(chosen, server_user())
    versions.note(install.version)
    with running(install, workspace, "lacking", {} if kind == "not loaded" else COUNTING) as cluster:
        if kind == "old":
            old = "1.8" if chosen.version_num >= 140000 else "1.7"
            execute(cluster, f"CREATE EXTENSION pg_stat_statements VERSION '{old}'")
        elif kind == "no schema":
            execute(cluster, "CREATE SCHEMA ext")
            execute(cluster, "CREATE EXTENSION pg_stat_statements SCHEMA ext")
        elif kind != "missing":
            execute(cluster, "CREATE EXTENSION pg_stat_statements")
        execute(cluster, "CREATE ROLE nobody LOGIN")
        for number in range(20):
            execute(cluster, f"CREATE TABLE t{number} ()")
        conninfo = f"{cluster.conninfo} user=nobody"
        done = walproof("workload", conninfo, "--to", "new", "--since-reset", cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "new").exists()
    expected = {
        "missing": "has no extension pg_stat_statements",
        "not loaded": "could not read pg_stat_statements",
        "no right": "the texts of most statements are hidden from this role",
        "old": "ALTER EXTENSION pg_stat_statements UPDATE",
        "no schema": "GRANT USAGE ON SCHEMA ext TO",
    }[kind]
    assert expected in done.stderr
    assert "hint: " in done.stderr


def test_nothing_in_quotes_is_read(workspace: Workspace) -> None:
    """The view keeps passwords as they were typed."""
    *_, chosen = counting_installs()
    install = reachable_install(chosen, server_user())
    with running(install, workspace, "secret", COUNTING) as cluster:
        execute(cluster, "CREATE EXTENSION pg_stat_statements")
        execute(cluster, "CREATE ROLE somebody PASSWORD 'canary-7'")
        execute(cluster, "DO $$ BEGIN PERFORM 'canary-7'; END $$")
        found = read_application(cluster.conninfo, None)
    texts = [each.query for each in found.statements]
    assert "CREATE ROLE somebody PASSWORD '...'" in texts
    assert "canary" not in " ".join(texts)


def test_a_clock_that_is_set_meanwhile_changes_no_span(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, chosen = counting_installs()
    install = reachable_install(chosen, server_user())
    hours = itertools.count(1.8e9, 3600.0)
    with running(install, workspace, "clock", COUNTING) as cluster:
        execute(cluster, "CREATE EXTENSION pg_stat_statements")
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: next(hours))
            found = read_application(cluster.conninfo, 0.5)
    assert found.seconds is not None
    assert 0.5 <= found.seconds < 60


def test_a_folder_with_files_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").touch()
    done = walproof("workload", "host=/nowhere", "--to", "there", cwd=tmp_path)
    assert done.returncode == 2
    assert 'error: folder "there" is not empty' in done.stderr

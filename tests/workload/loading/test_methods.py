"""Every method ends with the rows and the definition that plain INSERTs leave: 13 and 18, one table.

What a load ends with is compared by the trial itself, so the last test shows that this comparison can fail.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.versions import newest
from tests.workload.loading.cluster import bench_of, connect, load_plan, loaded_cluster
from tests.workload.loading.shop import NARROW, REPLAY, SHOP
from walproof.errors import StudyError, WorkloadError
from walproof.facts import Install, Load, LoadMethod
from walproof.lab.kinds.loading.cut import LoadCutLab, cut_load
from walproof.lab.kinds.loading.source import ExpectedTable, prepare_loads
from walproof.lab.kinds.loading.table_load import TableLoad
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.workload.loading.contents import Contents
from walproof.workload.loading.table import LoadedTable

pytestmark = pytest.mark.live

ROWS = 1_500
METHODS: dict[str, dict[str, Any]] = {
    "autocommit": {"feed": "insert", "batch_rows": 1, "rows_most": 200},
    "batches": {"feed": "insert", "batch_rows": 400},
    "prepared": {"feed": "prepared insert"},
    "pipeline": {"feed": "pipeline", "batch_rows": 700},
    "executemany": {"feed": "executemany"},
    "values": {"feed": "values", "batch_rows": 400},
    "unnest": {"feed": "unnest", "batch_rows": 400},
    "copy rows": {"feed": "copy rows"},
    "copy": {"feed": "copy"},
    "copy batches": {"feed": "copy", "batch_rows": 400},
    "three sessions": {"feed": "copy", "sessions": 3},
    "freeze": {"feed": "copy", "steps": ["truncate", "freeze"]},
    "unlogged": {"feed": "copy", "steps": ["unlogged"]},
    "late": {"feed": "copy", "sessions": 2, "steps": ["late indexes", "late foreign keys", "triggers off"]},
    "stage": {"feed": "stage"},
    "stage batches": {"feed": "stage", "batch_rows": 400},
    "merge": {"feed": "merge"},
}
MAJORS = sorted({server.version_num // 10000: server for server in discover()}.items())
CHOSEN = newest([server for major, server in MAJORS if major in (13, 16, 18)])


def empty(cluster: Cluster, table: str) -> None:
    with connect(cluster) as session:
        session.execute(f"TRUNCATE {table}".encode())


def variants(methods: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "optional": True, "load": method} for name, method in methods.items()]


@pytest.mark.parametrize("chosen", CHOSEN, ids=[server.version for server in CHOSEN])
def test_every_method_ends_with_the_same_rows(chosen: Install, workspace: Workspace) -> None:
    """The clone runs with wal_level=minimal, so that loads after a TRUNCATE skip WAL as well."""
    install = reachable_install(chosen, server_user())
    plan = load_plan(install, SHOP, '"Orders"', variants(METHODS), ROWS, replay=REPLAY)
    settings = {"wal_level": "minimal", "max_wal_senders": "0", "autovacuum": "off"}
    assert ("merge" in [left.variant for left in plan.left_out]) == (install.version_num < 150000)
    with loaded_cluster(plan, install, workspace, settings) as (cluster, prepared):
        assert set(prepared.differing) == set()
        assert prepared.rows == ROWS
        for variant in plan.variants:
            seen = (
                TableLoad(cluster, prepared, plan.kind_as(Load), variant.conditions_as(LoadMethod))
                .measure(())
                .metrics
            )
            assert seen["rows"] == prepared.rows_of(variant.conditions_as(LoadMethod)), variant.name
            assert seen["complete_rows_per_s"] <= seen["finished_rows_per_s"] <= seen["rows_per_s"]
            assert seen["client_cpu_s"] > 0
            empty(cluster, '"Orders", audit')


def test_drivers_with_their_own_types(embedded: Install, workspace: Workspace) -> None:
    methods: dict[str, dict[str, Any]] = {
        "binary": {"feed": "copy binary"},
        "frozen binary": {"feed": "copy binary", "steps": ["truncate", "freeze"]},
        "adbc": {"feed": "adbc"},
    }
    plan = load_plan(embedded, NARROW, "public.narrow", variants(methods), ROWS)
    assert "adbc" in [left.name for left in plan.variants]
    with loaded_cluster(plan, embedded, workspace, {"autovacuum": "off"}) as (cluster, prepared):
        probed = (
            TableLoad(cluster, prepared, plan.kind_as(Load), plan.variants[0].conditions_as(LoadMethod))
            .measure(plan.probes)
            .metrics
        )
        assert "server_busy" in probed
        empty(cluster, "narrow")
        for variant in plan.variants[1:]:
            TableLoad(cluster, prepared, plan.kind_as(Load), variant.conditions_as(LoadMethod)).measure(())
            empty(cluster, "narrow")
        other = {
            count: ExpectedTable(Contents(wanted.contents.rows, "1"), wanted.elsewhere)
            for count, wanted in prepared.expected.items()
        }
        with pytest.raises(WorkloadError, match="does not hold the rows") as raised:
            TableLoad(cluster, replace(prepared, expected=other), plan.kind_as(Load), LoadMethod()).measure(
                ()
            )
        assert "checksum 1, got" in str(raised.value.detail)


def test_clients_run_as_the_user_of_the_servers(embedded: Install, workspace: Workspace) -> None:
    """Also those that have Python values, which they read by themselves."""
    plan = load_plan(embedded, NARROW, "narrow", variants({"values": {"feed": "executemany"}}), ROWS)
    user = server_user()
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared):
        load = TableLoad(cluster, prepared, plan.kind_as(Load), plan.variants[0].conditions_as(LoadMethod))

        def look() -> None:
            clients = [
                process
                for process in psutil.Process().children()
                # A zombie has no arguments: a child of another test, for which nobody has waited yet.
                if process.status() != psutil.STATUS_ZOMBIE and "client" in " ".join(process.cmdline())
            ]
            expected = os.geteuid() if user is None else user.uid
            assert {client.uids() for client in clients} == {(expected, expected, expected)}
            cluster.kill()

        load.interrupt(look)


def test_what_a_crash_in_the_middle_leaves(embedded: Install, workspace: Workspace) -> None:
    """Half of the rows are on their way when the server is killed; each load starts from an empty table."""
    left: dict[str, tuple[float, float]] = {}
    methods: dict[str, dict[str, Any]] = {
        "one transaction": {"feed": "copy"},
        "batches": {"feed": "copy", "batch_rows": 100},
        "late indexes": {"feed": "copy", "steps": ["late indexes"]},
        "unlogged": {"feed": "copy", "batch_rows": 100, "steps": ["unlogged"]},
        # Each batch holds all that a session has: it was missed, and the load was over.
        "one batch": {"feed": "copy", "batch_rows": 10 * ROWS},
        "a batch a session": {"feed": "stage", "batch_rows": ROWS // 3, "sessions": 3},
    }
    plan = load_plan(embedded, NARROW, "narrow", variants(methods), ROWS)
    settings = {"autovacuum": "off"}
    for variant in plan.variants:
        with loaded_cluster(plan, embedded, workspace, settings) as (cluster, prepared):
            seen = (
                TableLoad(cluster, prepared, plan.kind_as(Load), variant.conditions_as(LoadMethod))
                .break_off(settings)
                .metrics
            )
        left[variant.name] = (seen["crash_rows_share"], seen["crash_lacks"])
        workspace.remove_folder(cluster.folder)
    assert left["one transaction"] == (0.0, 0.0)
    assert 0.3 < left["batches"][0] < 1.0
    assert left["late indexes"] == (0.0, 2.0)
    assert left["unlogged"] == (0.0, 1.0)
    assert left["one batch"] == (0.0, 0.0)
    assert left["a batch a session"] == (0.0, 0.0)


def test_what_a_power_cut_in_the_middle_leaves(embedded: Install, workspace: Workspace) -> None:
    """What was acknowledged is there, whatever the disk kept, unless the method gave it up."""
    methods: dict[str, dict[str, Any]] = {
        "one transaction": {"feed": "copy", "steps": ["truncate", "freeze"]},
        "batches": {"feed": "copy", "batch_rows": 100},
        "values": {"feed": "values", "batch_rows": 200, "sessions": 2},
        "unlogged": {"feed": "copy", "batch_rows": 100, "steps": ["unlogged"]},
    }
    plan = load_plan(embedded, NARROW, "narrow", variants(methods), ROWS, power_cut=1)
    (prepared,) = prepare_loads(bench_of(plan, embedded, workspace)).values()
    lab = LoadCutLab(workspace, embedded, prepared, plan.kind_as(Load))
    left = {
        variant.name: cut_load(
            lab, variant.conditions_as(LoadMethod), {"autovacuum": "off"}, number, 7
        ).metrics
        for number, variant in enumerate(plan.variants)
    }
    # Without a flush even a commit that was acknowledged goes.
    lab = replace(lab, load=replace(plan.kind_as(Load), power_cut=2))
    unsafe = cut_load(lab, plan.variant("batches").conditions_as(LoadMethod), {"fsync": "off"}, 9, 7).metrics
    assert all((row["cut_images"], row["cut_broken"]) == (1, 0) for row in left.values())
    assert left["one transaction"]["cut_rows_share_max"] == 0
    assert left["batches"]["cut_rows_share_min"] == left["batches"]["cut_rows_share_max"] == 700 / ROWS
    assert left["values"]["cut_rows_share_min"] == 400 / ROWS
    assert [left[name]["cut_lost_rows_max"] for name in methods] == [0, 0, 0, 700]
    assert left["unlogged"]["cut_rows_share_max"] == 0
    assert unsafe["cut_broken"] > 0 or unsafe["cut_lost_rows_max"] > 0


def test_why_an_image_is_broken_is_told(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_self: TableLoad, cluster: Cluster, _table: LoadedTable) -> tuple[int, int]:
        with cluster.connect() as session:
            session.execute("SELECT 1 / 0")
        raise AssertionError

    monkeypatch.setattr(TableLoad, "left_in", unreadable)
    plan = load_plan(embedded, NARROW, "narrow", variants({"copy": {"feed": "copy"}}), ROWS, power_cut=2)
    (prepared,) = prepare_loads(bench_of(plan, embedded, workspace)).values()
    lab = LoadCutLab(workspace, embedded, prepared, plan.kind_as(Load))
    seen = cut_load(lab, plan.variant("copy").conditions_as(LoadMethod), {}, 1, 7)
    assert seen.metrics["cut_broken"] == 2
    assert seen.warnings == tuple(f"image {n} of 2 is broken: division by zero" for n in (1, 2))


@pytest.mark.parametrize(
    ("ddl", "table", "says"),
    [
        ("CREATE TABLE a (x int);\nCREATE TABLE b (\n x integr);", "a", "DDL, line 3: type"),
        ("CREATE TABLE a (x int);\n\nCREATE TABLE a (x int);", "a", "DDL, line 3: relation"),
        ("CREATE EXTENSION absent;", "a", "DDL, line 1: extension"),
        ("CREATE TABLE a (x int)", "b", 'table "b" does not exist'),
        ("CREATE VIEW a AS SELECT 1 AS x", "a", '"a" is not a table'),
        ("CREATE TABLE a (x int4range)", "a", "without a generator: int4range"),
        ("CREATE TABLE a (x int CHECK (x < 0))", "a", "does not take the rows"),
        ("CREATE TABLE a (x int); INSERT INTO a VALUES (1)", "a", "puts rows into a"),
        ("COPY a FROM STDIN;", "a", "COPY FROM STDIN is not supported"),
    ],
)
def test_ddl_that_does_not_do(
    embedded: Install, workspace: Workspace, ddl: str, table: str, says: str
) -> None:
    plan = load_plan(embedded, ddl, table, variants({"copy": {}}), 10)
    with (
        pytest.raises(WorkloadError, match="(?s)" + says),
        loaded_cluster(plan, embedded, workspace, {}),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,account\n1,5\n2,x\n", "line 3, column account"),
        ("id,colour\n1,5\n", 'column "colour" of file'),
        ("account\n5\n", 'column "id" of table'),
        (
            "id,account\n1,5\n1,6\n",
            'duplicate key value violates unique constraint "narrow_pkey" '
            'file "{file}", line 3\nKey (id)=(1) already exists.',
        ),
        ("id,account\n1\n", "missing data for column"),
    ],
)
def test_a_file_that_does_not_match(
    embedded: Install, workspace: Workspace, tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    plan = load_plan(embedded, NARROW, "narrow", variants({"copy": {}}), 10, file=str(file))
    with (
        pytest.raises(WorkloadError) as raised,
        loaded_cluster(plan, embedded, workspace, {}),
    ):
        pass
    assert says.format(file=file) in f"{raised.value.message} {raised.value.detail}"


KEPT = """
CREATE TABLE parents (id int PRIMARY KEY);
INSERT INTO parents VALUES (1), (2);
CREATE TABLE kept (id int, at date, parent int REFERENCES parents, note text CHECK (note <> 'bad'))
PARTITION BY RANGE (at);
CREATE TABLE kept_1 PARTITION OF kept FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
"""
GOOD = "id,at,parent,note\n" + '1,2026-01-01,1,"two\nlines"\n' * 500


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("2,2026-01-01,1,bad\n" * 2, ", line 1002\nFailing row contains"),
        ("2,2026-01-01,1,good\n3,2028-01-01,1,good\n", ", line 1003\nPartition key of the failing row"),
        ("2,2026-01-01,7,good\n", " Key (parent)=(7) is not present"),
    ],
    ids=["a CHECK", "no partition", "a foreign key, which is checked when all rows are in"],
)
def test_a_row_that_the_table_does_not_take(
    embedded: Install, workspace: Workspace, tmp_path: Path, end: str, says: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(GOOD + end)
    plan = load_plan(embedded, KEPT, "kept", variants({"copy": {}}), 10, file=str(file))
    with pytest.raises(WorkloadError) as raised, loaded_cluster(plan, embedded, workspace, {}):
        pass
    assert says in f"{raised.value.message} {raised.value.detail}"
    assert raised.value.hint == "Nothing was loaded."
    assert (", line" in str(raised.value.detail)) is (", line" in says)


def test_the_keys_that_a_file_names_are_in_the_other_tables(
    embedded: Install, workspace: Workspace, tmp_path: Path
) -> None:
    """Over a key that is a foreign key itself, two foreign keys to one table, and one that may be NULL."""
    ddl = """
        CREATE TABLE people (id bigint PRIMARY KEY, name text NOT NULL);
        CREATE TABLE staff (id bigint PRIMARY KEY REFERENCES people, since date NOT NULL, "by" bigint
                            REFERENCES people);
        CREATE TABLE calls (id int PRIMARY KEY, caller bigint NOT NULL REFERENCES staff,
                            called bigint REFERENCES staff, "by" bigint REFERENCES people);
    """
    file = tmp_path / "rows.csv"
    file.write_text("id,called,caller,by\n1,70000,50000,80000\n2,,70000,\n3,60000,50000,50000\n")
    plan = load_plan(embedded, ddl, "calls", variants({"copy": {}}), 10, file=str(file))
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, _), connect(cluster) as session:
        found = {
            name: session.execute(f"SELECT array_agg(id ORDER BY id) FROM {name}".encode()).fetchone()
            for name in ("staff", "people")
        }
    assert found == {"staff": ([50000, 60000, 70000],), "people": ([50000, 60000, 70000, 80000],)}


def _load(install: Install, workspace: Workspace, file: Path) -> None:
    plan = load_plan(install, NARROW, "narrow", variants({"copy": {}}), 10, file=str(file))
    with loaded_cluster(plan, install, workspace, {}):
        pass


@pytest.mark.parametrize("is_long", [False, True], ids=["among the first bytes", "later"])
def test_a_file_of_another_encoding(
    embedded: Install, workspace: Workspace, tmp_path: Path, is_long: bool
) -> None:
    file = tmp_path / "rows.csv"
    lines = ["id,kind", *(f"{number},x" for number in range(20_000 * is_long)), "-1,J\xe4ger", ""]
    file.write_bytes("\n".join(lines).encode("latin-1"))
    with pytest.raises(WorkloadError) as raised:
        _load(embedded, workspace, file)
    where = f"line {len(lines) - 1}, byte 5 is 0xe4"
    assert raised.value.message == f'file "{file}" is not UTF-8: {where}'
    assert "iconv -f latin1 -t utf8" in str(raised.value.hint)


def test_a_parquet_file_arrives_with_its_nulls(
    embedded: Install, workspace: Workspace, tmp_path: Path
) -> None:
    arrow: Any = importlib.import_module("pyarrow")
    file = tmp_path / "rows.parquet"
    columns = {"id": [1, 2], "account": [7, None], "kind": ["a,b", None], "amount": [0.5, 2.0]}
    importlib.import_module("pyarrow.parquet").write_table(arrow.table(columns), file)
    plan = load_plan(embedded, NARROW, "narrow", variants({"copy": {}}), 10, file=str(file))
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared):
        TableLoad(cluster, prepared, plan.kind_as(Load), LoadMethod()).measure(())
        with connect(cluster) as session:
            found = session.execute("SELECT id, account, kind, amount FROM narrow ORDER BY 1").fetchall()
    assert found == [(1, 7, "a,b", 0.5), (2, None, None, 2.0)]
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(WorkloadError, match="could not read Parquet file"):
        load_plan(embedded, NARROW, "narrow", variants({"copy": {}}), 10, file=str(file))


def test_a_file_without_rows_is_refused_before_any_server(embedded: Install, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,account\n")
    with pytest.raises(WorkloadError, match="has no rows"):
        load_plan(embedded, NARROW, "narrow", variants({"copy": {}}), 10, file=str(file))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("id", "is GENERATED ALWAYS AS IDENTITY"),
        ("twice", "is GENERATED in"),
        ("ctid", "is not in table"),
        ("n", "stands twice in the first line"),
    ],
)
def test_a_column_that_the_server_fills_is_named_as_such(
    embedded: Install, workspace: Workspace, tmp_path: Path, name: str, said: str
) -> None:
    ddl = (
        "CREATE TABLE ev (id int GENERATED ALWAYS AS IDENTITY, n int, "
        "twice int GENERATED ALWAYS AS (2 * n) STORED);"
    )
    file = tmp_path / "rows.csv"
    file.write_text(f"n,{name}\n1,2\n")
    plan = load_plan(embedded, ddl, "ev", variants({"copy": {}}), 1, file=str(file))
    with pytest.raises(WorkloadError, match=said), loaded_cluster(plan, embedded, workspace, {}):
        pass


def test_the_rows_of_a_file_and_partitions(embedded: Install, workspace: Workspace, tmp_path: Path) -> None:
    """Rows are generated into every partition; a file's rows arrive with defaults for what it lacks."""
    ddl = (
        "CREATE TABLE p (id serial, day date NOT NULL, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);"
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2026-01-01') TO ('2026-01-02');"
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM ('2026-01-02') TO ('2026-02-01');"
    )
    generated = load_plan(embedded, ddl, "p", variants({"copy": {}}), 10)
    with loaded_cluster(generated, embedded, workspace, {}) as (cluster, prepared):
        TableLoad(cluster, prepared, generated.kind_as(Load), LoadMethod()).measure(())
        with connect(cluster) as session:
            row = session.execute("SELECT (SELECT count(*) FROM p1), (SELECT count(*) FROM p2)").fetchone()
        assert row == (5, 5)
    workspace.remove_folder(cluster.folder)
    file = tmp_path / "rows.csv"
    file.write_text("day\n2026-01-01\n2026-01-05\n2026-01-07\n")
    given = load_plan(
        embedded, ddl, "p", variants({"copy": {}, "late": {"steps": ["late indexes"]}}), 10, file=str(file)
    )
    with loaded_cluster(given, embedded, workspace, {}) as (cluster, prepared):
        assert (prepared.rows, prepared.differing) == (3, ("id",))
        seen = TableLoad(cluster, prepared, given.kind_as(Load), LoadMethod()).measure(())
        assert "values of id differ" in seen.warnings[-1]


def test_a_table_that_holds_rows_keeps_them(embedded: Install, workspace: Workspace) -> None:
    """What would take or endanger them is refused; what is loaded is checked together with them."""
    methods: dict[str, dict[str, Any]] = {
        "batches": {"feed": "copy", "batch_rows": 100},
        "late": {"feed": "values", "steps": ["late indexes"]},
        "freeze": {"feed": "copy", "steps": ["truncate", "freeze"]},
    }
    refused = load_plan(embedded, NARROW, "narrow", variants(methods), 300, filled=200)
    with pytest.raises(WorkloadError, match="1 of 3 methods") as raised:
        prepare_loads(bench_of(refused, embedded, workspace))
    assert "the table holds rows, which TRUNCATE would remove" in str(raised.value.detail)
    with pytest.raises(StudyError, match="holds generated rows"):
        load_plan(embedded, NARROW, "narrow", variants({"a": {}}), 300, filled=200, file="rows.csv")
    allowed = load_plan(embedded, NARROW, "narrow", variants(methods)[:2], 300, filled=200)
    settings = {"autovacuum": "off"}
    with loaded_cluster(allowed, embedded, workspace, settings) as (cluster, prepared):
        seen = (
            TableLoad(
                cluster, prepared, allowed.kind_as(Load), allowed.variant("late").conditions_as(LoadMethod)
            )
            .measure(())
            .metrics
        )
        assert (seen["rows"], prepared.expected[300].contents.rows) == (300, 500)
        with connect(cluster) as session:
            session.execute("DELETE FROM narrow WHERE id > 200")
        broken = TableLoad(
            cluster, prepared, allowed.kind_as(Load), allowed.variant("batches").conditions_as(LoadMethod)
        )
        assert broken.break_off(settings).metrics["crash_rows_share"] == 100 / 300

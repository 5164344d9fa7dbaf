"""After a load a table is defined as before it: what goes with indexes, partitions, triggers, own keys."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workload.loading.cluster import bench_of, connect, load_plan, loaded_cluster
from tests.workload.loading.test_methods import CHOSEN, empty, variants
from walproof.errors import WorkloadError
from walproof.facts import Install, Load, LoadMethod
from walproof.lab.kinds.loading.source import prepare_loads
from walproof.lab.kinds.loading.table_load import TableLoad
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.workload.loading.table import read_table

pytestmark = pytest.mark.live

PARTITIONED = """
CREATE TABLE m (id bigint, at date, v text, CONSTRAINT m_key PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE m_1 PARTITION OF m FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE m_2 PARTITION OF m FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') PARTITION BY HASH (id);
CREATE TABLE m_2_all PARTITION OF m_2 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE INDEX "m ON ONLY v" ON m (v);
ALTER INDEX m_1_v_idx RENAME TO "Of the first";
CREATE INDEX m_1_only ON m_1 (v, id);
ALTER TABLE m REPLICA IDENTITY USING INDEX m_key;
"""
INDEXES = "SELECT indexrelid::regclass::text, indisvalid FROM pg_index WHERE indrelid::regclass::text ~ '^m'"


@pytest.mark.parametrize("chosen", CHOSEN, ids=[server.version for server in CHOSEN])
def test_late_indexes_of_partitions_are_there_again(chosen: Install, workspace: Workspace) -> None:
    """Each under its name, attached and valid; the trial's comparison sees one that is gone."""
    install = reachable_install(chosen, server_user())
    plan = load_plan(install, PARTITIONED, "m", variants({"late": {"steps": ["late indexes"]}}), 300)
    with loaded_cluster(plan, install, workspace, {}) as (cluster, prepared), connect(cluster) as session:
        before, table = set(session.execute(INDEXES).fetchall()), read_table(session, "m")
        kinds = [" ".join(sql.split()[:2]) for sql in table.key_constraints[0].then]
        assert kinds == ["ALTER TABLE", "ALTER INDEX"] * 3 + ["ALTER TABLE"]
        assert "REPLICA IDENTITY" in table.key_constraints[0].then[-1]
        method = plan.variants[0].conditions_as(LoadMethod)
        TableLoad(cluster, prepared, plan.kind_as(Load), method).measure(())
        assert set(session.execute(INDEXES).fetchall()) == before
        assert all(is_valid for _, is_valid in before)
        assert read_table(session, "m") == table
        session.execute('DROP INDEX "m ON ONLY v"')
        session.execute('CREATE INDEX "m ON ONLY v" ON ONLY m (v)')
        assert read_table(session, "m").indexes != table.indexes


def test_a_partition_is_refused(embedded: Install, workspace: Workspace) -> None:
    """The recipe stopped at DROP INDEX, on the user's server."""
    plan = load_plan(embedded, PARTITIONED, "m_1", variants({"plain": {}}), 300)
    with pytest.raises(WorkloadError, match="m_1 is a partition of m") as raised:
        prepare_loads(bench_of(plan, embedded, workspace))
    assert "attach it afterwards" in str(raised.value.hint)


MARKED = r"""
CREATE TABLE others (id int PRIMARY KEY);
CREATE TABLE r (id int CONSTRAINT r_key PRIMARY KEY WITH (fillfactor = 70) DEFERRABLE INITIALLY DEFERRED,
                code text NOT NULL, x int, other int CONSTRAINT r_other REFERENCES others);
CREATE UNIQUE INDEX r_code ON r (code);
CREATE INDEX r_x ON r ((x + 1));
ALTER TABLE r REPLICA IDENTITY USING INDEX r_code;
ALTER TABLE r CLUSTER ON r_key;
ALTER INDEX r_x ALTER COLUMN 1 SET STATISTICS 500;
COMMENT ON INDEX r_x IS E'it''s for the \\ report\nof Monday';
COMMENT ON CONSTRAINT r_key ON r IS 'the key';
COMMENT ON CONSTRAINT r_other ON r IS 'the other';
"""
MARKS = """
SELECT count(*) FILTER (WHERE i.indisreplident), count(*) FILTER (WHERE i.indisclustered),
       max(a.attstattarget), string_agg(c.reloptions::text, ''), max(obj_description(c.oid, 'pg_class')),
       (SELECT array_agg(obj_description(oid, 'pg_constraint') ORDER BY conname) FROM pg_constraint
         WHERE conrelid = 'r'::regclass AND contype IN ('p', 'f'))
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE i.indrelid = 'r'::regclass
"""


@pytest.mark.parametrize("chosen", CHOSEN, ids=[server.version for server in CHOSEN])
def test_what_goes_with_an_index_is_there_again(chosen: Install, workspace: Workspace) -> None:
    """Without its replica identity, UPDATE of a published table fails."""
    install = reachable_install(chosen, server_user())
    steps = {"late": {"steps": ["late indexes", "late foreign keys"]}}
    plan = load_plan(install, MARKED, "r", variants(steps), 300)
    with loaded_cluster(plan, install, workspace, {}) as (cluster, prepared), connect(cluster) as session:
        before, table = session.execute(MARKS).fetchone(), read_table(session, "r")
        assert before == (
            1, 1, 500, "{fillfactor=70}", "it's for the \\ report\nof Monday", ["the key", "the other"]
        )  # fmt: skip
        method = plan.variants[0].conditions_as(LoadMethod)
        TableLoad(cluster, prepared, plan.kind_as(Load), method).measure(())
        assert session.execute(MARKS).fetchone() == before
        session.execute("ALTER TABLE r REPLICA IDENTITY DEFAULT")
        assert read_table(session, "r") != table


@pytest.mark.parametrize("chosen", CHOSEN, ids=[server.version for server in CHOSEN])
def test_foreign_keys_are_not_checked_where_they_were_not(chosen: Install, workspace: Workspace) -> None:
    """The server refuses to validate one that is not enforced; old rows may break one that is not valid."""
    install = reachable_install(chosen, server_user())
    ddl = """
    CREATE TABLE others (id int PRIMARY KEY);
    CREATE TABLE r (x int, y int REFERENCES others);
    ALTER TABLE r ADD CONSTRAINT later FOREIGN KEY (x) REFERENCES others NOT VALID;
    """
    if install.version_num >= 180000:
        ddl += "ALTER TABLE r ADD CONSTRAINT never FOREIGN KEY (x) REFERENCES others NOT ENFORCED;"
    plan = load_plan(install, ddl, "r", variants({"late": {"steps": ["late foreign keys"]}}), 300)
    query = "SELECT conname, convalidated FROM pg_constraint WHERE conrelid = 'r'::regclass ORDER BY conname"
    with loaded_cluster(plan, install, workspace, {}) as (cluster, prepared), connect(cluster) as session:
        before = {str(name): valid for name, valid in session.execute(query).fetchall()}
        method = plan.variants[0].conditions_as(LoadMethod)
        TableLoad(cluster, prepared, plan.kind_as(Load), method).measure(())
        assert {str(name): valid for name, valid in session.execute(query).fetchall()} == before
        assert before["later"] is False


TRIGGERS = """
CREATE TABLE noted (id int PRIMARY KEY);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER "Always" BEFORE INSERT ON noted FOR EACH ROW EXECUTE FUNCTION f();
CREATE TRIGGER replica BEFORE INSERT ON noted FOR EACH ROW EXECUTE FUNCTION f();
CREATE TRIGGER usual BEFORE INSERT ON noted FOR EACH ROW EXECUTE FUNCTION f();
CREATE TRIGGER old BEFORE INSERT ON noted FOR EACH ROW EXECUTE FUNCTION f();
ALTER TABLE noted ENABLE ALWAYS TRIGGER "Always", ENABLE REPLICA TRIGGER replica, DISABLE TRIGGER old;
"""


def test_triggers_are_enabled_as_they_were(embedded: Install, workspace: Workspace) -> None:
    """One that was disabled stays so."""
    off = variants({"off": {"steps": ["triggers off"]}})
    plan = load_plan(embedded, TRIGGERS, "noted", off, 100, replay="SELECT 1")
    query = "SELECT tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname"
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared), connect(cluster) as session:
        before, table = session.execute(query).fetchall(), read_table(session, "noted")
        assert {enabled for _, enabled in before} == {"A", "R", "O", "D"}
        method = plan.variants[0].conditions_as(LoadMethod)
        TableLoad(cluster, prepared, plan.kind_as(Load), method).measure(())
        assert session.execute(query).fetchall() == before
        session.execute('ALTER TABLE noted ENABLE TRIGGER "Always"')
        assert read_table(session, "noted") != table


def test_triggers_of_partitions_are_enabled_as_they_were(embedded: Install, workspace: Workspace) -> None:
    """What is done to the table's trigger is done to those of its partitions."""
    ddl = """
    CREATE TABLE noted (id int) PARTITION BY LIST (id);
    CREATE TABLE "First" PARTITION OF noted FOR VALUES IN (1) PARTITION BY HASH (id);
    CREATE TABLE first_0 PARTITION OF "First" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE first_1 PARTITION OF "First" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    CREATE TABLE second PARTITION OF noted FOR VALUES IN (2);
    CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
    CREATE TRIGGER t AFTER INSERT ON noted FOR EACH ROW EXECUTE FUNCTION f();
    ALTER TABLE "First" DISABLE TRIGGER t;
    ALTER TABLE first_1 ENABLE ALWAYS TRIGGER t;
    """
    off = variants({"off": {"steps": ["triggers off"]}})
    plan = load_plan(embedded, ddl, "noted", off, 100, replay="SELECT 1")
    query = "SELECT tgrelid::regclass::text, tgenabled FROM pg_trigger ORDER BY 1"
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared), connect(cluster) as session:
        before = {str(table): str(mode) for table, mode in session.execute(query).fetchall()}
        table = read_table(session, "noted")
        assert before == {'"First"': "D", "first_0": "D", "first_1": "A", "noted": "O", "second": "O"}
        method = plan.variants[0].conditions_as(LoadMethod)
        TableLoad(cluster, prepared, plan.kind_as(Load), method).measure(())
        assert {str(name): str(mode) for name, mode in session.execute(query).fetchall()} == before
        session.execute("ALTER TABLE first_1 ENABLE TRIGGER t")
        assert read_table(session, "noted") != table


def test_a_table_that_points_to_itself(embedded: Install, workspace: Workspace) -> None:
    """Its key cannot be dropped without its foreign key; generated rows point to rows that are there."""
    ddl = "CREATE TABLE node (id int PRIMARY KEY, up int NOT NULL REFERENCES node, too int REFERENCES node);"
    methods: dict[str, dict[str, Any]] = {
        "plain": {"sessions": 2, "batch_rows": 30},
        "late": {"sessions": 2, "steps": ["late indexes", "late foreign keys"]},
        "late indexes": {"steps": ["late indexes"]},
    }
    refused = load_plan(embedded, ddl, "node", variants(methods), 100)
    with pytest.raises(WorkloadError, match="1 of 3 methods") as raised:
        prepare_loads(bench_of(refused, embedded, workspace))
    assert "late indexes: a foreign key of its own" in str(raised.value.detail)
    plan = load_plan(embedded, ddl, "node", variants(methods)[:2], 100)
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared):
        for variant in plan.variants:
            method = variant.conditions_as(LoadMethod)
            TableLoad(cluster, prepared, plan.kind_as(Load), method).measure(())
            empty(cluster, "node")


def test_rows_that_point_to_none(embedded: Install, workspace: Workspace) -> None:
    """The server makes the keys, so that no row can name one."""
    ddl = """
    CREATE TABLE node (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, up bigint REFERENCES node, x int);
    """
    plan = load_plan(embedded, ddl, "node", variants({"plain": {}}), 100)
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared):
        TableLoad(cluster, prepared, plan.kind_as(Load), LoadMethod()).measure(())
        with connect(cluster) as session:
            assert session.execute("SELECT count(*), count(up), count(x) FROM node").fetchone() == (
                100,
                0,
                100,
            )


def test_partitions_that_point_to_their_table(embedded: Install, workspace: Workspace) -> None:
    """They are no other tables, so that TRUNCATE and late indexes are possible."""
    ddl = """
    CREATE TABLE node (id int PRIMARY KEY, up int REFERENCES node) PARTITION BY HASH (id);
    CREATE TABLE node_0 PARTITION OF node FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE node_1 PARTITION OF node FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    """
    steps = {"late": {"steps": ["truncate", "late indexes", "late foreign keys"]}}
    plan = load_plan(embedded, ddl, "node", variants(steps), 100)
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared):
        method = plan.variants[0].conditions_as(LoadMethod)
        TableLoad(cluster, prepared, plan.kind_as(Load), method).measure(())
        with connect(cluster) as session:
            session.execute("CREATE TABLE other (node int REFERENCES node)")
            assert read_table(session, "node").is_referenced


def test_a_table_that_is_unlogged_stays_so(embedded: Install, workspace: Workspace) -> None:
    ddl = "CREATE UNLOGGED TABLE s (id int PRIMARY KEY, v text);"
    methods = variants({"late": {"steps": ["late indexes"]}, "unlogged": {"steps": ["unlogged"]}})
    with pytest.raises(WorkloadError) as raised:
        prepare_loads(bench_of(load_plan(embedded, ddl, "s", methods, 100), embedded, workspace))
    assert raised.value.detail == "unlogged: the table is unlogged already"
    plan = load_plan(embedded, ddl, "s", methods[:1], 100)
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared):
        load = TableLoad(cluster, prepared, plan.kind_as(Load), plan.variants[0].conditions_as(LoadMethod))
        load.measure(())
        empty(cluster, "s")
        # Its primary key is away, and nothing else.
        assert load.break_off({}).metrics["crash_lacks"] == 1

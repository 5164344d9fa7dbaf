"""Loads of tables whose columns have names that SQL or a driver may take for something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workload.loading.cluster import connect, load_plan, loaded_cluster
from walproof.facts import Install, Load, LoadMethod
from walproof.lab.kinds.loading.table_load import TableLoad
from walproof.postgres.workspace import Workspace
from walproof.workload.loading.table import read_table

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("columns", "text"),
    [("id int, t int", "id,t\n1,\n2,5\n3,\n"), ("a int, b int", "a,b\n1,2\n,\n,\n")],
    ids=["a column t", "rows of NULL"],
)
def test_every_row_that_is_there_is_counted(
    embedded: Install, workspace: Workspace, tmp_path: Path, columns: str, text: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    plan = load_plan(embedded, f"CREATE TABLE d ({columns})", "d", [{"name": "copy"}], 3, file=str(file))
    settings = {"autovacuum": "off"}
    with loaded_cluster(plan, embedded, workspace, settings) as (cluster, prepared):
        load = TableLoad(cluster, prepared, plan.kind_as(Load), LoadMethod())
        load.measure(())
        with connect(cluster) as session:
            table = read_table(session, "d")
        assert load.left_in(cluster, table) == (3, 0)


def test_a_percent_sign_in_a_name_is_part_of_it(embedded: Install, workspace: Workspace) -> None:
    """psycopg takes one for a placeholder where a statement has parameters."""
    feeds = ("insert", "prepared insert", "pipeline", "executemany", "values", "unnest", "copy rows", "copy")
    variants = [{"name": feed, "load": {"feed": feed}} for feed in feeds]
    ddl = (
        "CREATE TYPE \"%s\" AS ENUM ('a', 'b');"
        'CREATE TABLE "100%" (id int PRIMARY KEY, "rate_%" int, "a%b" text, "%%" "%s")'
    )
    plan = load_plan(embedded, ddl, '"100%"', variants, 50)
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared):
        for variant in plan.variants:
            method = variant.conditions_as(LoadMethod)
            TableLoad(cluster, prepared, plan.kind_as(Load), method).measure(())
            with connect(cluster) as session:
                session.execute(b'TRUNCATE "100%"')


def test_quotes_and_dots_in_names_are_part_of_them(
    embedded: Install, workspace: Workspace, tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('"a""b",c.d\n1,2\n3,4\n')
    variants = [{"name": feed, "optional": True, "load": {"feed": feed}} for feed in ("copy", "adbc")]
    table = '"s.t"."x.""y"'
    ddl = f'CREATE SCHEMA "s.t"; CREATE TABLE {table} ("a""b" int, "c.d" int)'
    plan = load_plan(embedded, ddl, table, variants, 2, file=str(file))
    assert [variant.name for variant in plan.variants] == ["copy", "adbc"]
    with loaded_cluster(plan, embedded, workspace, {}) as (cluster, prepared):
        for variant in plan.variants:
            method = variant.conditions_as(LoadMethod)
            TableLoad(cluster, prepared, plan.kind_as(Load), method).measure(())
            with connect(cluster) as session:
                session.execute(f"TRUNCATE {table}".encode())

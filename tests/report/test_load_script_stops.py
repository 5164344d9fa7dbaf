"""What the script of a load does where the server is not like the clone: it stops, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.workload.loading.judge import Judge
from walproof.advise.loading import LoadAdvice
from walproof.facts import LoadStep, Variant
from walproof.report.kinds.loading.script import Recipe, load_script
from walproof.workload.loading.steps import around
from walproof.workload.loading.table import Session, read_table

pytestmark = pytest.mark.live

ADVICE = LoadAdvice("18", Variant("every step", {}), (), (), True, (), (), ())
STEPS: tuple[LoadStep, ...] = ("truncate", "late indexes")


@pytest.fixture
def session(judge: Judge) -> Iterator[Session]:
    (judge.folder / "rows.csv").write_text("note,id\nx,1\ny,2\n")
    with judge.connect() as opened:
        opened.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
        opened.execute("CREATE INDEX orders_note ON orders (note)")
        yield opened
        opened.execute("DROP TABLE IF EXISTS orders CASCADE")


def recipe_of(judge: Judge, session: Session, steps: tuple[LoadStep, ...] = STEPS) -> Recipe:
    table = read_table(session, "orders")
    about = around(table, steps, None, judge.cluster.install.version_num)
    columns = ", ".join(table.columns_named(("note", "id")))
    return Recipe(
        table.name, columns, about.before, about.first, about.after, False, about.after, steps=steps
    )


def script_of(judge: Judge, recipe: Recipe, *settings: tuple[str, str]) -> str:
    return load_script(ADVICE, recipe, settings, str(judge.folder / "rows.csv"))


def rows(session: Session) -> list[tuple[object, ...]]:
    return session.execute("SELECT id, note FROM orders ORDER BY id").fetchall()


def test_values_go_to_the_columns_that_the_file_names(judge: Judge, session: Session) -> None:
    done = judge.run(script_of(judge, recipe_of(judge, session)))
    assert done.returncode == 0, done.stderr
    assert rows(session) == [(1, "x"), (2, "y")]


def test_an_index_of_another_schema_is_left_alone(judge: Judge, session: Session) -> None:
    """A bare DROP INDEX took the one that comes first in the reader's search_path, of another table."""
    session.execute("CREATE SCHEMA app; CREATE TABLE app.events (note text)")
    session.execute("CREATE INDEX orders_note ON app.events (note)")
    try:
        script = script_of(judge, recipe_of(judge, session))
        done = judge.run(f"SET search_path = app, public;\n{script}")
        assert done.returncode == 0, done.stderr
        asked = "SELECT schemaname FROM pg_indexes WHERE indexname = 'orders_note' ORDER BY 1"
        assert session.execute(asked).fetchall() == [("app",), ("public",)]
    finally:
        session.execute("DROP SCHEMA app CASCADE")


def test_a_foreign_key_of_another_table_stops_it_before_anything_changes(
    judge: Judge, session: Session
) -> None:
    recipe = recipe_of(judge, session)
    session.execute("CREATE TABLE items (order_id int REFERENCES orders)")
    try:
        stopped = judge.run(script_of(judge, recipe, ("wal_compression", "on")))
        assert "another table has a foreign key to it" in stopped.stderr
        assert "ALTER SYSTEM" not in stopped.stdout
        # Steps that it allows are taken.
        plain = replace(recipe, steps=(), before=(), first=(), after=())
        assert judge.run(script_of(judge, plain)).returncode == 0
    finally:
        session.execute("DROP TABLE items")


def test_a_key_that_something_else_needs_leaves_the_table_as_it_was(judge: Judge, session: Session) -> None:
    recipe = recipe_of(judge, session)
    session.execute("CREATE VIEW seen AS SELECT id, note FROM orders GROUP BY id")
    recipe = replace(recipe, before=(*reversed(recipe.before),))  # the index first
    stopped = judge.run(script_of(judge, recipe))
    assert "other objects depend on it" in stopped.stderr
    table = read_table(session, "orders")
    assert [index.name for index in table.indexes] == ["public.orders_note"]
    assert len(table.key_constraints) == 1


def test_rows_that_somebody_writes_meanwhile_are_not_truncated(judge: Judge, session: Session) -> None:
    """The first look does not see what is not committed yet; the lock waits for it."""
    recipe = replace(recipe_of(judge, session), before=(), after=(), steps=("truncate",))
    script = script_of(judge, recipe)
    with judge.connect() as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO orders VALUES (7, 'kept')")
        done = []
        thread = threading.Thread(target=lambda: done.append(judge.run(script)))
        thread.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'orders'::regclass"
        for _ in range(1000):
            row = other.execute(waiting).fetchone()
            if row == (1,):
                break
            thread.join(0.01)
        assert row == (1,), "the script waits"
        other.execute("COMMIT")
        thread.join()
    assert "the table is not empty" in done[0].stderr
    assert rows(session) == [(7, "kept")]


def test_another_table_of_that_name_is_not_loaded(judge: Judge, session: Session) -> None:
    recipe = recipe_of(judge, session, ())
    session.execute("CREATE SCHEMA app")
    session.execute("CREATE TABLE app.orders (id int, note text)")
    try:
        script = f"SET search_path = app, public;\n{script_of(judge, recipe)}"
        stopped = judge.run(script)
        assert "the name leads to a table of another schema" in stopped.stderr
        assert session.execute("SELECT count(*) FROM app.orders").fetchone() == (0,)
    finally:
        session.execute("DROP SCHEMA app CASCADE")


def test_a_restart_is_waited_for_and_looked_at(judge: Judge, session: Session) -> None:
    script = script_of(judge, recipe_of(judge, session, ()), ("wal_buffers", "32MB"))
    try:
        for typed, says in (("", ""), ("\n", "the server was not restarted")):
            done = judge.run(script, typed)
            assert done.returncode != 0
            assert says in done.stderr
            assert rows(session) == []
    finally:
        with judge.cluster.connect() as superuser:
            superuser.execute("ALTER SYSTEM RESET ALL")
            superuser.execute("SELECT pg_reload_conf()")


def test_a_server_that_would_not_start_with_minimal_wal_is_left_alone(judge: Judge, session: Session) -> None:
    script = script_of(judge, recipe_of(judge, session, ()), ("wal_level", "minimal"))
    with judge.cluster.connect() as superuser:
        superuser.execute("SELECT pg_create_physical_replication_slot('kept')")
        try:
            stopped = judge.run(script)
            assert "does not go with archive_mode" in stopped.stderr
            assert "ALTER SYSTEM" not in stopped.stdout
        finally:
            superuser.execute("SELECT pg_drop_replication_slot('kept')")


def test_what_triggers_would_have_done_stands_in_the_undo(judge: Judge, session: Session) -> None:
    replay = "SELECT count(*) FROM orders"
    recipe = replace(recipe_of(judge, session, ()), after=(replay,), replay=replay)
    assert f"first what their triggers would have done:\n-- {replay};" in script_of(judge, recipe)


def test_rows_of_another_file_are_to_be_written_as_csv(judge: Judge, session: Session) -> None:
    recipe = replace(recipe_of(judge, session, ()), made_of="/data/orders.parquet")
    text = load_script(ADVICE, recipe, [], None)
    assert "-- rows.csv: the rows of /data/orders.parquet, as CSV with these columns." in text
    assert "FROM 'rows.csv'" in text


def test_sequences_go_on_after_the_loaded_values(judge: Judge, session: Session) -> None:
    """The next row that the application inserted had a key that was loaded."""
    (judge.folder / "rows.csv").write_text('"Id",note,down,other,plain\n7,x,-1,40,1\n9,y,-2,30,1\n')
    session.execute("""
        CREATE TABLE "Numbered" ("Id" int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, note text,
                                 down int GENERATED BY DEFAULT AS IDENTITY (INCREMENT -1));
        CREATE SEQUENCE "All Ids";
        ALTER TABLE "Numbered" ADD other bigint DEFAULT nextval('"All Ids"'), ADD plain int DEFAULT 1;
    """)
    try:
        table = read_table(session, '"Numbered"')
        # One that belongs to no column has a name.
        assert table.sequences == (('"Id"', None), ("down", None), ("other", 'public."All Ids"'))
        recipe = Recipe(table.name, table.column_list, (), (), (), False, (), sequences=table.sequences)
        done = judge.run(script_of(judge, recipe))
        assert done.returncode == 0, done.stderr
        session.execute("""INSERT INTO "Numbered" (note) VALUES ('z')""")
        found = session.execute("""SELECT "Id", down, other FROM "Numbered" WHERE note = 'z'""").fetchone()
        # One that goes down is left alone: the largest value is not its last.
        assert found == (10, -1, 41)
    finally:
        session.execute('DROP TABLE "Numbered"; DROP SEQUENCE "All Ids"')

"""The recipe of a load holds names and text that others chose: psql itself judges what it makes of them.

A script that does what it should not touches a file; ``psql -e`` prints each statement that it sends.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from tests.workload.loading.judge import Judge
from walproof import sqltext
from walproof.advise.loading import LoadAdvice, StepGain
from walproof.analysis.effect import Conclusion
from walproof.errors import SqlError, WalproofError, WorkloadError
from walproof.facts import LoadStep, Variant
from walproof.report.kinds.loading.script import Recipe, load_script
from walproof.workload.loading.ddl import statements
from walproof.workload.loading.steps import around
from walproof.workload.loading.table import read_table

pytestmark = pytest.mark.live

MARKER = Path(tempfile.gettempdir()) / f"walproof-marker-{os.getpid()}"
"""What a script that does what it should not makes; psql's user and the server's both may."""
STEPS: tuple[LoadStep, ...] = ("truncate", "freeze", "late indexes", "late foreign keys", "triggers off")
_BREAKS = ("\n", "\r", "\r\n", "\t", "\v", "\f", "\x85", "\u2028", "\x1b[2J")
_COMMANDS = (
    rf"\! touch {MARKER}", rf"\o |touch {MARKER}", rf"\g |touch {MARKER}", rf"\setenv A `touch {MARKER}`",
    rf"\copy (SELECT 1) TO PROGRAM 'touch {MARKER}'", f"COPY (SELECT 1) TO PROGRAM 'touch {MARKER}';",
)  # fmt: skip
_PIECES = (
    *_COMMANDS, f" {_COMMANDS[0]}", f"`touch {MARKER}`", ";", "'", '"', "''", '""', "\\", "\\'", "$$", "$a$",
    "$walproof1$", ":USER", ":'USER'", ':"USER"', ":{?USER}", "--", "/*", "*/", "E'", "U&'", "(", ")", "~",
    "é", "Select", " ", "x",
)  # fmt: skip
_WILD = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
ANY_TEXT = st.lists(
    st.one_of(st.sampled_from(_BREAKS), st.sampled_from(_PIECES), st.text(_WILD, max_size=3)), max_size=7
).map("".join)
ONE_LINE = st.lists(
    st.one_of(st.sampled_from(_PIECES), st.text(_WILD, max_size=3)), min_size=1, max_size=6
).map("".join).filter(lambda text: not sqltext.has_control(text))  # fmt: skip
NAMES = ONE_LINE.filter(lambda text: 0 < len(text.encode()) < 64)
SQL = ANY_TEXT.filter(lambda text: "COPY" not in text)
"""Statements, which are run as they are: one that starts a program would do what it says."""
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True, scope="module")
def _no_marker_stays() -> Iterator[None]:
    yield
    MARKER.unlink(missing_ok=True)


def _advice(words: str) -> LoadAdvice:
    gain = StepGain(words, 2.0, None, Conclusion.HIGHER)
    return LoadAdvice(words, Variant(words, {}), (gain,), (gain,), True, (gain,), (), ())


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _was_marked() -> bool:
    was = MARKER.exists()
    MARKER.unlink(missing_ok=True)
    return was


def test_the_judge_sees_what_it_is_there_for(judge: Judge) -> None:
    """psql runs what stands after a line break, and the server starts programs."""
    for command in _COMMANDS:
        done = judge.run(f"SELECT 1;\nSELECT 2\n{';' if command.startswith('COPY') else ''}{command}\n")
        assert _was_marked(), (command, done.stderr)
    assert judge.run("SELECT 1;\n-- none\nSELECT\n2;").stdout == "SELECT 1;\nSELECT\n2;\n"


@SLOW
@given(
    words=ANY_TEXT, table=st.one_of(st.just("t"), SQL), columns=st.one_of(st.just("x"), SQL),
    before=st.one_of(st.just("SELECT 1"), SQL), after=st.one_of(st.just("SELECT 1"), SQL),
    setting=st.one_of(st.just("application_name"), ANY_TEXT), value=ANY_TEXT, file=ANY_TEXT,
)  # fmt: skip
def test_text_of_any_origin_starts_nothing(
    judge: Judge, words: str, table: str, columns: str, before: str, after: str, setting: str, value: str,
    file: str,
) -> None:  # fmt: skip
    """Refused, or harmless: also where psql goes on after errors, so that it reads every line."""
    recipe = Recipe(
        table, columns, (before,), (after,), (after,), False, (before, after), steps=("late indexes",)
    )
    try:
        script = load_script(_advice(words), recipe, [(setting, value)], file)
    except SqlError:
        return
    done = judge.run(script.replace("\\set ON_ERROR_STOP on", ""))
    assert not _was_marked(), script
    assert judge.left() == []
    sent = _without_blanks(done.stdout)
    for text in (before, after):
        for statement in statements(sqltext.statement(text)):
            assert _without_blanks(statement.sql) in sent
    assert "VACUUM(ANALYZE)" in sent


@SLOW
@given(words=ANY_TEXT, text=ANY_TEXT, value=ANY_TEXT)
def test_comments_and_literals_hold_any_text(judge: Judge, words: str, text: str, value: str) -> None:
    """As many statements arrive as were written, and the literal is the text."""
    statement = f"SELECT 'read ' || {sqltext.literal(text)};"
    script = f"\\set ON_ERROR_STOP on\n{sqltext.comment(words)}\nSET standard_conforming_strings = on;\n"
    done = judge.run(script + f"{sqltext.comment(value)}\n{statement}\n{sqltext.comment(statement)}\n")
    assert done.returncode == 0, done.stderr
    assert not _was_marked()
    assert judge.left() == []
    assert _without_blanks(done.stdout) == _without_blanks(
        f"SET standard_conforming_strings = on;{statement}"
    )
    with judge.connect() as session:
        row = session.execute(f"SELECT {sqltext.literal(text)}".encode()).fetchone()
    assert row == (text,)


@SLOW
@given(
    names=st.lists(NAMES, min_size=5, max_size=5, unique=True), predicate=ANY_TEXT, file=ONE_LINE,
    words=ANY_TEXT, value=ANY_TEXT.filter(lambda text: "\n" not in text),
)  # fmt: skip
def test_a_table_with_such_names_is_loaded_and_put_right(
    judge: Judge, names: list[str], predicate: str, file: str, words: str, value: str
) -> None:
    """Everything is real: psql runs the whole recipe, sends its statements and no others."""
    name, column, index, key, trigger = map(sql.Identifier, names)
    rows = judge.folder / f"rows{file.replace('/', '_')[:40]}"
    rows.write_text("a,b\n1,y\n2,z\n")
    with judge.connect() as session:
        for statement in (
            sql.SQL("CREATE TABLE {} (id int CONSTRAINT {} PRIMARY KEY, {} text)").format(name, key, column),
            sql.SQL("CREATE INDEX {} ON {} ({}) WHERE {} <> {}").format(
                index, name, column, column, sql.Literal(predicate)
            ),
            sql.SQL("CREATE TRIGGER {} BEFORE UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION"
                    " suppress_redundant_updates_trigger()").format(trigger, name),
        ):  # fmt: skip
            session.execute(statement)
        try:
            before = read_table(session, name.as_string(session))
            about = around(before, STEPS, None, judge.cluster.install.version_num)
            recipe = Recipe(
                before.name, before.column_list, about.before, about.first, about.after, True, about.after
            )
            done = judge.run(load_script(_advice(words), recipe, [("application_name", value)], str(rows)))
            assert done.returncode == 0, done.stderr
            assert not _was_marked()
            assert judge.left() == []
            early = ["BEGIN", *about.before, "COMMIT"]
            first = ["BEGIN", f"LOCK TABLE {before.name} IN ACCESS EXCLUSIVE MODE"]
            copied = f"COPY {before.name} ({before.column_list}) FROM STDIN WITH (FORMAT csv, HEADER, FREEZE)"
            after = ["COMMIT", *about.after, f"VACUUM (ANALYZE) {before.name}"]
            sent = [*map(sqltext.statement, early), *map(sqltext.statement, first)]
            assert _without_blanks("".join(sent)) in _without_blanks(done.stdout)
            sent = [*map(sqltext.statement, about.first), copied, *map(sqltext.statement, after)]
            assert _without_blanks("".join(sent)) in _without_blanks(done.stdout)
            left = read_table(session, before.name)
            assert (left.indexes, left.key_constraints, left.triggers) == (
                before.indexes, before.key_constraints, before.triggers,
            )  # fmt: skip
            count = session.execute(f"SELECT count(*) FROM {before.name}".encode()).fetchone()
            assert count == (2,)
        finally:
            session.execute(sql.SQL("DROP TABLE {}").format(name))
            rows.unlink()


@pytest.mark.parametrize("owned", ["2GB", "64GB", None])
def test_the_undo_brings_back_what_alter_system_had_set(judge: Judge, owned: str | None) -> None:
    """RESET removed the owner's line, the load lowered a larger size, and a script that stopped halfway named
    no undo of the settings. The owner's 64GB stays during the load, and all is as before after it."""

    def lines() -> dict[str, str]:
        text = (judge.cluster.data / "postgresql.auto.conf").read_text()
        return dict(line.split(" = ") for line in text.splitlines() if not line.startswith("#"))

    (judge.folder / "rows.csv").write_text("id\n1\n")
    recipe = Recipe("sized", "id", (), (), ("SELECT name, setting FROM pg_settings",), False, ())
    wanted = [("max_wal_size", "8GB"), ("wal_compression", "on"), ("maintenance_work_mem", "512MB")]
    script = load_script(_advice("18"), recipe, wanted, str(judge.folder / "rows.csv"))
    # The file tells it at once; the session hears of a reload a little later.
    size = "64GB" if owned == "64GB" else "8GB"
    there = f"SELECT 1 / count(*) FROM pg_file_settings WHERE name = 'max_wal_size' AND setting = '{size}';"
    script = script.replace("COMMIT;", f"COMMIT;\n{there}")

    def await_reload(size: str) -> None:
        for _ in range(1000):
            with judge.cluster.connect() as fresh:
                if fresh.execute("SELECT current_setting('max_wal_size')").fetchone() == (size,):
                    return
            time.sleep(0.01)
        raise AssertionError(f"max_wal_size is not {size}")

    with judge.cluster.connect() as session:
        usual = owned or "1GB"
        session.execute("CREATE TABLE sized (id int)")
        if owned is not None:
            session.execute(f"ALTER SYSTEM SET max_wal_size = '{owned}'".encode())
        session.execute("SELECT pg_reload_conf()")
        before = lines()
        try:
            await_reload(usual)
            done = judge.run(script)
            assert done.returncode == 0, done.stderr
            assert lines() == before
            await_reload(usual)
            halfway = judge.run(script)
            assert "the table is not empty" in halfway.stderr
            assert lines() == before
            session.execute("TRUNCATE sized")
            (judge.folder / "rows.csv").write_text("id\nx\n")
            halfway = judge.run(script)
            assert "invalid input syntax" in halfway.stderr
            assert lines() != before
            (printed,) = [line for line in halfway.stdout.splitlines() if line.startswith("Undo of the ")]
            undone = judge.run(printed.partition(": ")[2])
            assert undone.returncode == 0, undone.stderr
            assert lines() == before
        finally:
            session.execute("DROP TABLE sized")
            session.execute("ALTER SYSTEM RESET ALL")
            session.execute("SELECT pg_reload_conf()")
            await_reload("1GB")


@pytest.mark.parametrize("partitions", ["", "PARTITION BY HASH (id)"])
def test_an_index_in_a_tablespace_stops_the_script(judge: Judge, partitions: str) -> None:
    """It was built again in the database's own."""
    (judge.folder / "rows.csv").write_text("id\n1\n")
    recipe = Recipe('"Placed"', "id", (), (), (), False, (), steps=("late indexes",))
    script = load_script(_advice("18"), recipe, [("wal_compression", "on")], str(judge.folder / "rows.csv"))
    with judge.cluster.connect() as session:
        session.execute("SET allow_in_place_tablespaces = on")
        session.execute("CREATE TABLESPACE fast LOCATION ''")
        session.execute(f'CREATE TABLE "Placed" (id int PRIMARY KEY) {partitions}'.encode())
        index = '"Placed_pkey"'
        if partitions:
            session.execute(
                'CREATE TABLE part PARTITION OF "Placed" FOR VALUES WITH (MODULUS 1, REMAINDER 0)'
            )
            index = "part_pkey"
        try:
            session.execute(f"ALTER INDEX {index} SET TABLESPACE fast".encode())
            stopped = judge.run(script)
            assert "an index is in a tablespace of its own" in stopped.stderr
            assert "ALTER SYSTEM" not in stopped.stdout
            session.execute(f"ALTER INDEX {index} SET TABLESPACE pg_default".encode())
            done = judge.run(script)
            assert done.returncode == 0, done.stderr
        finally:
            session.execute('DROP TABLE "Placed"')
            session.execute("DROP TABLESPACE fast")


def test_psql_waits_for_the_sync_after_fsync_off(judge: Judge) -> None:
    """It went on to the checkpoint, and the sync was a comment that nobody saw."""
    (judge.folder / "rows.csv").write_text("id\n1\n")
    recipe = Recipe("flushed", "id", (), ("TRUNCATE flushed",), (), False, (), is_filled=True)
    script = load_script(_advice("18"), recipe, [("fsync", "off")], str(judge.folder / "rows.csv"))
    with judge.cluster.connect() as session:
        session.execute("CREATE TABLE flushed (id int)")
        try:
            for typed, ends_well in (("", False), ("\n", True)):
                done = judge.run(script, typed)
                assert (done.returncode == 0) is ends_well, done.stderr
                assert ("CHECKPOINT;" in done.stdout) is ends_well
                assert "fsync" not in (judge.cluster.data / "postgresql.auto.conf").read_text()
        finally:
            session.execute("DROP TABLE flushed")


def test_a_line_break_in_a_predicate_or_a_comment_ends_nothing(judge: Judge) -> None:
    r"""What comes after it used to stand alone on a line of the undo, and psql ran it."""
    with judge.connect() as session:
        session.execute("CREATE TABLE orders (id int, note text)")
        literal = sql.Literal(f"a\n \\! touch {MARKER}\n").as_string(session)
        session.execute(f"CREATE INDEX ON orders (id) WHERE note <> {literal}".encode())
        session.execute(f"COMMENT ON INDEX orders_id_idx IS {literal}".encode())
        try:
            table = read_table(session, "orders")
            about = around(table, ("late indexes",), None, judge.cluster.install.version_num)
            recipe = Recipe(table.name, "id", about.before, (), about.after, False, about.after)
            (judge.folder / "rows.csv").write_text("id\n1\n")
            done = judge.run(load_script(_advice("18"), recipe, [], str(judge.folder / "rows.csv")))
            assert done.returncode == 0, done.stderr
            assert not _was_marked()
            left = read_table(session, "orders").indexes
            assert left == table.indexes
        finally:
            session.execute("DROP TABLE orders")


@pytest.mark.parametrize("what", ["table", "column", "index", "constraint", "trigger", "type"])
def test_names_with_control_characters_are_refused(judge: Judge, what: str) -> None:
    named = {kind: f"a {kind}" for kind in ("table", "column", "index", "constraint", "trigger", "type")}
    named[what] = f"x\n\\! touch {MARKER}"
    name = {kind: sql.Identifier(text) for kind, text in named.items()}
    with judge.connect() as session:
        try:
            session.execute(sql.SQL("CREATE TYPE {type} AS ENUM ('a')").format(**name))
            session.execute(
                sql.SQL("CREATE TABLE {table} ({column} {type} CONSTRAINT {constraint} UNIQUE)").format(
                    **name
                )
            )
            session.execute(sql.SQL("CREATE INDEX i ON {table} ({column})").format(**name))
            session.execute(sql.SQL("ALTER INDEX i RENAME TO {index}").format(**name))
            session.execute(
                sql.SQL("CREATE TRIGGER {trigger} BEFORE UPDATE ON {table} FOR EACH ROW"
                        " EXECUTE FUNCTION suppress_redundant_updates_trigger()").format(**name)
            )  # fmt: skip
            with pytest.raises(WorkloadError, match="holds a control character") as raised:
                read_table(session, name["table"].as_string(session))
        finally:
            session.execute("DROP SCHEMA public CASCADE")
            session.execute("CREATE SCHEMA public")
    said = f"{raised.value.message} {raised.value.detail} {raised.value.hint}"
    assert "\n" not in said
    assert r"x\n\! touch" in said
    assert "Rename it" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT 1 \\! ls", "a backslash outside of quotes"),
        ("SELECT 'a", "ends within a quote"),
        ("SELECT $a$ x", "ends within a quote"),
        ("SELECT 1 /* x", "ends within a quote or a comment"),
        ("SELECT (1", "open parentheses"),
        ("SELECT )(", "open parentheses"),
        ("SELECT\r1", "a control character outside of quotes"),
        ('SELECT "a\nb"', "holds a control character"),
    ],
)
def test_what_cannot_stand_in_a_script_is_refused(text: str, says: str) -> None:
    with pytest.raises(WalproofError, match=says):
        sqltext.statement(text)


def test_statements_end_and_variables_are_none() -> None:
    assert sqltext.statement("SELECT 1; -- done") == "SELECT 1; -- done\n;"
    assert sqltext.statement("SELECT a[1:n], b::text;\n") == "SELECT a[1: n], b::text;"
    assert sqltext.statement("SELECT 'a\n\\'") == r"SELECT E'a\n\\';"

"""SQL is taken apart where psql would, which judges that itself; lines are counted as an editor does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.workload.loading.judge import Judge
from walproof.sqltext import tokens
from walproof.workload.loading.ddl import statements

TEXT = """\\restrict token
-- a shop; not a statement
CREATE TABLE a (x text DEFAULT 'semi;colon', "y;z" int);

/* nested /* ; */ ; */ CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $body$
BEGIN RETURN 1; END $body$;
CREATE FUNCTION g() RETURNS int LANGUAGE sql
BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END;
SELECT E'it\\'s; one' -- last
"""


def test_statements_end_where_the_server_ends_them() -> None:
    found = list(statements(TEXT))
    assert [statement.line for statement in found] == [3, 5, 7, 9]
    assert found[0].sql.endswith('"y;z" int)')
    assert found[1].sql.endswith("$body$")
    assert found[2].sql.endswith("SELECT 2; END")


def test_nothing_is_no_statement() -> None:
    assert list(statements("-- nothing\n;;\n /* and nothing */ ;")) == []


@given(st.text(alphabet="a;'\"$/*-\n ()BEGIN", max_size=60))
def test_it_ends_with_any_text(text: str) -> None:
    assert all(statement.sql.strip() for statement in statements(text))


DUMP = r"""\restrict 5xY
SET standard_conforming_strings = on;
CREATE TABLE paths (x text DEFAULT 'C:
\temp
\', y text DEFAULT E'it\'s
\new;');
CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $body$
SELECT 'a
\b;' $body$;
CREATE TABLE price$$ (x int); CREATE TABLE other$$ (x int);
CREATE RULE r AS ON INSERT TO other$$ DO ALSO (
  INSERT INTO paths VALUES ('1');
\echo -n
  INSERT INTO paths VALUES ('2'));
CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END;
CREATE TABLE "quoted
\name;" (x int);
\unrestrict 5xY
"""


def test_a_backslash_within_quotes_begins_no_command() -> None:
    found = [statement.sql for statement in statements(DUMP)]
    assert "'C:\n\\temp\n\\'" in found[1]
    assert "'it\\'s\n\\new;'" in found[1]
    assert "'a\n\\b;'" in found[2]
    assert found[-1] == 'CREATE TABLE "quoted\n\\name;" (x int)'
    assert not any("restrict" in sql or "echo" in sql for sql in found)
    assert [statement.number for statement in statements(DUMP)] == list(range(1, 9))
    assert [statement.line for statement in statements(DUMP)][:4] == [2, 3, 7, 10]


@pytest.mark.live
def test_psql_sends_the_same_statements(judge: Judge) -> None:
    """\\restrict allows no other command of psql's, so it is judged without."""
    text = DUMP.replace("\\restrict 5xY\n", "").replace("\\unrestrict 5xY\n", "")
    done = judge.run(text)
    assert done.stderr == ""
    sent = [row for row in done.stdout.splitlines() if row]
    ours = [line for statement in statements(text) for line in f"{statement.sql};".splitlines() if line]
    assert sent == ours


_LINES = st.lists(
    st.one_of(
        st.sampled_from(["\n\\set a 'b;\n", '\n \\set a "\n', "\n\\set a $$\n", "\n\\set a (\n"]),
        st.sampled_from(["$$", "$a$", "a$$", "E'\\'", "e'", "U&'", "--", "CREATE FUNCTION", "BEGIN", "END"]),
        st.sampled_from([" ", ";", "'", '"', "(", ")", "\n", "1", "CASE", "a ", "é", "$1", "\\'"]),
    ),
    max_size=14,
).map("".join)


@pytest.mark.live
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=_LINES)
def test_psql_reads_any_text_as_we_do(judge: Judge, text: str) -> None:
    """Empty statements are sent by psql and are none of ours; nor is what follows a command on its line."""
    found = [token for token in tokens(text) if token.kind == "command"]
    assume(all(not text[text.rfind("\n", 0, token.start) + 1 : token.start].strip() for token in found))
    sent = judge.run(text + "\n").stdout
    ours = ";".join(statement.sql for statement in statements(text))
    assert _packed(sent) == _packed(ours), text


def _packed(text: str) -> str:
    return "".join(text.replace(";", " ").split())

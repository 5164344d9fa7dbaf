"""SQL is taken apart where a server would, and lines are counted as an editor does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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
    assert [one.line for one in found] == [3, 5, 7, 9]
    assert found[0].sql.endswith('"y;z" int)')
    assert found[1].sql.endswith("$body$")
    assert found[2].sql.endswith("SELECT 2; END")


def test_nothing_is_no_statement() -> None:
    assert list(statements("-- nothing\n;;\n /* and nothing */ ;")) == []


@given(st.text(alphabet="a;'\"$/*-\n ()BEGIN", max_size=60))
def test_it_ends_with_any_text(text: str) -> None:
    assert all(one.sql.strip() for one in statements(text))

"""Statements in scripts: what pgbench would take for a variable of its own."""

from __future__ import annotations

import pytest

from tests.advise.workload.apps import ID, column, made, only_script, primary, table
from walproof.advise.workload.script_text import without_variables


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("SELECT 'order:created'", r"SELECT E'order\x3acreated'"),
        (r"SELECT 'a\:b', 'it''s :x'", r"SELECT E'a\\\x3ab', E'it''s \x3ax'"),
        (r"SELECT E'a\\:b', e'\:c\n'", r"SELECT E'a\\\x3ab', e'\x3ac\n'"),
        ('UPDATE t SET "xml:lang" = :v1::text', r'UPDATE t SET U&"xml\003alang" = :v1::text'),
        ("SELECT timestamptz '2020-01-01 00:00+00', 'a::b', 'a: b'", None),
        ("SELECT :v1::bigint, x FROM t WHERE a = :new1_id::uuid", None),
    ],
)
def test_colons_in_quotes_are_no_variables(sql: str, written: str | None) -> None:
    assert without_variables(sql) == (written or sql)


def test_labels_and_names_with_colons_stay_what_they_are() -> None:
    kind = column("kind", "public.event", labels=("order:created", "order:paid"), distinct=2.0)
    events = table("events", ID, kind, column("xml:lang", "text"), keys=(primary("id"),))
    text = only_script(made('INSERT INTO events (kind, "xml:lang") VALUES ($1, $2)', tables=(events,)))
    assert ":created" not in text
    assert r"(ARRAY[E'order\x3acreated', E'order\x3apaid'])[" in text
    assert r'(kind, U&"xml\003alang")' in text

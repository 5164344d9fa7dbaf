"""Values out of line are as wide as the size of the TOAST table says."""

from __future__ import annotations

from dataclasses import replace

from tests.advise.workload.apps import ID, column, made, only_script, primary, table
from walproof.advise.workload.toast import wide_of, widened
from walproof.facts.application import AppColumn, AppIndex, AppTable

POINTER = 18
INSERT = "INSERT INTO documents (title, body) VALUES ($1, $2)"


def wide(name: str, type_: str, width_bytes: int | None = POINTER, null_share: float = 0.0) -> AppColumn:
    return replace(column(name, type_, null_share=null_share), width_bytes=width_bytes)


def documents(*columns: AppColumn, toast_bytes: int = 80_000_000) -> AppTable:
    """Of 10,000 rows, with 8,000 bytes of each out of line."""
    index = AppIndex(
        "CREATE INDEX i ON public.documents USING btree (lower(named))", (), is_unique=False
    )  # fmt: skip
    of = table("documents", ID, *columns, keys=(primary("id"),), indexes=(index,))
    return replace(of, size_bytes=toast_bytes + 1_000_000, toast_bytes=toast_bytes)


def test_a_document_out_of_line_is_as_wide_as_the_applications() -> None:
    own = documents(wide("title", "character varying(200)"), wide("body", "jsonb"))
    found = made(INSERT, tables=(own,))
    for text in (only_script(found), found.files["schema.sql"]):
        assert "FROM generate_series(1, 250) g), 7980))" in text
    assert (
        "public.documents: 99 % of its size lies in TOAST. Its wide values are taken for those of body "
        "(7.81 kB)." in found.notes
    )
    narrow = made(INSERT, tables=(documents(*own.columns[1:], toast_bytes=8192),))
    assert "generate_series(1, 250)" not in only_script(narrow)
    assert not any("TOAST" in note for note in narrow.notes)


def test_columns_that_cannot_be_wide_stay_as_they_are() -> None:
    columns = (
        wide("title", "character varying(200)"),
        wide("named", "text"),
        wide("at", "timestamp with time zone"),
        wide("gone", "text", null_share=1.0),
        replace(wide("state", "text"), distinct=4.0),
    )
    assert wide_of(documents(*columns)) == {}
    assert widened(documents(*columns)) == documents(*columns)
    (note,) = [note for note in made(INSERT.replace("body", "named"), tables=(documents(*columns),)).notes
               if "TOAST" in note]  # fmt: skip
    assert note.endswith("which of its columns has wide values is not known, and here none has.")


def test_which_columns_are_wide_is_told_by_their_widths() -> None:
    body, other = wide("body", "text"), wide("other", "bytea", null_share=0.5)
    assert wide_of(documents(body, wide("note", "text", 300))) == {"body": 8000}
    assert wide_of(documents(body, other)) == {"body": 5333, "other": 5333}
    # Some rows hold theirs.
    assert wide_of(documents(wide("body", "text", 509), wide("note", "text", 30))) == {"body": 8509}
    assert wide_of(documents(wide("a", "text", None), wide("b", "text", None))) == {"a": 4000, "b": 4000}
    assert wide_of(documents(body, toast_bytes=10**12)) == {"body": 65_536}

"""The draft of a load: from facts of a real application, and from tables that are hard to do."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.advise.workload.apps import (
    ID,
    ORDER,
    PARENTS,
    application,
    column,
    foreign,
    made,
    only_script,
    primary,
    statement,
    table,
    tickets,
)
from walproof.advise.workload.draft import draft
from walproof.advise.workload.unevenness import Traffic
from walproof.analysis.working_set import Draws, Law, touched
from walproof.facts.application import AppIndex, AppKey, Application, AppTable
from walproof.lab.reading import check_study
from walproof.settings.conf import read_conf
from walproof.sqltext import quoted


def test_a_real_application_is_drafted_whole() -> None:
    found = draft(tickets(), replace(ORDER, name="tickets"))
    assert found.calls_share == 1.0
    assert found.wal_share == 1.0
    assert found.left_out == ()
    assert [len(each.members) for each in found.scripts.values()] == [1, 2, 3, 1, 1]
    comment = next(text for name, text in found.files.items() if "comments" in name)
    assert comment.startswith("\\set v1 random(1, 200000)\n")
    assert comment.count(":v1::bigint") == 2, "the ticket that is commented on is the one that changes"
    assert comment.splitlines()[-1] == "COMMIT;"
    assert found.rate == pytest.approx(399, rel=0.02)
    # The application drew evenly; customers are not changed, and where comments go, their tickets say.
    assert {name: draws.law for name, draws in found.laws.items()} == {"public.tickets": Law.EVEN}
    schema = found.files["schema.sql"]
    assert "CREATE TYPE public.ticket_state AS ENUM ('new', 'open', 'waiting', 'closed');" in schema
    assert "WHERE (state <> 'closed'::public.ticket_state);" in schema, "the enum of the index is there"
    assert "ALTER TABLE public.comments ADD FOREIGN KEY (ticket) REFERENCES public.tickets(id);" in schema
    assert schema.index("CREATE TABLE public.customers") < schema.index("CREATE TABLE public.tickets")


def test_the_file_is_a_study() -> None:
    found = draft(tickets(), replace(ORDER, name="tickets"))
    text = found.files["tickets.toml"]
    study = check_study(tomllib.loads(text), "tickets.toml", text)
    assert study.variant[0].name == "default"
    (workload,) = study.workload
    assert [script.file for script in workload.script] == list(found.scripts)
    assert sum(script.weight for script in workload.script) == pytest.approx(10_000, abs=5)
    assert f"# rate = {found.rate:.0f}  # transactions a second" in text


def test_rows_that_are_hit_again_make_fewer_images() -> None:
    seen = tickets()
    fewer = replace(
        seen,
        statements=tuple(
            replace(row, wal_fpi=row.wal_fpi / 4, wal_fpi_first_half=(row.wal_fpi_first_half or 0) / 3)
            for row in seen.statements
        ),
    )
    found = draft(fewer, ORDER)
    assert found.laws["public.tickets"].law is not Law.EVEN
    assert re.search(r"random_(zipfian|exponential)\(1, 200000, [0-9.]+\)", "".join(found.files.values()))


def test_without_checkpoint_times_rows_are_drawn_evenly() -> None:
    found = draft(replace(tickets(), cycle_parts=()), ORDER)
    assert found.laws == {}
    assert "random_" not in "".join(found.files.values())


def test_a_smaller_copy_keeps_small_tables_whole() -> None:
    found = draft(tickets(), replace(ORDER, most_bytes=10 << 20))
    rows = {each.table.relation: each.rows for each in found.tables}
    assert rows["counters"] == 400
    assert 1000 < rows["tickets"] < 100_000
    assert any("of their rows (about 10.0 MB)" in note for note in found.notes), found.notes


def test_few_statements_are_those_that_matter_most() -> None:
    found = draft(tickets(), replace(ORDER, statements=2))
    assert sum(len(each.members) for each in found.scripts.values()) == 2
    assert found.wal_share > 0.5
    assert {left.why for left in found.left_out} == {"it is not among the 2 that matter most (--statements)"}


def test_a_key_that_the_application_makes_is_new_each_time() -> None:
    found = made("INSERT INTO parents (id, name) VALUES ($1, $2)", tables=(PARENTS,))
    assert "VALUES (nextval('walproof_fresh'), left(md5(" in only_script(found)
    assert "CREATE SEQUENCE walproof_fresh START 10001;" in found.files["schema.sql"]


def test_a_key_of_foreign_keys_alone_may_be_there_already() -> None:
    links = table(
        "links", column("a", "bigint", not_null=True), column("b", "bigint", not_null=True),
        rows=5000, keys=(primary("a", "b"), foreign("a", "public.parents"), foreign("b", "public.parents")),
    )  # fmt: skip
    insert = "INSERT INTO links (a, b) VALUES ($1, $2) RETURNING a"
    text = only_script(made(insert, tables=(PARENTS, links)))
    assert text.endswith("ON CONFLICT DO NOTHING RETURNING a;\n")
    assert ":v1::bigint, :v2::bigint" in text, "the two parents are different ones"


def test_lists_are_as_long_as_the_rows_that_a_call_finds() -> None:
    def text(query: str) -> str:
        found = draft(application((PARENTS,), statement(query, 100.0, 300.0)), ORDER)
        return only_script(found).splitlines()[-1]

    assert text("SELECT * FROM parents WHERE id IN ($1 /*, ... */)").count("% 10000)") == 2
    several = text("SELECT * FROM parents WHERE id = ANY($1)")
    assert re.search(r"= ANY\(ARRAY\[.*\]::bigint\[\]\);", several)
    assert text("SELECT * FROM parents ORDER BY id LIMIT $1").endswith("LIMIT 3;")
    several = text("INSERT INTO parents (name) SELECT * FROM unnest($1::text[])")
    assert several.count("md5(") == 3


def test_an_array_is_one_value_of_its_column() -> None:
    items = table("items", ID, column("tags", "text[]"), keys=(primary("id"),))
    found = only_script(made("INSERT INTO items (tags) VALUES ($1::text[])", tables=(items,)))
    assert found.count("ARRAY[") == 1


def test_rows_from_an_array_may_have_keys_that_are_there() -> None:
    insert = "INSERT INTO parents (id, name) SELECT * FROM unnest($1::bigint[], $2::text[])"
    assert "ON CONFLICT DO NOTHING;" in only_script(made(insert, tables=(PARENTS,)))


def test_a_returning_within_is_not_that_of_the_insert() -> None:
    moved = table("moved", column("id", "bigint", not_null=True), keys=(primary("id"),))
    insert = (
        "WITH d AS (DELETE FROM parents WHERE id = $1 RETURNING id) INSERT INTO moved (id) SELECT id FROM d"
    )
    text = only_script(made(insert, tables=(PARENTS, moved)))
    assert text.endswith("RETURNING id) INSERT INTO moved (id) SELECT id FROM d ON CONFLICT DO NOTHING;\n")
    within = "WITH i AS (INSERT INTO moved (id) SELECT id FROM parents RETURNING id) SELECT count(*) FROM i"
    (left,) = made(within, tables=(PARENTS, moved)).left_out
    assert left.why == "it inserts, within another statement, rows whose keys may be there already"


def test_constants_that_were_masked_are_no_load() -> None:
    (left,) = made("UPDATE parents SET name = '...' WHERE id = $1", tables=(PARENTS,)).left_out
    assert left.why == "it was counted with constants in its text"


def test_what_is_deleted_is_not_pointed_to() -> None:
    children = table(
        "children", ID, column("parent", "bigint"), keys=(primary("id"), foreign("parent", "public.parents"))
    )
    found = made(
        "DELETE FROM parents WHERE id = $1", "INSERT INTO children (parent) VALUES ($1)",
        tables=(PARENTS, children),
    )  # fmt: skip
    assert "FOREIGN KEY" not in found.files["schema.sql"]
    assert any("the load deletes rows there" in note for note in found.notes)


def test_tables_that_foreign_keys_need_come_along() -> None:
    children = table(
        "children", ID, column("parent", "bigint"), keys=(primary("id"), foreign("parent", "public.parents"))
    )
    found = made("INSERT INTO children (parent) VALUES ($1)", tables=(children, PARENTS))
    assert [each.table.relation for each in found.tables] == ["parents", "children"]


def test_a_type_without_values_stands_as_bytes_and_is_not_named() -> None:
    places = table(
        "places", ID, column("at", "public.geometry"), column("n", "integer"), keys=(primary("id"),)
    )
    found = made(
        "UPDATE places SET n = n + $1 WHERE id = $2", "UPDATE places SET at = $1 WHERE id = $2",
        tables=(places,),
    )  # fmt: skip
    assert '"at" bytea' in found.files["schema.sql"]
    (left,) = found.left_out
    assert left.why == "it names at of type public.geometry, of which no value can be made"
    assert left.wal_share == 0.5


def test_triggers_and_odd_indexes_are_named() -> None:
    odd = AppIndex("CREATE INDEX o ON public.items USING gin (name public.gin_trgm_ops)", ("name",), False)
    items = table(
        "items", ID, column("name", "text"), keys=(primary("id"),), indexes=(odd,), triggers=("audit",)
    )
    found = made("UPDATE items SET name = $1 WHERE id = $2", tables=(items,))
    assert any("triggers that are not here: audit" in note for note in found.notes)
    assert any("gin_trgm_ops" in note for note in found.notes)
    assert "gin_trgm_ops" not in found.files["schema.sql"]


def test_rare_statements_and_transaction_commands_are_no_load() -> None:
    rows = (
        statement("UPDATE parents SET name = $1 WHERE id = $2", 1_000_000),
        statement("DELETE FROM parents WHERE id = $1", 3),
        statement("COMMIT", 1_000_000, wal=0),
        statement("SET search_path = $1", 500_000, wal=0),
    )
    found = draft(application((PARENTS,), *rows), ORDER)
    assert [left.why for left in found.left_out] == ["it is rare"]
    assert found.wal_share > 0.99


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("UPDATE parents SET name = $1 WHERE id = $2 /* ; \\! id */", None),
        ("UPDATE parents SET name = $1 WHERE id = $2 -- :v1", None),
        ("UPDATE parents SET name = $1 WHERE id = $2 \\! id", "its text was not understood"),
        ("UPDATE parents SET name = $1\n\\! id\nWHERE id = $2", "its text was not understood"),
    ],
)
def test_no_text_of_a_statement_is_a_command_of_pgbench(query: str, where: str | None) -> None:
    found = made(query, tables=(PARENTS,))
    if where is None:
        assert "\\!" not in only_script(found)
        assert only_script(found).count(":v1") == 1
    else:
        assert [left.why for left in found.left_out] == [where]


def test_odd_names_are_quoted_everywhere() -> None:
    odd = AppTable(
        'we"ird', "Ta ble", '"we""ird"."Ta ble"', "r", 10, 8192,
        (ID, column('co"l', "text", not_null=True)), (AppKey("u", ('co"l',), 'UNIQUE ("co""l")'),), (),
        "fillfactor=70",
    )  # fmt: skip
    found = made('UPDATE "we""ird"."Ta ble" SET "co""l" = upper("co""l") WHERE id = $1', tables=(odd,))
    schema = found.files["schema.sql"]
    assert 'CREATE SCHEMA "we""ird";' in schema
    assert '"co""l" text NOT NULL' in schema
    assert "WITH (fillfactor=70);" in schema
    assert list(found.scripts) == ["01-update-ta-ble.sql"]


def test_a_composite_key_is_unique_in_the_rows_that_are_made() -> None:
    days = table(
        "days", column("day", "date", not_null=True, distinct=100.0),
        column("kind", "integer", not_null=True, distinct=7.0), column("n", "integer"),
        rows=650, keys=(primary("day", "kind"),),
    )  # fmt: skip
    found = made("UPDATE days SET n = n + $1 WHERE day = $2 AND kind = $3", tables=(days,))
    (spaces,) = (each.spaces for each in found.tables)
    numbers = {
        name: [eval(spaces[name].number.replace("/", "//"), {"i": i}) for i in range(1, 651)]
        for name in ("day", "kind")
    }
    assert len(set(zip(numbers["day"], numbers["kind"], strict=True))) == 650
    assert max(numbers["kind"]) == 7


def test_an_application_without_statements_makes_no_load() -> None:
    found = draft(Application(170000, "shop", None, (), (PARENTS,), 0), ORDER)
    assert not found.scripts
    assert found.rate is None


def test_the_size_of_a_segment_comes_along() -> None:
    """min_wal_size of a server with small segments is refused with those of 16 MB."""

    def initdb(application: Application) -> object:
        return tomllib.loads(draft(application, ORDER).files[f"{ORDER.name}.toml"]).get("initdb")

    assert initdb(tickets()) is None
    assert initdb(replace(tickets(), segment_bytes=4 << 20)) == ["--wal-segsize=4"]


def test_a_full_view_is_told() -> None:
    found = draft(replace(tickets(), dropped=3.0), ORDER)
    assert any("was full 3 times meanwhile" in note for note in found.notes)


def test_a_table_that_was_never_analysed_is_told() -> None:
    new = replace(PARENTS, columns=tuple(replace(each, distinct=None) for each in PARENTS.columns), rows=0)
    found = made("UPDATE parents SET name = $1 WHERE id = $2", tables=(new,))
    assert any(note.startswith("Of 1 table there are no statistics to read") for note in found.notes)


def test_files_are_plain_names() -> None:
    assert all(Path(name).name == name for name in draft(tickets(), ORDER).files)


SERVER = (("checkpoint_timeout", "15min"), ("shared_buffers", "512MB"), ("wal_compression", "lz4"))


def test_the_servers_settings_come_along() -> None:
    found = draft(replace(tickets(), settings=SERVER), ORDER)
    assert found.shared_buffers is None
    assert "base" not in tomllib.loads(found.files["shop.toml"])
    assert [row for row in found.files["server.conf"].splitlines() if not row.startswith("#")] == [
        "checkpoint_timeout = '15min'",
        "shared_buffers = '512MB'",
        "wal_compression = 'lz4'",
    ]


def test_shared_buffers_has_the_share_that_the_tables_have(tmp_path: Path) -> None:
    seen = replace(tickets(), settings=(*SERVER, ("evil", "x\nfsync = off"), ("fsync\n= off #", "1")))
    found = draft(seen, replace(ORDER, most_bytes=1 << 20))
    share = min(table.rows / max(1, table.table.rows) for table in found.tables)
    assert 0 < share < 1
    assert found.shared_buffers is not None
    assert found.shared_buffers.endswith("kB")
    assert abs(int(found.shared_buffers[:-2]) / (share * (512 << 10)) - 1) < 0.1
    text = found.files["server.conf"]
    assert (
        f"# 512MB on the server; here it is fitted to the tables.\nshared_buffers = '{found.shared_buffers}'"
        in text
    )
    (tmp_path / "server.conf").write_text(text)
    assert read_conf(tmp_path / "server.conf") == {**dict(SERVER), "shared_buffers": found.shared_buffers}
    assert any("server.conf" in note for note in found.notes)
    # Whoever takes the load without the file has it, too, and tune does not move what [base] has.
    load = tomllib.loads(found.files["shop.toml"])
    assert load["base"] == {"shared_buffers": found.shared_buffers}


def test_more_than_the_tables_need_is_more_than_a_laboratory_may_have() -> None:
    found = draft(replace(tickets(), settings=(("shared_buffers", "64GB"),)), ORDER)
    assert found.shared_buffers == "1024MB"
    assert "shared_buffers = '1024MB'" in found.files["server.conf"]


def test_a_server_that_says_nothing_of_its_settings() -> None:
    found = draft(tickets(), replace(ORDER, most_bytes=1 << 20))
    assert found.shared_buffers is None
    assert "=" not in found.files["server.conf"]


MEASURED = table(
    "measured",
    column("device", "bigint", not_null=True, distinct=-0.01),
    column("at", "timestamp with time zone", not_null=True, correlation=1.0),
    column("value", "double precision"),
    keys=(primary("device", "at"),),
)


def partitioned(by: str, *names: str, parts: int = 4, of: AppTable = MEASURED) -> AppTable:
    return replace(of, kind="p", partitioned_by=by, partition_columns=names, partitions=parts)


def test_a_table_by_ranges_has_ranges_of_equally_many_rows_and_an_open_end() -> None:
    found = made("INSERT INTO measured VALUES ($1, $2, $3)", tables=(partitioned("r", "at"),))
    schema = found.files["schema.sql"]
    assert ') PARTITION BY RANGE ("at");' in schema
    bounds = re.findall(
        r'CREATE TABLE "public"\."measured_part\d" PARTITION OF public\.measured (.*);', schema
    )
    assert len(bounds) == 4
    assert bounds[0].startswith("FOR VALUES FROM (MINVALUE) TO (((timestamptz '2020-01-01 00:00+00' + ")
    assert bounds[-1].endswith("TO (MAXVALUE)")
    assert [end.split(" TO ")[1] for end in bounds[:-1]] == [
        start.split("FROM ")[1].split(" TO ")[0] for start in bounds[1:]
    ]
    assert not any("partition" in note for note in found.notes)


@pytest.mark.parametrize(("by", "names"), [("l", ("device",)), ("h", ("device", "at")), ("r", ("value",))])
def test_other_partitions_are_by_hash(by: str, names: tuple[str, ...]) -> None:
    of = (
        MEASURED
        if by != "r"
        else replace(MEASURED, keys=(), columns=(*MEASURED.columns[:2], column("value", "text")))
    )
    found = made("INSERT INTO measured (device) VALUES ($1)", tables=(partitioned(by, *names, of=of),))
    schema = found.files["schema.sql"]
    assert f"PARTITION BY HASH ({', '.join(map(quoted, names))});" in schema
    assert schema.count(" PARTITION OF ") == 4
    assert "FOR VALUES WITH (MODULUS 4, REMAINDER 3);" in schema
    notes = [note for note in found.notes if "hash" in note]
    assert len(notes) == (by != "h")


def test_lists_of_an_enum_are_by_hash_too() -> None:
    state = replace(column("state", "public.state"), labels=("new", "done"))
    of = replace(MEASURED, columns=(*MEASURED.columns, state), keys=())
    found = made("INSERT INTO measured (device) VALUES ($1)", tables=(partitioned("l", "state", of=of),))
    assert 'PARTITION BY HASH ("state");' in found.files["schema.sql"]


def test_new_rows_of_ranges_touch_the_newest_partitions_index_alone() -> None:
    """A quarter of an index of 400 pages."""
    indexed = replace(MEASURED, index_pages=((("device",), 400),), keys=())
    insert = statement("INSERT INTO measured VALUES ($1, $2, $3)", calls=100_000)
    for of, pages in ((indexed, 400.0), (partitioned("r", "at", of=indexed), 100.0)):
        drawn = draft(application((of,), insert), ORDER)
        (transaction,) = drawn.scripts.values()
        (family,) = Traffic([transaction], {of.name: of}, 10.0).families(of, {})
        assert touched(family, 1e6, Draws()) == pytest.approx(pages)


@pytest.mark.parametrize(
    ("query", "rows", "is_guarded"),
    [
        ("INSERT INTO measured VALUES ($1, now(), $2)", 1000, False),
        ("INSERT INTO measured VALUES ($1, now(), $2), ($3, now(), $4)", 2000, True),
        ("INSERT INTO measured VALUES ($1, clock_timestamp(), $2), ($3, clock_timestamp(), $4)", 2000, False),
    ],
)
def test_a_key_that_the_statement_makes_new_needs_no_guard(query: str, rows: int, is_guarded: bool) -> None:
    """A guarded row is inserted tentatively and then confirmed, which is a record of WAL more."""
    found = draft(application((MEASURED,), statement(query, rows=rows)), ORDER)
    assert ("ON CONFLICT DO NOTHING" in only_script(found)) == is_guarded


def test_a_key_with_expressions_makes_one_table_and_says_so() -> None:
    found = made("INSERT INTO measured (device) VALUES ($1)", tables=(partitioned("r"),))
    assert "PARTITION" not in found.files["schema.sql"]
    assert "public.measured is partitioned; here it is one table." in found.notes


def test_a_new_row_has_the_newest_time() -> None:
    events = table(
        "events", ID, column("at", "timestamp without time zone", correlation=0.99),
        column("day", "date", correlation=0.99, distinct=30.0),
        column("kind", "integer", correlation=0.9, distinct=4.0),
        column("seen", "timestamp without time zone"), keys=(primary("id"),),
    )  # fmt: skip
    script = only_script(
        made("INSERT INTO events (at, day, kind, seen) VALUES ($1, $2, $3, $4)", tables=(events,))
    )
    at, day, kind, seen = script.split("VALUES (")[1].split(", ")[:4]
    assert "nextval('walproof_fresh')" in at
    assert "(30 % 20000)" in day
    assert ":v1" in kind
    assert ":v2" in seen

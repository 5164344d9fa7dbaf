"""Texts and numbers of few values which the schema names: states of a queue, of an order."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from tests.advise.workload.apps import ID, column, made, only_script, primary, table
from walproof.advise.workload.parts import Part
from walproof.advise.workload.spaces import make_table
from walproof.advise.workload.states import States, states_of
from walproof.facts.application import AppColumn, AppIndex, AppTable

STATE = replace(
    column("state", "text", not_null=True, default="'queued'::text", distinct=3.0),
    usual=("done", None, "queued"),
    usual_shares=(0.9, 0.08, 0.02),
)


def index(predicate: str) -> AppIndex:
    return AppIndex(f"CREATE INDEX some ON public.jobs USING btree (id) WHERE {predicate}", ("id",), False)


QUEUED, NOT_DONE = index("(state = 'queued'::text)"), index("(state <> 'done'::text)")


def jobs(*indexes: AppIndex, state: AppColumn = STATE, checks: tuple[str, ...] = ()) -> AppTable:
    own = table("jobs", ID, state, column("queue", "text", distinct=4.0), rows=1000, keys=(primary("id"),))
    return replace(own, indexes=indexes, others=checks)


def script(query: str, own: AppTable) -> str:
    return only_script(made(query, tables=(own,)))


def states(own: AppTable, name: str = "state") -> States | None:
    return states_of(own, next(each for each in own.columns if each.name == name))


def test_rows_have_the_values_that_the_schema_names_as_often_as_in_the_application() -> None:
    space = make_table(jobs(QUEUED), {}, 1.0).spaces["state"]
    with closing(sqlite3.connect(":memory:")) as session:
        rows = session.execute(
            "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 1000) "
            f"SELECT {space.number} AS n, count(*) FROM r GROUP BY n ORDER BY n"
        ).fetchall()
        assert rows == [(1, 900), (2, 80), (3, 20)]
        newest = session.execute(
            "WITH RECURSIVE r(i) AS (SELECT 981 UNION ALL SELECT i + 1 FROM r WHERE i < 1000) "
            f"SELECT DISTINCT {space.number} FROM r"
        ).fetchall()
    assert newest == [(3,)], "what has the default are the newest rows"
    made_value = space.value("i")
    assert made_value is not None
    assert made_value.startswith("CASE i WHEN 1 THEN 'done' WHEN 3 THEN 'queued' ELSE ")


def test_statements_ask_for_what_partial_indexes_hold_and_inserts_give_the_default() -> None:
    own = jobs(QUEUED, NOT_DONE)
    asked = script("SELECT id FROM jobs WHERE state = $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED", own)
    assert "state = 'queued' ORDER BY" in asked
    # With a condition beside it, too, and in the subquery of an UPDATE, which gives another state.
    assert "queue = " in (beside := script("SELECT id FROM jobs WHERE queue = $1 AND state = $2", own))
    assert "state = 'queued'" in beside
    assert "state <> 'done'" in script("SELECT id FROM jobs WHERE state <> $1", own)
    one = "SELECT id FROM jobs WHERE state = $2 LIMIT 1"
    taken = script(f"UPDATE jobs SET state = $1 WHERE id = ({one})", own)
    assert "WHERE state = 'queued' LIMIT" in taken
    # Done and the one that is not named have 0.9 and 0.08 of the rows.
    assert "random(1, 1000)" in taken
    assert "<= 918 THEN 1 ELSE 2 END" in taken
    assert "VALUES ('queued', " in script("INSERT INTO jobs (state, queue) VALUES ($1, $2)", own)
    assert "state IN ('queued')" in script("SELECT id FROM jobs WHERE state = ANY($1)", own).replace(
        "= ANY(ARRAY['queued']::text[])", "IN ('queued')"
    )


def test_what_is_due_before_now_is_all_there_and_what_came_lately_are_the_newest_rows() -> None:
    due = column("due", "timestamp with time zone", not_null=True, distinct=-1.0, correlation=1.0)
    own = replace(jobs(QUEUED), columns=(*jobs(QUEUED).columns, due))
    query = "SELECT id FROM jobs WHERE state = $1 AND due {} ORDER BY due LIMIT $2"
    assert "+ 1001 * interval" in script(query.format("< now()"), own)
    for moment in ("now() - interval '1 hour'", "now() - $3::interval"):
        lately = script(query.format(f"> {moment}"), own)
        assert r"\set" not in lately, "the same rows each time, and whatever is newer"
    # What stands in the statement begins anywhere.
    assert r"\set v1 random(1, 9" in script(query.format("> $3"), own)


def test_a_row_that_a_key_names_has_its_own_state() -> None:
    asked = script("SELECT id FROM jobs WHERE id = $1 AND state = $2", jobs(QUEUED))
    assert "state = CASE CASE WHEN :v1::bigint > 980 THEN 3 ELSE CASE WHEN :v1::bigint * " in asked
    changed = script("UPDATE jobs SET state = $1 WHERE id = $2 AND state = $3", jobs(QUEUED))
    assert 'state = "state"' in changed


@pytest.mark.parametrize(
    ("predicate", "wanted", "unwanted"),
    [
        ("(state = ANY (ARRAY['queued'::text, 'again'::text]))", {"queued", "again"}, set()),
        ("((state)::text = ANY ((ARRAY['a'::character varying(10), 'b'::character varying])::text[]))",
         {"a", "b"}, set()),
        ("(state <> ALL (ARRAY['done'::text, 'failed'::text]))", set(), {"done", "failed"}),
        ("((NOT (state = 'done'::text)) AND (queue = 'x'::text))", set(), {"done"}),
        ("(queue = 'x'::text)", set(), set()),
        ("(lower(state) = 'x'::text)", set(), set()),
        ("(state IS NOT NULL)", set(), set()),
        ("(state = 'it''s'::text)", {"it's"}, set()),
    ],
)  # fmt: skip
def test_what_a_predicate_names(predicate: str, wanted: set[str], unwanted: set[str]) -> None:
    found = states(jobs(index(predicate)))
    assert found is not None
    assert {found.names[number - 1] for number in found.wanted} == wanted
    assert {found.names[number - 1] for number in found.unwanted} == unwanted


def test_a_check_constraint_names_values_that_no_row_has_yet() -> None:
    check = "CHECK ((state = ANY (ARRAY['queued'::text, 'done'::text, 'lost'::text]))) NOT VALID"
    found = states(jobs(checks=(check,)))
    assert found is not None
    assert found.names == ("done", None, "queued", "lost")
    assert found.shares == (0.9, 0.08, 0.02, 0.0)
    # What is passed through quickly has no rows: it is given as often as the others together.
    assert found.choices(Part.ASSIGNED) == pytest.approx({1: 0.9, 2: 0.08, 4: 0.98})
    # What pg_stats does not list, though there are so many values, has what is left.
    rare = replace(STATE, distinct=4.0, usual=("done", "queued"), usual_shares=(0.9, 0.06))
    found = states(jobs(state=rare, checks=(check,)))
    assert found is not None
    assert found.names == ("done", "queued", "lost", None)
    assert found.shares == pytest.approx((0.9, 0.06, 0.02, 0.02))


def test_without_statistics_all_are_as_frequent() -> None:
    unknown = replace(STATE, distinct=None, usual=(), usual_shares=())
    found = states(jobs(QUEUED, NOT_DONE, state=unknown))
    assert found == States(("queued", "done"), (0.5, 0.5), 1, (1,), (2,))


def test_a_queue_that_was_empty_has_rows_of_another_state_and_gets_new_ones() -> None:
    empty = replace(STATE, distinct=1.0, usual=(None,), usual_shares=(1.0,))
    found = states(jobs(QUEUED, state=empty))
    assert found is not None
    assert (found.names, found.default, found.wanted) == ((None, "queued"), 2, (2,))
    # Where all rows have the default there is nothing to tell apart.
    assert states(jobs(QUEUED, state=replace(empty, usual=("queued",)))) is None


def test_numbers_are_states_where_an_index_or_a_constraint_says_so() -> None:
    level = replace(column("level", "smallint", not_null=True, default="0", distinct=3.0),
                    usual=("1", None, "0"), usual_shares=(0.5, 0.3, 0.2))  # fmt: skip
    plain = table("t", ID, level, rows=1000, keys=(primary("id"),))
    assert states(plain, "level") is None  # a count, perhaps
    own = replace(plain, indexes=(index("(level = 0)"),))
    space = make_table(own, {}, 1.0).spaces["level"]
    # What is not named is a number beyond those that are.
    assert space.value("i") == "CASE i WHEN 1 THEN 1 WHEN 3 THEN 0 ELSE (((i) + 1) % 32767)::smallint END"
    assert "level = 0;" in script("SELECT id FROM t WHERE level = $1", own)
    negative = replace(plain, indexes=(index("(level = '-1'::integer)"),))
    found = states(negative, "level")
    assert found is not None
    assert "-1" in found.names


@pytest.mark.parametrize(
    "change",
    [
        {"distinct": 21.0, "usual": (None,) * 21, "usual_shares": (0.04,) * 21},
        {"distinct": -0.5, "usual": ("done",), "usual_shares": (0.1,)},
        {"is_generated": True},
        {"type": "numeric(10,2)"},
        {"type": "character(4)"},
    ],
)
def test_what_is_no_state(change: dict[str, object]) -> None:
    assert states(jobs(QUEUED, state=replace(STATE, **change))) is None  # type: ignore[arg-type]


def test_what_a_key_has_or_parts_go_by_is_no_state() -> None:
    assert states(replace(jobs(QUEUED), keys=(primary("id"), primary("state")))) is None
    assert states(replace(jobs(QUEUED), partition_columns=("state",))) is None
    unique = replace(QUEUED, columns=("state",), is_unique=True)
    assert states(jobs(unique)) is None


def test_few_rows_have_few_values_though_pg_stats_gives_a_share() -> None:
    small = replace(STATE, distinct=-0.15, usual=("done", "queued"), usual_shares=(0.8, 0.2))
    found = states(jobs(QUEUED, state=small))
    assert found is not None
    assert found.names == ("done", "queued")

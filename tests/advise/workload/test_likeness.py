"""A load beside its application, from what a try has counted."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.advise.workload.tries import tried
from walproof.advise.workload.likeness import failures, with_try
from walproof.facts.drafted import DraftedLoad, DraftedScript, DraftedStatement
from walproof.facts.tried import TriedLoad, TriedScript, TriedStatement


def statement(rows: float, records: float, calls: float = 1000.0) -> DraftedStatement:
    return DraftedStatement("UPDATE t SET n = $1", calls, rows * calls, records * calls, 0.0, 60.0 * calls)


def load(*statements: DraftedStatement, calls: float = 1000.0) -> DraftedLoad:
    return DraftedLoad(
        1, "shop", "shop.toml", "server.conf", None, None, "17", "shop", 60.0, 10.0, 1.0, 1.0,
        (DraftedScript("01.sql", calls, statements),), (), (), (), not_tried="not yet",
    )  # fmt: skip


def ran(
    rows: tuple[int, ...], records: tuple[int, ...], upkeep: int = 0, sql: str = "UPDATE t SET n = 1"
) -> TriedStatement:
    side = (upkeep,) * len(records)
    return TriedStatement(sql, rows, records, side, tuple(50 * each for each in records))


def script(*statements: TriedStatement, **facts: object) -> TriedLoad:
    return TriedLoad("17.10", (replace(TriedScript("01.sql", statements), **facts),))  # type: ignore[arg-type]


def test_what_does_the_same_does_not_differ() -> None:
    found = with_try(load(statement(1, 4), statement(3, 0)), tried(load(statement(1, 4), statement(3, 0))))
    assert found.tried is not None
    assert (found.tried.version, found.tried.rows, found.tried.wal_records) == ("17.10", 1.0, 1.0)
    assert found.not_tried is None
    assert [each.tried.differs for each in found.scripts[0].statements if each.tried] == [(), ()]
    assert found.scripts[0].tried is not None
    assert (found.scripts[0].tried.rows, found.scripts[0].tried.wal_records) == (4.0, 4.0)


@pytest.mark.parametrize(
    ("rows", "records", "differs"),
    [
        ((0,) * 100, (0,) * 100, ("rows", "wal_records")),
        ((1,) * 100, (2,) * 100, ()),
        ((1,) * 100, (3,) * 100, ("wal_records",)),
        ((20,) * 100, (2,) * 100, ("rows",)),
        ((1,) * 85 + (0,) * 15, (2,) * 100, ()),  # 0.15 rows are as good as nothing
    ],
)
def test_what_differs_is_named(
    rows: tuple[int, ...], records: tuple[int, ...], differs: tuple[str, ...]
) -> None:
    found = with_try(load(statement(1, 2)), script(ran(rows, records)))
    figures = found.scripts[0].statements[0].tried
    assert figures is not None
    assert figures.differs == differs
    assert figures.wal_bytes == 50 * records[0]


@pytest.mark.parametrize(
    ("there", "here", "upkeep", "differs"),
    [
        (3.6, 5, 1, ()),  # its reads prune there, and here the statement itself
        (5.0, 5, 1, ()),
        (2.0, 5, 1, ("wal_records",)),
        (0.9, 0, 0, ()),  # a read that prunes
        (0.0, 1, 1, ()),
        (2.0, 1, 0, ("wal_records",)),
    ],
)
def test_who_prunes_a_page_is_no_difference(
    there: float, here: int, upkeep: int, differs: tuple[str, ...]
) -> None:
    found = with_try(load(statement(5, there)), script(ran((5,) * 100, (here,) * 100, upkeep)))
    figures = found.scripts[0].statements[0].tried
    assert figures is not None
    assert figures.differs == differs
    assert figures.upkeep_records == upkeep


def test_chance_is_no_difference() -> None:
    """Rows of one application, drawn again and again: a share of them that is rare is called different."""
    random = Random(7)

    def rows(n: int) -> tuple[int, ...]:
        return tuple(int(random.expovariate(1 / 20)) for _ in range(n))

    called = 0
    for _ in range(400):
        there, here = rows(30), rows(100)
        found = with_try(load(statement(sum(there) / 30, 0, calls=30.0)), script(ran(here, (0,) * 100)))
        figures = found.scripts[0].statements[0].tried
        assert figures is not None
        called += "rows" in figures.differs
    assert called <= 8


@pytest.mark.parametrize(
    "here",
    [
        (ran((1,) * 12, (5,) * 12), ran((1,) * 12, (6,) * 12), ran((0,) * 12, (1,) * 12)),
        (ran((1,) * 12, (5,) * 12), ran((1,) * 12, (7,) * 12, sql="DELETE FROM t WHERE n = $1")),
        (ran((1,) * 12, (5,) * 12), ran((1,) * 12, (7,) * 12, sql="UPDATE public.other SET n = 1")),
    ],
    ids=["one more", "another verb", "another table"],
)
def test_a_changed_script_is_compared_as_a_whole(here: tuple[TriedStatement, ...]) -> None:
    found = with_try(load(statement(1, 4), statement(1, 2)), script(*here))
    (each,) = found.scripts
    assert [item.tried for item in each.statements] == [None, None]
    assert each.tried is not None
    assert (each.tried.rows, each.tried.wal_records, each.tried.differs) == (2.0, 12.0, ("wal_records",))
    assert found.tried is not None
    assert found.tried.wal_records == 2.0


def test_a_script_that_fails_says_why() -> None:
    facts = {"error": "null value in column", "failed": 1}
    known = script(ran((1,), (4,)), ran((), ()), **facts)
    found = with_try(load(statement(1, 4), statement(1, 2)), known)
    (each,) = found.scripts
    assert each.error == "null value in column"
    assert each.tried is None
    assert each.statements[0].tried is not None
    assert each.statements[1].tried is None
    assert found.tried is not None
    assert found.tried.rows is None
    assert failures(known) == {("01.sql", 1): "null value in column"}
    assert failures(script(error="at COMMIT")) == {("01.sql", None): "at COMMIT"}


def test_a_script_that_the_file_does_not_name() -> None:
    found = with_try(load(statement(1, 4)), TriedLoad("17.10", ()))
    assert found.scripts[0].error == "the load's file does not name it"


def test_nothing_is_left_of_an_earlier_try() -> None:
    first = with_try(load(statement(1, 4)), script(ran((1,) * 9, (4,) * 9)))
    again = with_try(first, script(error="no such table"))
    assert again.scripts[0].statements[0].tried is None
    assert again.scripts[0].tried is None


@pytest.mark.parametrize(
    "query", ['UPDATE "t" SET n = $1', "update only public.t set n = $1", "UPDATE T SET n = $1"]
)
def test_a_table_is_the_same_however_it_is_written(query: str) -> None:
    application = replace(statement(1, 4), query=query)
    found = with_try(load(application), script(ran((1,) * 12, (4,) * 12)))
    assert found.scripts[0].statements[0].tried is not None


@pytest.mark.parametrize(("calls", "here"), [(1.0, 100), (3.0, 100), (1000.0, 9)])
def test_few_calls_tell_no_difference(calls: float, here: int) -> None:
    """A page that is split in the one call of the application, or a script that ran few times here."""
    found = with_try(load(statement(1, 7, calls=calls)), script(ran((1,) * here, (4,) * here)))
    figures = found.scripts[0].statements[0].tried
    assert figures is not None
    assert figures.differs == ()


def test_a_run_that_never_ended_is_no_run() -> None:
    known = script(ran((1,), (4,)), ran((), ()), note="no run of it ended within 10 s")
    (each,) = with_try(load(statement(1, 4), statement(1, 2)), known).scripts
    assert (each.tried, each.error, each.note) == (None, None, "no run of it ended within 10 s")
    (each,) = with_try(load(statement(1, 4)), script()).scripts
    assert (each.tried, each.note) == (None, "it has no statements")


def test_a_script_that_its_user_has_added() -> None:
    first = load(statement(1, 4))
    known = TriedScript("01.sql", (ran((1,) * 12, (4,) * 12),))
    added = TriedScript("mine.sql", (), error="no such table")
    found = with_try(first, TriedLoad("17.10", (known, added)))
    assert [(each.file, each.calls, each.error) for each in found.scripts] == [
        ("01.sql", 1000.0, None),
        ("mine.sql", 0.0, "no such table"),
    ]
    assert found.tried is not None
    assert found.tried.wal_records == 1.0
    assert [each.file for each in with_try(found, tried(first)).scripts] == ["01.sql"], "it is gone"


def test_statements_that_a_run_calls_several_times_are_compared_together() -> None:
    """A run has one order, and three items."""
    orders, items = statement(1, 3), replace(statement(1, 4, calls=3000.0), times=3)
    here = (ran((1,) * 100, (3,) * 100), *(ran((1,) * 100, (each,) * 100) for each in (5, 4, 3)))
    found = with_try(load(orders, items), script(*here))
    (each,) = found.scripts
    figures = each.statements[1].tried
    assert figures is not None
    assert (figures.calls, figures.wal_records, figures.differs) == (300, 4.0, ())
    assert each.tried is not None
    assert (each.tried.calls, each.tried.rows, each.tried.wal_records) == (100, 4.0, 15.0)
    assert each.per_run("wal_records") == 15.0
    assert found.tried is not None
    assert found.tried.wal_records == 1.0
    # With something else in the place of an item, all of the script is compared.
    other = ran((0,) * 100, (9,) * 100, sql="DELETE FROM t WHERE n = 1")
    (each,) = with_try(load(orders, items), script(*here[:3], other)).scripts
    assert [item.tried for item in each.statements] == [None, None]
    assert each.tried is not None
    assert each.tried.wal_records == 21.0

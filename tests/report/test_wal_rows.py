"""Tables of WAL as CSV: what a spreadsheet would run is text, and numbers are numbers."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from tests.golden.unpack import unpack
from walproof.report.blocks import Paragraph
from walproof.report.wal.rows import By, Row, commit_hours, csv_text, largest, rows
from walproof.report.wal.view import wal_view
from walproof.units import Lsn
from walproof.wal import RelationMap, WalStats, stats
from walproof.wal.relations import Relation
from walproof.wal.totals import Gap

PAYLOADS = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_name_is_no_formula(payload: str) -> None:
    text = csv_text([{"relation": payload, "records": 3}])
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row == {"relation": f"'{payload}", "records": "3"}


def test_numbers_and_other_names_stay_as_they_are() -> None:
    text = csv_text([{"relation": "shop.a=b, -c", "records": -3, "fork": None}])
    assert text == 'relation,records,fork\n"shop.a=b, -c",-3,\n'


@pytest.fixture(scope="module")
def wal(tmp_path_factory: pytest.TempPathFactory) -> WalStats:
    folder = tmp_path_factory.mktemp("wal")
    unpack(15, folder)
    return stats(folder)


def paragraphs(wal: WalStats, by: By = By.rmgr, names: RelationMap | None = None) -> str:
    blocks = [block for section in wal_view(wal, by, names).sections for block in section.blocks]
    return " ".join(block.text for block in blocks if isinstance(block, Paragraph))


@pytest.mark.parametrize(("seconds", "gaps", "told"), [(2.0, 0, True), (0.1, 0, False), (2.0, 1, False)])
def test_a_rate_needs_a_second_without_a_gap(wal: WalStats, seconds: float, gaps: int, told: bool) -> None:
    missing = (Gap(wal.start, Lsn(wal.start + (1 << 20))),) * gaps
    timed = replace(wal, first_commit_at=1e9, last_commit_at=1e9 + seconds, gaps=missing)
    assert ("commits/s" in paragraphs(timed)) == told
    assert (commit_hours(timed) is not None) == told


def named(wal: WalStats, *names: str) -> RelationMap:
    """The first relations of the WAL as indexes with these names, never scanned."""
    places = list(dict.fromkeys((part.tablespace, part.database, part.relation) for part in wal.relations))
    relations = tuple(
        Relation(*place, "shop", name, "index", "btree", None, 0)
        for place, name in zip(places, names, strict=False)
    )
    return RelationMap(wal.system_identifier, wal.version * 10000, 1e9, relations)


def test_indexes_of_the_system_are_not_offered(wal: WalStats) -> None:
    names = named(wal, "pg_catalog.pg_class_oid_index", "public.unread", "pg_toast.pg_toast_1_index")
    text = paragraphs(wal, By.index, names)
    assert "1 index was never scanned" in text
    assert "The largest: shop: public.unread." in text
    assert "never scanned" not in paragraphs(wal, By.index, named(wal, "pg_catalog.pg_class_oid_index"))


def test_wal_without_a_name_is_told(wal: WalStats) -> None:
    places = {(part.tablespace, part.database, part.relation) for part in wal.relations}
    every = [f"public.a{number}" for number in range(len(places))]
    text = paragraphs(wal, By.relation, named(wal, *every[:-1]))
    assert "1 row with " in text
    assert " has no name: of relations that were dropped" in text
    assert "no name" not in paragraphs(wal, By.relation, named(wal, *every))
    assert "no name" not in paragraphs(wal, By.relation)


def test_the_largest_minutes_are_chosen_and_stay_in_order(wal: WalStats) -> None:
    """The peak of a night is not among its first minutes."""
    night: list[Row] = [
        {"minute": f"2026-11-28T0{at}:00+00:00", "combined_bytes": size}
        for at, size in enumerate((5, 900, 7, 800, 0))
    ]
    assert [row["combined_bytes"] for row in largest(night, 2)] == [900, 800]
    assert largest(night, 5) == night
    by_record = rows(wal, By.record)
    assert largest(by_record, 3) == by_record[:3]

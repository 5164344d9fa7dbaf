"""A simulation over ranges against the one that reads all of the WAL: equal to the last digit, at every cut.

Without Ray: what tasks compute are plain functions. tests/hosts/test_cluster.py has it from the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.golden.unpack import VERSIONS, unpack
from tests.wal.edges import ELSEWHERE, lay_over_edges
from tests.wal.server import BINDIRS, Server
from walproof.errors import WalError
from walproof.hosts import whatif
from walproof.hosts.ranges import list_archive
from walproof.units import Lsn
from walproof.wal.places.opened import open_places
from walproof.wal.strip import strip
from walproof.wal.whatif import COMPRESSIONS, SimulationOrder, Target, WhatIf, simulate, simulate_here

SIZES = (2, 8, 64)
SEGMENT = 16 << 20
TARGETS = [
    Target(max_wal_size_mb=size, wal_compression=method, full_page_writes=images, hint_records=images)
    for size in SIZES
    for method in COMPRESSIONS
    for images in (True, False)
]
Order = TypeVar("Order")
Answer = TypeVar("Answer")


def here(
    work: Callable[[Order], Answer], orders: Iterable[Order], cores: int
) -> Iterator[tuple[Order, Answer]]:
    """Tasks, one after the other."""
    assert cores
    for order in orders:
        yield order, work(order)


@pytest.fixture(autouse=True)
def _on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatif, "in_order", here)


def without_time(raw: Any) -> Any:
    """But for the time that compressing took."""
    if raw is not None:
        for method in raw["sample"]["methods"].values():
            method["nanoseconds"] = 0
    return raw


def both(
    folder: Path, each: int, start: Lsn | None = None, end: Lsn | None = None, pages: int | None = None
) -> tuple[Any, Any]:
    """By ranges of so many segments, None where they do not do; and as a whole, or the error."""
    with open_places([folder]) as places:
        asked = SimulationOrder(
            start, end, None, False,
            {"targets": TARGETS, "times": (), "most_pages": pages, "samples": ((), (0, 0, 0)), "ordered": ()},
        )  # fmt: skip
        archive = list_archive(places, start, end, None)
        assert archive is not None
        ranges = without_time(whatif.by_ranges(archive, asked, 2, each=each))
        try:
            whole = without_time(simulate_here(places)(asked, None))
        except WalError as error:
            whole = error.message
        return ranges, whole


@pytest.mark.parametrize("major", VERSIONS)
def test_any_cutting_gives_the_answer_of_the_whole(tmp_path: Path, major: int) -> None:
    facts = unpack(major, tmp_path)
    start, end = Lsn.parse(facts["start"]), Lsn.parse(facts["end"])
    for each in (1, 2, 3):
        for first, last in ((None, None), (start, None), (None, end), (Lsn(start + 12345), Lsn(end - 9999))):
            ranges, whole = both(tmp_path, each, first, last)
            assert ranges == whole
            assert ranges["recorded"]["records"] > 0


def test_a_cut_within_every_kind_of_record_gives_the_answer_of_the_whole(tmp_path: Path) -> None:
    """But for a switch: a range that begins in the middle of one cannot know why nothing follows it."""
    for without in ("XLOG/SWITCH", ELSEWHERE):
        golden, laid = tmp_path / f"golden {without[5:]}", tmp_path / f"laid {without[5:]}"
        golden.mkdir()
        laid.mkdir()
        unpack(18, golden)
        lay_over_edges(golden, laid, without=without)
        for each in (1, 4):
            ranges, whole = both(laid, each)
            assert whole["recorded"]["records"] > 100
            assert ranges == (whole if without == "XLOG/SWITCH" else None)


def test_damage_and_gaps_are_no_answer_of_ranges(tmp_path: Path) -> None:
    """Or the very same answer, where the WAL is taken to end there."""
    unpack(18, tmp_path)
    segments = sorted(segment for segment in tmp_path.iterdir() if len(segment.name) == 24)
    refused = 0
    for segment in segments:
        data = segment.read_bytes()
        for place in (0, 8192, 300_000, 700_000, None):
            if place is None:
                segment.unlink()
            else:
                segment.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            for each in (1, 2):
                ranges, whole = both(tmp_path, each)
                assert ranges is None or ranges == whole, (segment.name, place, each)
                refused += ranges is None
        segment.write_bytes(data)
    assert refused > 4


def test_who_asks_gets_one_machine_s_answer_or_error(tmp_path: Path) -> None:
    unpack(17, tmp_path)
    told: list[str] = []
    on_ranges = whatif.simulate_on(2, told.append)

    def found() -> tuple[WhatIf | str, ...]:
        answers: list[WhatIf | str] = []
        for simulator in (simulate_here, on_ranges):
            try:
                answers.append(simulate(tmp_path, targets=TARGETS[:2], simulator=simulator))
            except WalError as error:
                answers.append(str(error))
        return tuple(answers)

    plain, ranges = found()
    assert isinstance(plain, WhatIf)
    assert isinstance(ranges, WhatIf)
    assert (ranges.outcomes, ranges.recorded, ranges.end) == (plain.outcomes, plain.recorded, plain.end)
    assert told == []
    sorted(segment for segment in tmp_path.iterdir() if len(segment.name) == 24)[1].unlink()
    plain, ranges = found()
    assert isinstance(plain, str)
    assert plain == ranges
    assert "this machine reads it" in told[0]


def test_a_stripped_archive_and_a_sample_of_pages(tmp_path: Path) -> None:
    """Where images are blank none is looked at; where pages are let go the same ones are."""
    whole, blank = tmp_path / "whole", tmp_path / "blank"
    whole.mkdir()
    unpack(16, whole)
    strip(whole, folder=blank)
    for folder in (whole, blank):
        for pages in (None, 300):
            ranges, plain = both(folder, 1, pages=pages)
            assert ranges == plain


@pytest.mark.live
def test_more_images_than_are_compressed(tmp_path: Path) -> None:
    """More WAL than is learned from before, and images of which most are passed over, fork by fork."""
    with Server(BINDIRS["18"], {"max_wal_size": "4GB", "wal_level": "replica"}) as server:
        with server.connect() as connection:
            start = server.insert_lsn()
            for table, rows in (("small", 3_000), ("large", 30_000), ("medium", 9_000)):
                connection.execute(
                    f"CREATE TABLE {table} WITH (fillfactor=50) AS "
                    f"SELECT i, repeat(md5(i::text), 8) t FROM generate_series(1, {rows}) i"
                )
                connection.execute(f"CREATE INDEX ON {table} (i)")
            for number in range(5):
                connection.execute("CHECKPOINT")
                for table in ("small", "large", "medium"):
                    connection.execute(f"UPDATE {table} SET t = md5(t) || t WHERE i % 4 = {number % 4}")
            connection.execute("SELECT pg_switch_wal()")
        for number in range(start // SEGMENT, server.insert_lsn() // SEGMENT):
            name = f"00000001{number // 256:08X}{number % 256:08X}"
            (tmp_path / name).write_bytes((server.wal / name).read_bytes())
    for each in (1, 3):
        ranges, whole = both(tmp_path, each)
        assert ranges == whole
    assert whole["end"] - whole["start"] > 64 << 20
    assert whole["recorded"]["images"] > 4 * whole["sample"]["count"] > 0

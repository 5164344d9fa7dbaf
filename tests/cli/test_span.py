"""``--since`` and ``--until``: what the words of an option mean, before anything is read."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from walproof.cli.span import AskedSpan, ask_span, unread_timelines
from walproof.errors import UnitError, WalError
from walproof.units import Lsn
from walproof.wal.segment import segment_start

NOON = datetime(2026, 11, 24, 12).timestamp()
MINUTE = 60.0


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOON)


@pytest.mark.parametrize(
    ("since", "until", "begins", "ends"),
    [
        ("11:30", "11:40", -30, -20),
        ("11:55", "12:05", -5, 5),
        ("23:50", "00:10", -12 * 60 - 10, -12 * 60 + 10),
        ("12:10", "12:05", -24 * 60 + 10, 5),
        ("2026-11-23 11:30", "11:40", -24 * 60 - 30, -24 * 60 - 20),
        ("2026-11-23 11:30", "2026-11-23 11:40", -24 * 60 - 30, -24 * 60 - 20),
        ("2h", "90min", -120, -90),
    ],
)
def test_a_time_of_day_is_the_last_one_and_after_another_the_next(
    since: str, until: str, begins: float, ends: float
) -> None:
    asked = ask_span(None, None, since, until)
    assert (asked.since_s, asked.until_s) == (NOON + begins * MINUTE, NOON + ends * MINUTE)


def test_locations_and_times_together() -> None:
    assert ask_span("0/10", None, None, None) == AskedSpan(Lsn(16), None, None, None)
    assert ask_span("0/10", None, None, "1h") == AskedSpan(Lsn(16), None, None, NOON - 3600)
    assert ask_span(None, None, None, None).find([], None, pytest.fail) == (None, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("0/10", None, "1h", None), "--start and --since exclude each other"),
        ((None, "0/10", None, "1h"), "--end and --until exclude each other"),
        ((None, None, "1h", "2h"), "--until 2026-11-24 10:00:00"),
        ((None, None, "0/3A000028", None), '"0/3A000028" is a location, not a time'),
        ((None, None, "yesterday", None), '"yesterday" is not a time'),
    ],
)
def test_what_contradicts_itself(words: tuple[str | None, ...], message: str) -> None:
    with pytest.raises((UnitError, WalError), match=message):
        ask_span(*words)


def test_wal_of_a_timeline_that_is_not_read_is_said(tmp_path: Path) -> None:
    def folder(name: str, *segments: str) -> str:
        (tmp_path / name).mkdir()
        for segment in segments:
            (tmp_path / name / segment).touch()
        return str(tmp_path / name)

    first = [f"0000000100000000000000{number:02X}" for number in range(1, 10)]
    second = [f"0000000200000000000000{number:02X}.gz" for number in range(5, 8)]
    said = unread_timelines([folder("both", *first, *second)])
    assert said is not None
    assert said == (
        "only WAL that leads to timeline 2 is read, and none that older timelines have after the next one "
        "began: --timeline 1 reads that"
    )
    third = [f"0000000300000000000000{number:02X}" for number in (7, 8)]
    both = unread_timelines(
        [folder("three", *first, *second[:2], third[0]), folder("more", *second, third[1])]
    )
    assert both is not None
    assert both.endswith("began: --timeline 1 reads that"), "timeline 2 ends where 3 begins"
    # A promotion after which the old primary archived no more, and one timeline alone.
    assert unread_timelines([folder("promoted", *first[:5], *second)]) is None
    assert unread_timelines([folder("one", *first), folder("none")]) is None
    asked = ask_span(None, None, None, None)
    warned: list[str] = []
    asked.find([str(tmp_path / "both")], None, warned.append)
    asked.find([str(tmp_path / "both")], 1, warned.append)
    assert warned == [said]


def test_a_history_without_wal_hides_what_follows_its_fork(tmp_path: Path) -> None:
    """A restored copy was promoted with the server's archive_command: its history is archived at once."""
    unpack(18, tmp_path)
    last = segment_start(max(file.name for file in tmp_path.iterdir() if len(file.name) == 24), 1 << 20)
    history = tmp_path / "00000002.history"

    def said(text: str) -> str | None:
        history.write_text(text)
        return unread_timelines([str(tmp_path)])

    assert said(f"1\t{last}\tno recovery target specified\n") == (
        "of timeline 2 there is 00000002.history and no segment: WAL is read up to where it began, and none "
        "that older timelines have after that: --timeline 1 reads that"
    )
    # The segment of the fork is read, and a history that is damaged leads nowhere.
    assert said(f"1\t{Lsn(last + 8192)}\tno recovery target specified\n") is None
    assert said("nonsense\n") is None

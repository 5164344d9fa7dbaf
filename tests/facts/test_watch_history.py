"""Histories of watched servers: what is kept, for how long, in how much room, and how it is read."""

from __future__ import annotations

import json
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from tests.watching import BEGAN, Server, clock, gone
from walproof.errors import StoreError
from walproof.facts.codec import from_json, to_json
from walproof.facts.watch import SaidConcern, StreamPhase, StreamState, WatchRecord
from walproof.facts.watch_history import open_history
from walproof.facts.watch_recorder import HistoryLimits, HistoryRecorder
from walproof.facts.watch_tables import guarded

DAY = 86400.0


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> float:
        return self.now


def record(second: float, session: int = 1, crash_s: float | None = 5.0, severity: int = 0) -> WatchRecord:
    look = replace(Server().look(0), seen_s=second, at=BEGAN + second)
    concerns = (SaidConcern("slot etl", severity, "Held.", None),) if severity else ()
    return WatchRecord(
        BEGAN + second, session, look, StreamState(StreamPhase.LIVE),
        None if crash_s is None else clock(crash_s), concerns=concerns,
    )  # fmt: skip


def outage(second: float) -> WatchRecord:
    return WatchRecord(BEGAN + second, 1, gone(BEGAN + second, second), StreamState(StreamPhase.BROKEN))


@contextmanager
def recorder(path: Path, limits: HistoryLimits | None = None, time: Time | None = None) -> Iterator[
    HistoryRecorder
]:  # fmt: skip
    time = time or Time()
    with HistoryRecorder(path, limits or HistoryLimits(), 2.0, "1.0", clock=time, monotonic=time) as found:
        yield found


def test_a_record_of_an_earlier_walproof_is_read() -> None:
    data = json.loads(to_json(record(0)))
    for name in ("walsenders", "promoted", "primaries"):
        del data[name]
    assert from_json(WatchRecord, json.dumps(data)) == record(0)


def test_what_was_added_is_read_again_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%41" / "w.sqlite"
    with recorder(path) as written:
        records = [record(0), outage(2), record(4, severity=2)]
        written.add([("db1", record) for record in records] + [("db2", record(1))])
        written.flush()
        assert written.problem is None
        with open_history(path) as history:
            assert history.looks("db1", BEGAN, BEGAN + 10) == tuple(records)
            assert history.looks("db1", BEGAN + 1, BEGAN + 3) == (records[1],)
            servers = history.servers()
            assert [(found.name, found.first_at, found.last_at, found.records) for found in servers] == [
                ("db1", BEGAN, BEGAN + 4, 3), ("db2", BEGAN + 1, BEGAN + 1, 1),
            ]  # fmt: skip
            assert [name for name, _ in history.records()] == ["db1", "db1", "db1", "db2"]
            assert history.every_s() == 2.0
    assert path.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [path.parent]


def test_a_session_has_a_number_of_its_own(tmp_path: Path) -> None:
    for expected in (1, 2):
        with recorder(tmp_path / "h") as written:
            assert written.session == expected


def test_of_each_stretch_the_worst_is_read(tmp_path: Path) -> None:
    with recorder(tmp_path / "h") as written:
        seconds = [record(second, crash_s=second % 10) for second in range(100)]
        seconds[42] = record(42, severity=1)
        seconds[77] = replace(outage(77), concerns=(SaidConcern("server", 2, "Gone.", None),))
        written.add([("db1", second) for second in seconds])
    with open_history(tmp_path / "h") as history:
        found = history.looks("db1", BEGAN, BEGAN + 100, at_most=10)
        assert [record.at - BEGAN for record in found] == [9, 19, 29, 39, 42, 59, 69, 77, 89, 99]
        assert len(history.looks("db1", BEGAN, BEGAN + 100, at_most=1000)) == 100


def test_a_month_is_thinned_and_what_is_older_goes(tmp_path: Path) -> None:
    time = Time()
    with recorder(tmp_path / "h", HistoryLimits(keep_s=10 * DAY), time) as written:
        for day in range(12):
            at = day * DAY
            several = [
                record(at + second, crash_s=60.0 if second == 30 else 5.0) for second in range(50, 650)
            ]
            several[100] = outage(at + 150)
            several[200] = record(at + 250, crash_s=99.0)
            time.now = BEGAN + at + 700
            written.add([("db1", record) for record in several])
            written.flush()
            assert written.problem is None
    with open_history(tmp_path / "h") as history:
        (server,) = history.servers()
        assert server.first_at >= BEGAN + 2 * DAY
        kept = history.looks("db1", BEGAN + 5 * DAY, BEGAN + 6 * DAY)
        # Three stretches of five minutes, of each the first, the worst, the first without an answer.
        assert 4 <= len(kept) <= 9
        assert any(record.look is None for record in kept)
        assert max(record.clock.warm.seconds for record in kept if record.clock) == 99.0
        newest = history.looks("db1", BEGAN + 11 * DAY, BEGAN + 12 * DAY)
        assert len(newest) == 600


def test_a_history_stays_within_its_size(tmp_path: Path) -> None:
    time = Time()
    path = tmp_path / "h"
    with recorder(path, HistoryLimits(bytes_most=1 << 20), time) as written:
        for minute in range(30):
            time.now = BEGAN + minute * 61
            written.add([("db1", record(minute * 61 + second / 10)) for second in range(100)])
            written.flush()
            assert written.problem is None
        with open_history(path) as history:
            (server,) = history.servers()
    assert path.stat().st_size <= 1 << 20
    assert server.records > 300
    assert server.last_at > BEGAN + 29 * 61
    assert server.first_at > BEGAN + 61


def test_a_full_disk_is_a_warning_and_what_was_seen_meanwhile_comes_later(tmp_path: Path) -> None:
    time = Time()
    path = tmp_path / "h"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with recorder(path, time=time) as written:
        written.add([("db1", record(0))])
        written.flush()
        try:
            # Python ignores SIGXFSZ, so that writes beyond fail as on a full disk.
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, before[1]))
            written.add([("db2", record(second)) for second in range(200)])
            written.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert written.problem
        time.now += 31
        written.add([("db2", record(200))])
        assert written.problem is None
    with open_history(path) as history:
        assert [(server.name, server.records) for server in history.servers()] == [("db1", 1), ("db2", 201)]


def test_a_clock_that_jumps_breaks_nothing(tmp_path: Path) -> None:
    time = Time()
    with recorder(tmp_path / "h", time=time) as written:
        for jump in (0.0, -7 * DAY, 365 * DAY, 0.0):
            time.now = BEGAN + jump
            written.add([("db1", record(jump))])
            written.flush()
    with open_history(tmp_path / "h") as history:
        assert [record.at - BEGAN for _, record in history.records()][-1] == 0.0


def _count(path: Path) -> int:
    with open_history(path) as history:
        return sum(server.records for server in history.servers())


def test_a_clock_that_is_set_ahead_for_a_while_removes_nothing(tmp_path: Path) -> None:
    time, steady, path = Time(), Time(), tmp_path / "h"
    with HistoryRecorder(path, HistoryLimits(), 2.0, "1.0", clock=time, monotonic=steady) as written:
        for minute, jump in enumerate((0.0, 365 * DAY, 365 * DAY, 0.0)):
            steady.now = BEGAN + 61 * minute
            time.now = steady.now + jump
            written.add([("db1", record(61 * minute + jump + second)) for second in range(50)])
            written.flush()
            assert _count(path) == 50 * (minute + 1)


def test_a_clock_that_was_behind_at_the_beginning_is_believed_after_an_hour(tmp_path: Path) -> None:
    """As where a service begins before the machine knows the time. Nothing would ever go by its age."""
    time, steady, path = Time(), Time(), tmp_path / "h"
    time.now = 0.0
    limits = HistoryLimits(keep_s=600.0)
    with HistoryRecorder(path, limits, 2.0, "1.0", clock=time, monotonic=steady) as written:
        written.add([("db1", record(second)) for second in range(50)])
        for passed_s, kept in ((0, 50), (1800, 50), (3660, 0)):
            time.now = steady.now = BEGAN + passed_s
            written.flush()
            assert _count(path) == kept
        # From here on it is the clock as before.
        written.add([("db1", record(3660))])
        for passed_s, kept in ((3721, 1), (4320, 0)):
            time.now = steady.now = BEGAN + passed_s
            written.flush()
            assert _count(path) == kept


def test_a_clock_that_is_ahead_at_the_beginning_has_an_hour_to_be_corrected(tmp_path: Path) -> None:
    time, steady, path = Time(), Time(), tmp_path / "h"
    with recorder(path) as written:
        written.add([("db1", record(second)) for second in range(50)])
    time.now += 365 * DAY
    with HistoryRecorder(path, HistoryLimits(), 2.0, "1.0", clock=time, monotonic=steady) as written:
        written.flush()
        assert _count(path) == 50
        for one in (time, steady):
            one.now += 3660
        written.flush()
        assert _count(path) == 0


def test_it_is_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    with recorder(tmp_path / "h") as written:
        written.add([("db1", record(0))])
    (tmp_path / "given").mkdir()
    copied = tmp_path / "given" / "h"
    copied.write_bytes((tmp_path / "h").read_bytes())
    copied.parent.chmod(0o500)
    try:
        with open_history(copied) as history:
            assert len(history.looks("db1", BEGAN, BEGAN)) == 1
    finally:
        copied.parent.chmod(0o700)


def test_files_that_are_no_history(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        open_history(tmp_path / "none")
    (tmp_path / "text").write_text("no database at all, " * 100)
    with pytest.raises(StoreError, match="cannot be read"):
        open_history(tmp_path / "text")
    with closing(sqlite3.connect(tmp_path / "other")) as other, other:
        other.execute("CREATE TABLE t (i int)")
    with pytest.raises(StoreError, match="is not a history"):
        open_history(tmp_path / "other")
    with pytest.raises(StoreError, match="is not a history"), recorder(tmp_path / "other"):
        pass
    with recorder(tmp_path / "h") as written:
        written.add([("db1", record(0))])
    with open_history(tmp_path / "h") as history:
        with pytest.raises(StoreError, match='no server "db9"') as refused:
            history.looks("db9", 0, 1)
        assert refused.value.detail == 'It has "db1".'
        with pytest.raises(StoreError, match="expected 1 or more"):
            history.looks("db1", 0, 1, at_most=0)
    with closing(sqlite3.connect(tmp_path / "h")) as broken, broken:
        broken.execute("UPDATE watch_record SET body = x'00'")
    with open_history(tmp_path / "h") as history, pytest.raises(StoreError, match="cannot be read"):
        list(history.records())


def test_an_error_without_words_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read") as caught, guarded(tmp_path / "h", "read"):
        raise SQLAlchemyError("")
    assert caught.value.detail == "SQLAlchemyError"

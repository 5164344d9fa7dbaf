"""WAL by cause: rates of a window, and when a relation began to write as it does."""

from __future__ import annotations

import pytest

from walproof.analysis.watch.causes import CauseWatch
from walproof.units import Lsn
from walproof.wal.stream import Changes, ClockState, RelationWal, StreamSnapshot
from walproof.wal.totals import WalTotals

PLACE = (1663, 5, 16400)
OTHER = (1663, 5, 16500)


def snapshot(written: int, others: int, changes: Changes) -> StreamSnapshot:
    """A stream in which one relation has written so many records of 100 bytes, and another one, too."""

    def relation(place: tuple[int, int, int], records: int, changes: Changes) -> RelationWal:
        return RelationWal(*place, Lsn(0), WalTotals(records, 100 * records, 0, 0), changes)

    total = WalTotals(written + others, 100 * (written + others), 0, 0)
    return StreamSnapshot(
        version=18, system_identifier=1, segment_size=1 << 24, timeline=1, received=Lsn(0), start=Lsn(0),
        end=Lsn(0), state=ClockState.NO_CHECKPOINT, clock=None, redo=None, next_redo=None,
        checkpoint=None, all=total, by_rmgr={"Heap": total},
        by_relation={PLACE: relation(PLACE, written, changes), OTHER: relation(OTHER, others, Changes())},
        other_relations=WalTotals(), no_relation=WalTotals(), commits=0, aborts=0, gaps=(), memory_bytes=0,
    )  # fmt: skip


def test_the_beginning_of_a_storm_is_told_while_it_is_in_the_window() -> None:
    watch = CauseWatch()
    for second in range(91):
        storm = max(0, second - 32) * 1000
        changes = Changes(updates=storm, update_bytes=100 * storm, update_runs=storm // 500)
        watch.see(float(second), snapshot(storm, second * 100, changes))
        causes = watch.causes({})
        if causes is None:
            continue
        found = next((cause for cause in causes.top if cause.place == PLACE), None)
        other = next(cause for cause in causes.top if cause.place == OTHER)
        assert other.begun_s is None
        if second == 50:
            assert found is not None
            assert found.begun_s == pytest.approx(18, abs=5)
            assert found.update_share == pytest.approx(1.0)
            assert found.updates_per_run == pytest.approx(500, rel=0.05)


def test_a_transaction_that_began_before_the_window_still_updates_many_rows() -> None:
    watch = CauseWatch()
    for second in (0.0, 30.0):
        rows = int(second) * 100
        watch.see(second, snapshot(1 + rows, 0, Changes(1 + rows, 100 * (1 + rows), 1)))
    causes = watch.causes({})
    assert causes is not None
    assert causes.top[0].updates_per_run == 3000


def test_what_happens_now_is_seen_behind_a_larger_burst() -> None:
    """The other relation writes a lot for 20 s; then this one writes less, for longer."""
    watch = CauseWatch()
    shares: dict[int, tuple[float, float]] = {}
    for second in range(71):
        mine = max(0, second - 40) * 1000
        watch.see(float(second), snapshot(mine, min(second, 20) * 20_000, Changes()))
        if (causes := watch.causes({})) is None:
            continue
        whole, recent = (
            next((cause.share for cause in top if cause.place == PLACE), 0.0)
            for top in (causes.top, causes.recent)
        )
        shares[second] = whole, recent
        assert causes.recent_s <= 20.0
    assert shares[40] == (0.0, 0.0)
    assert shares[60][0] == pytest.approx(20 / 420, abs=0.01)
    assert all(recent == 1.0 for second, (_, recent) in shares.items() if second > 41)


def test_images_of_new_keys_are_told_from_those_of_other_work_on_an_index() -> None:
    watch = CauseWatch()
    for second in (0.0, 30.0):
        keys = int(second) * 10
        made = Changes(keys=keys, key_images=keys // 2, key_image_bytes=30 * keys)
        watch.see(second, snapshot(1 + 10 * keys, 0, made))
    causes = watch.causes({})
    assert causes is not None
    assert causes.top[0].images_per_key == pytest.approx(0.5)
    assert causes.top[0].key_image_share == pytest.approx(0.03)


def test_a_stream_that_begins_again_counts_nothing_twice() -> None:
    """It reads once more from the last redo point on, what the stream before it has told."""
    watch = CauseWatch()
    told = []
    for second, records, is_live in (
        (0.0, 1000, False), (1.0, 5000, True), (2.0, 5600, True), (3.0, 5700, True),
        # Another stream.
        (4.0, 2000, False), (5.0, 5000, False), (6.0, 6000, True), (7.0, 6100, True),
    ):  # fmt: skip
        if second == 4.0:
            watch.forget()
        watch.see(second, snapshot(0, records, Changes()), is_live=is_live)
        causes = watch.causes({})
        told.append(None if causes is None else causes.totals["Heap"].records)
    assert told[3] == 600 + 100
    assert told[-1] == 600 + 100 + 100

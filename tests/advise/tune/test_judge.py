"""Which candidates a limit rules out, predicted from golden WAL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.advise.tune.recorded import NOTHING, judge
from walproof.advise.tune.judge import RecordedJudge
from walproof.facts.tuning import DEFAULT, Candidate, Limit
from walproof.settings.durability import DurabilityClass
from walproof.wal import stats
from walproof.wal.whatif import simulate

GB = 1 << 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recording")


@pytest.fixture(scope="module")
def plain(folder: Path) -> RecordedJudge:
    return judge(folder)


def _limits(found: RecordedJudge, **settings: str) -> set[Limit]:
    return {refusal.limit for refusal in found(Candidate.of(settings))[1]}


def test_the_default_is_as_recorded_and_breaks_nothing(plain: RecordedJudge) -> None:
    prediction, broken = plain(DEFAULT)
    assert broken == ()
    assert prediction.wal_bytes_per_txn == pytest.approx(8000.0)
    assert prediction.pg_wal_bytes == GB
    assert prediction.recovery_low_s is not None
    assert prediction.recovery_s is not None
    assert prediction.recovery_high_s is not None
    assert 0 < prediction.recovery_low_s < prediction.recovery_s < prediction.recovery_high_s


def test_more_room_for_wal_is_a_larger_pg_wal_and_a_longer_recovery(plain: RecordedJudge) -> None:
    small, large = (
        plain(Candidate.of({"max_wal_size": size, "min_wal_size": "2MB"}))[0] for size in ("2MB", "8GB")
    )
    assert small.pg_wal_bytes is not None
    assert large.pg_wal_bytes == 8 * GB
    assert small.pg_wal_bytes < large.pg_wal_bytes
    assert small.recovery_s is not None
    assert large.recovery_s is not None
    assert small.recovery_s <= large.recovery_s * 1.01


def test_wal_of_a_run_is_that_of_the_recorded_stretch(plain: RecordedJudge, folder: Path) -> None:
    """As the decoder's simulation of this very WAL after a checkpoint has it, also where rates are those of
    whole cycles: two and a half are no two."""
    start = stats(folder).start
    for settings in ({"max_wal_size": "2MB"}, {"max_wal_size": "4MB", "wal_compression": "off"}):
        target = plain._target({**plain.kept, **settings})
        alone, recorded = simulate(folder, targets=[target, plain._recorded_target], start=start).outcomes
        ratio = plain.recorded_ratio(Candidate.of(settings))
        assert ratio == pytest.approx(alone.wal_bytes / recorded.wal_bytes)
    assert plain.recorded_ratio(DEFAULT) == pytest.approx(1.0)


def test_compression_is_seen_in_wal(plain: RecordedJudge) -> None:
    """It was recorded with pglz; the same method changes nothing."""
    same, without = (
        plain(Candidate.of({"wal_compression": method}))[0].wal_bytes_per_txn for method in ("pglz", "off")
    )
    assert same == pytest.approx(8000.0)
    assert same is not None
    assert without is not None
    assert without > same


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"synchronous_commit": "off"}, Limit.MAY_LOSE),
        ({"fsync": "off"}, Limit.MAY_LOSE),
        ({"shared_buffers": "8192MB"}, Limit.MEMORY),
        ({"wal_compression": "lzma"}, Limit.REFUSED),
        ({"wal_level": "minimal", "max_wal_senders": "4"}, Limit.REFUSED),
        ({"no_such_setting": "1"}, Limit.REFUSED),
    ],
)
def test_each_limit_rules_out_what_breaks_it(
    plain: RecordedJudge, settings: dict[str, str], limit: Limit
) -> None:
    assert _limits(plain, **settings) == {limit}


def test_limits_on_disk_and_time_away(folder: Path) -> None:
    tight = judge(folder, replace(NOTHING, wal_disk_bytes=2 * GB, recovery_target_s=0.001))
    assert _limits(tight, max_wal_size="8GB") == {Limit.WAL_DISK, Limit.RECOVERY_TARGET}
    assert _limits(tight, max_wal_size="128MB") == {Limit.RECOVERY_TARGET}
    loose = judge(folder, replace(NOTHING, may_lose=DurabilityClass.LAST_COMMITS, recovery_target_s=3600.0))
    assert _limits(loose, synchronous_commit="off", max_wal_size="8GB") == set()


def test_the_upper_end_counts(folder: Path, plain: RecordedJudge) -> None:
    prediction, _ = plain(DEFAULT)
    assert prediction.recovery_s is not None
    assert prediction.recovery_high_s is not None
    between = (prediction.recovery_s + prediction.recovery_high_s) / 2
    assert _limits(judge(folder, replace(NOTHING, recovery_target_s=between))) == {Limit.RECOVERY_TARGET}


def test_a_faster_load_has_more_to_replay(folder: Path, plain: RecordedJudge) -> None:
    """Where time triggers checkpoints, not size."""
    fast = judge(folder, speed=3.0)
    far = Candidate.of({"max_wal_size": "8GB"})
    slow_s, fast_s = plain(far)[0].recovery_s, fast(far)[0].recovery_s
    assert slow_s is not None
    assert fast_s is not None
    assert slow_s <= fast_s


def test_what_else_keeps_wal_needs_room_beside_it(folder: Path) -> None:
    room = replace(NOTHING, wal_disk_bytes=12 * GB)
    kept = {"wal_keep_size": "6GB"}
    for keep, is_archiving, is_broken in ((None, False, False), (kept, False, True), (None, True, True)):
        found = judge(folder, room, keep=keep, is_archiving=is_archiving)
        assert (Limit.WAL_DISK in _limits(found, max_wal_size="8GB")) is is_broken


def test_the_notes_say_for_which_cache_the_times_away_hold(folder: Path) -> None:
    found = judge(folder)
    found(DEFAULT)
    assert any("for a warm cache" in note for note in found.notes)

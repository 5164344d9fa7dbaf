"""Costs that are known are found again, and predictions say what their formula says."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from walproof.analysis.recovery_costs import SHIPPED, TERMS, Coefficients, Disk, is_limited, places, predict
from walproof.analysis.recovery_fit import fit, repeat_difference, scale_to_crash
from walproof.errors import AnalysisError
from walproof.facts.calibration import Calibration, CheckpointRun, ColdReplay, Machine, PhaseReplay
from walproof.facts.recovery_log import RecoveryCheckpoint, RecoveryTimes
from walproof.units import Lsn
from walproof.wal.recovery import ImageWork, PoolWork, RecoveryWork

MACHINE = Machine("a processor", 4, "15.18", 4096, huge_pages=False, data_checksums=False)
TRUE_US = {
    "records": 0.4, "bytes": 800.0, "recent_misses": 0.9, "far_misses": 0.1, "distant_misses": 0.7,
    "pglz": 5.0, "lz4": 2.0, "zstd": 25.0, "frames": 0.8, "reads": 5.0, "far_reads": 1.5, "evictions": 0.9,
    "far_evictions": 2.5, "unforeseen": 0.2, "gin": 0.3, "prefetches": 0.6, "compactions": 1.2,
    "extensions": 6.5, "changes": 0.15,
    "first_writes": 1.9,
}  # fmt: skip
BUFFERS = 1000


def phase(number: int, buffers: int, source: random.Random, noise: float) -> PhaseReplay:
    """A phase of one strong part, each in turn, and a little of each other, and what it truly costs."""
    quantities = {term.quantities[0][0]: source.uniform(0, 2e4) for term in TERMS}
    quantities["record_bytes"] = source.uniform(1e6, 2e7)
    strong = TERMS[number % len(TERMS)].quantities[0][0]
    quantities[strong] *= 20
    cost_us = sum(
        quantities[quantity] * factor * TRUE_US[term.name]
        for term in TERMS
        for quantity, factor in term.quantities
    )
    return PhaseReplay(
        f"phase {number}", buffers, True, cost_us / 1e6 * source.uniform(1, 1 + noise), quantities
    )


def calibration(noise: float) -> Calibration:
    source = random.Random(7)
    return Calibration(
        machine=MACHINE,
        made_at=0.0,
        phases=tuple(phase(n, buffers, source, noise) for n in range(200) for buffers in (8, 64)),
        cold=(
            # Each page is asked for by itself, nothing is read, and the kernel reads 128 kB ahead in order.
            *(ColdReplay(f"far {n}", 64, True, 7.5, 2.0, 5e9, 200_000) for n in range(20)),
            ColdReplay("bytes", 64, True, 3.5, 2.0, 5e9, 0),
            ColdReplay("near", 64, False, 3.55, 2.0, 5e9, 2500),
        ),
        checkpoints=tuple(
            CheckpointRun(
                f"phase {n} {spilled}",
                64,
                n,
                n,
                spilled,
                runs,
                is_cold,
                segments,
                ((6.0 + 4.0 * is_cold) * n + (3.0 + 2.5 * is_cold) * spilled + 10.0 * runs) / 1e6,
                700.0 * segments / 1e6 + (0.9 if segments == 0 else 0.0),
            )
            # What a checkpoint does besides counts where it had segments of its own.
            for n, spilled, runs, is_cold, segments in (
                (10000, 0, 1, False, 10),
                (20000, 0, 9000, False, 0),
                (8000, 30000, 300, False, 20),
                (8000, 5000, 7000, False, 0),
                (30000, 0, 1, True, 40),
                (8000, 30000, 300, True, 0),
            )
        ),
        read_iops=5000.0,
        read_latency_us=200.0,
        read_ahead_kb=128,
        fresh_touch_us=12.0,
        touch_us=2.0,
    )


def test_known_costs_are_found_again() -> None:
    found = fit(calibration(noise=0.0))
    for name, expected in TRUE_US.items():
        assert found.cpu_us[name] == pytest.approx(expected, rel=0.1), name
    assert found.cold_us["requests"] == pytest.approx(20.0, rel=0.05)
    assert found.cold_us["wal"] == pytest.approx(300.0, rel=0.05)
    assert found.checkpoint_us["resident"] == pytest.approx(6.0, rel=0.1)
    assert found.checkpoint_us["spilled"] == pytest.approx(3.0, rel=0.1)
    assert found.checkpoint_us["runs"] == pytest.approx(10.0, rel=0.1)
    assert found.checkpoint_us["cold_resident"] == pytest.approx(4.0, rel=0.1)
    assert found.checkpoint_us["cold_spilled"] == pytest.approx(2.5, rel=0.1)
    assert found.checkpoint_us["segments"] == pytest.approx(700.0)
    assert found.host_us == pytest.approx(10.0)
    assert found.phase_error is not None
    assert found.phase_error < 0.01


def test_costs_are_never_negative_and_noise_does_not_blow_them_up() -> None:
    found = fit(calibration(noise=0.3))
    assert all(cost >= 0 for cost in found.cpu_us.values())
    assert found.cpu_us["records"] == pytest.approx(0.4 * 1.15, rel=0.4)
    assert found.phase_error is not None
    assert found.phase_error < 0.2


def test_of_repeats_the_median_counts() -> None:
    quiet = calibration(noise=0.0)
    slower, faster = (
        tuple(replace(phase, cpu_s=factor * phase.cpu_s) for phase in quiet.phases) for factor in (9.0, 0.9)
    )
    found = fit(replace(quiet, phases=slower + quiet.phases + faster))
    assert found.cpu_us == pytest.approx(fit(quiet).cpu_us)


def test_what_no_phase_shows_stays_as_shipped() -> None:
    without = tuple(
        replace(phase, work={**phase.work, "images_zstd": 0.0}) for phase in calibration(0.0).phases
    )
    shipped = next(term.shipped_us for term in TERMS if term.name == "zstd")
    assert fit(replace(calibration(0.0), phases=without)).cpu_us["zstd"] == pytest.approx(shipped)


def test_repeats_tell_whether_the_machine_was_quiet() -> None:
    calibrated = calibration(0.0)
    found = fit(calibrated)
    assert repeat_difference(calibrated, found) is None, "nothing was repeated"
    slower = tuple(replace(phase, cpu_s=phase.cpu_s * 1.3) for phase in calibrated.phases)
    assert repeat_difference(replace(calibrated, phases=calibrated.phases + slower), found) == pytest.approx(
        0.3
    )
    free = replace(found, cpu_us=dict.fromkeys(found.cpu_us, 0.0))
    assert repeat_difference(calibrated, free) is None, "nothing is expected to take time"


def test_what_the_prefetcher_asks_for_is_no_difference_of_repeats() -> None:
    calibrated = calibration(0.0)
    without = tuple(
        replace(
            phase,
            prefetch=False,
            cpu_s=phase.cpu_s - phase.work["prefetches"] * TRUE_US["prefetches"] / 1e6,
            work={**phase.work, "prefetches": 0.0},
        )
        for phase in calibrated.phases
    )
    both = replace(calibrated, phases=calibrated.phases + without)
    assert repeat_difference(both, fit(both)) == pytest.approx(0.0, abs=0.01)


def test_too_few_phases_are_refused() -> None:
    few = replace(calibration(0.0), phases=calibration(0.0).phases[:6])
    with pytest.raises(AnalysisError, match="too few phases"):
        fit(few)


def test_repeats_with_loads_of_their_own_give_the_middle_one() -> None:
    first = calibration(0.0)
    others = [
        replace(phase, cpu_s=phase.cpu_s * share, work={name: n * share for name, n in phase.work.items()})
        for share in (0.5, 1.7)
        for phase in first.phases
    ]
    found = fit(replace(first, phases=(*others, *first.phases)))
    assert found.cpu_us == pytest.approx(fit(first).cpu_us)


def test_checkpoints_of_one_place_count_once_however_many_there_are() -> None:
    one = calibration(0.0)
    first = one.checkpoints[0]
    slower = tuple(replace(first, pages_s=first.pages_s * share) for share in (1.0, 0.2, 5.0, 1.0))
    found = fit(replace(one, checkpoints=(*one.checkpoints, *slower)))
    assert found.checkpoint_us == pytest.approx(fit(one).checkpoint_us)


def work(**changes: int) -> RecoveryWork:
    pool = PoolWork(
        misses=900, reads=500, far_reads=400, frames=600, evictions=100, far_evictions=80, first_writes=60,
        prefetches=450, disk_reads=700, resident=600,
    )  # fmt: skip
    off = replace(pool, prefetches=0, disk_reads=300)
    return RecoveryWork(
        start=Lsn(0), end=Lsn(50_000_000), segment_size=1 << 24, records=100_000,
        record_bytes=49_000_000, unforeseen=9000,
        gin_records=30, compactions=50, extensions=20, references=120_000,
        images={"off": ImageWork(3000, 20_000_000), "pglz": ImageWork(0, 0), "lz4": ImageWork(10, 100),
                "zstd": ImageWork(0, 0)},
        restored=3010, initialised=100, done=0, pages=660, dirty=650, runs=20,
        relations_dropped=0, truncations=0, recent_misses=5000, far_misses=2000,
        distant_misses=500, disk_requests=240,
        pools={BUFFERS: replace(pool, **changes)}, pools_off={BUFFERS: off},
    )  # fmt: skip


ONE = Coefficients(
    "calibrated",
    {term.name: 1.0 for term in TERMS},
    {"requests": 10.0, "wal": 100.0},
    {"resident": 10.0, "spilled": 2.0, "runs": 5.0, "cold_resident": 1.0, "cold_spilled": 0.5,
     "segments": 1000.0},
)  # fmt: skip


def test_a_disk_limits_the_part_of_the_way_that_reads() -> None:
    whole, free = work(), {term.name: 0.0 for term in TERMS}
    costs = replace(ONE, cpu_us={**free, "records": 10.0}, cold_us={"requests": 0.0, "wal": 0.0})
    assert predict(whole, BUFFERS, costs, Disk(iops=100)).cold.redo_s == pytest.approx(7.0)
    # All is read before the first record is applied: then nothing of it is done meanwhile.
    first = replace(whole, records=0)
    found = predict(whole, BUFFERS, costs, Disk(iops=100), [first])
    assert found.cold.redo_s == pytest.approx(7.0 + 1.0)
    assert found.cold.cpu_s == pytest.approx(1.0)
    assert found.cold.disk_s == pytest.approx(7.0)
    # What is dropped on the second half is found there to have been no read.
    more = replace(first, pools={BUFFERS: replace(whole.pools[BUFFERS], disk_reads=900)})
    assert predict(whole, BUFFERS, costs, Disk(iops=100), [more]) == found


def test_the_way_is_looked_at_where_it_matters() -> None:
    assert not is_limited(predict(work(), BUFFERS, ONE))
    assert not is_limited(predict(work(), BUFFERS, ONE, Disk(iops=1e6)))
    assert is_limited(predict(work(), BUFFERS, ONE, Disk(iops=100)))
    found = places(work())
    assert len(found) == 7
    assert list(found) == sorted(set(found))
    assert work().start < found[0] < found[-1] < work().end


def test_memory_that_the_host_has_to_give_back_comes_on_top() -> None:
    assert predict(work(), BUFFERS, SHIPPED).host_s is None, "nobody measured it"
    assert predict(work(), BUFFERS, SHIPPED).cold_host_s is None
    found = predict(work(), BUFFERS, replace(ONE, host_us=15.0))
    assert found.host_s == pytest.approx(600 * 15e-6)
    assert found.cold_host_s == pytest.approx((600 + 49_000_000 / 8192 + 700) * 15e-6)
    assert found.warm_s == predict(work(), BUFFERS, ONE).warm_s


def test_a_prediction_is_the_sum_of_its_parts() -> None:
    found = predict(work(), BUFFERS, ONE)
    counts = (
        100_000, 49, 9000, 116_990, 30, 50, 20, 60, 5000, 2000, 500, 10, 600, 500, 400, 100, 80, 450,
    )  # fmt: skip
    assert found.warm_s == pytest.approx(sum(counts) / 1e6)
    assert sum(found.terms_s.values()) == pytest.approx(found.warm_s)
    assert found.dominating.name == "changes"
    # One of a kind is most, but three that belong together are more.
    prices = dict.fromkeys(ONE.cpu_us, 0.0) | {
        "records": 0.1, "evictions": 50.0, "far_evictions": 50.0, "first_writes": 50.0
    }  # fmt: skip
    together = predict(work(), BUFFERS, replace(ONE, cpu_us=prices))
    assert together.dominating.name == "evictions"
    assert together.part_s(together.dominating) == pytest.approx((100 + 80 + 60) * 50 / 1e6)
    assert found.checkpoint_s == pytest.approx((6000 + 100 + 100 + 2 * 1000) / 1e6)
    assert found.cold_checkpoint_s == pytest.approx(found.checkpoint_s + (600 + 0.5 * 50) / 1e6)
    assert found.cold_total_s() == pytest.approx(
        found.total_s - found.warm_s - found.checkpoint_s + found.cold.redo_s + found.cold_checkpoint_s
    )
    assert found.cold.bytes == 49_000_000 + 700 * 8192
    assert found.cold.redo_s == pytest.approx(found.warm_s + (7000 + 4900) / 1e6)
    low, high = found.band(1.0)
    cold_low, cold_high = found.band(1.0, is_cold=True)
    assert cold_low < low < 1.0 < high < cold_high


def test_a_slow_disk_limits_both_ways_of_reading() -> None:
    found = predict(work(), BUFFERS, ONE, Disk(iops=100, read_latency_us=20_000))
    assert found.cold.redo_s == pytest.approx(7.0), "700 pages, wanted or not, 100 a second"
    assert found.cold_off.requests == 240, "of 300 pages, some of which the kernel reads together"
    assert found.cold_off.redo_s == pytest.approx(found.cold_off.cpu_s + 240 * 0.02)


def test_without_a_prefetcher_each_read_is_waited_for() -> None:
    found = predict(work(prefetches=0, disk_reads=300), BUFFERS, ONE, Disk(read_latency_us=1000))
    assert found.cold.redo_s == pytest.approx(found.cold_off.redo_s)


def times(cpu_s: float | None, checkpoint_s: float = 0.2) -> RecoveryTimes:
    half = None if cpu_s is None else cpu_s / 2
    checkpoint = RecoveryCheckpoint(600, 2, 0.1, 0.1, checkpoint_s)
    return RecoveryTimes(Lsn(0), Lsn(1), cpu_s, half, half, checkpoint, None, None)


def test_ones_own_crash_scales_the_shipped_costs() -> None:
    found = scale_to_crash(work(), BUFFERS, times(2.0))
    assert predict(work(), BUFFERS, found).warm_s == pytest.approx(2.0)
    assert predict(work(), BUFFERS, found).checkpoint_s == pytest.approx(0.2)
    assert SHIPPED.band > found.band > fit(calibration(0.0)).band, "the surer the narrower"


@pytest.mark.parametrize("cpu_s", [None, 0.02])
def test_a_crash_that_says_too_little_is_refused(cpu_s: float | None) -> None:
    with pytest.raises(AnalysisError, match="too short to learn from"):
        scale_to_crash(work(), BUFFERS, times(cpu_s))

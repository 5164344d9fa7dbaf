"""Forecasts of golden WAL and of stored measurements, without the command line."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.analysis.calibrations import HERE, calibrated
from tests.golden.unpack import unpack
from walproof.analysis.forecast import (
    DEFAULT_BUFFERS,
    Costs,
    OwnCrash,
    calibrated_costs,
    choose_costs,
    differences,
    forecast,
    forecast_distances,
    of_minors,
)
from walproof.analysis.recovery_costs import SHIPPED, TERMS, Disk, places, predict
from walproof.analysis.recovery_curve import MeanImage
from walproof.analysis.whatif import Question, study
from walproof.errors import AnalysisError, WalError
from walproof.facts.recovery_log import RecoveryTimes
from walproof.units import Lsn
from walproof.wal import records, stats
from walproof.wal.recording import Position, Recording, write_recording
from walproof.wal.recovery import analyse, find_redo
from walproof.wal.whatif import identify, simulate
from walproof.wal.whatif_target import target_of

VERSION = 15


@pytest.fixture(scope="module")
def wal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wal")
    unpack(VERSION, folder)
    return folder


@pytest.fixture(scope="module")
def start(wal: Path) -> Lsn:
    """Far from the end, so that there is much to do."""
    return stats(wal).start


@pytest.fixture(scope="module")
def bare(wal: Path) -> Lsn:
    """After the first touches of many pages: these have no images from there on."""
    return next(islice(records(wal), 1500, None)).lsn


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """The same WAL, with the settings of its server beside."""
    unpack(VERSION, tmp_path)
    wal = stats(tmp_path)
    began, ended = Position(1.7e9, wal.start), Position(1.7e9 + 60, wal.end)
    facts = Recording(
        wal.system_identifier, VERSION * 10000, wal.timeline, wal.segment_size, {"shared_buffers": "2MB"},
        began, ended, (began, ended), "time",
    )  # fmt: skip
    write_recording(tmp_path, facts)
    return tmp_path


def times(begun: Lsn, done: Lsn, cpu_s: float) -> RecoveryTimes:
    return RecoveryTimes(begun, done, cpu_s, cpu_s, 0.0, None, None, None)


def test_it_is_the_work_times_the_shipped_costs(wal: Path) -> None:
    found = forecast(wal, buffers=[64, 2048])
    work = analyse(wal, start=find_redo(wal).redo, buffers=[64, 2048]).last
    assert found.analysis.last.wal_bytes == work.wal_bytes
    assert [prediction.buffers for prediction in found.predictions] == [64, 2048]
    for prediction in found.predictions:
        assert prediction.warm_s == pytest.approx(
            predict(found.analysis.last, prediction.buffers, SHIPPED).warm_s
        )
    assert found.coefficients is SHIPPED
    assert found.notes == Costs().notes


def test_without_settings_128_mb_are_taken_and_that_is_said(wal: Path) -> None:
    found = forecast(wal)
    assert [prediction.buffers for prediction in found.predictions] == [DEFAULT_BUFFERS]
    assert "shared_buffers is taken to be 128 MB" in found.notes[0]


def test_a_recording_tells_shared_buffers(recording: Path) -> None:
    found = forecast(recording)
    assert [prediction.buffers for prediction in found.predictions] == [256]
    assert found.notes[0] == "shared_buffers = 2MB is the recorded server's."


def test_what_the_crashed_server_had_written_is_passed_over(wal: Path, bare: Lsn) -> None:
    found = forecast(wal, start=bare, buffers=[512], crashed=16)
    assert found.analysis.last.done == analyse(wal, start=bare, buffers=[512], crashed=16).last.done > 0
    assert "shared_buffers = 128 kB had written before it crashed" in found.notes[-1]
    assert forecast(wal, start=bare, buffers=[512]).analysis.last.done == 0


def test_a_distance_ends_the_wal(wal: Path, start: Lsn, bare: Lsn) -> None:
    found = forecast(wal, start=start, distance=2 << 20)
    assert 1 << 20 < found.analysis.last.wal_bytes <= 2 << 20
    # What is written after the crash cannot be newer than records before it.
    near = forecast(wal, start=bare, distance=64 << 10, buffers=[512], crashed=16).analysis.last
    marked = analyse(wal, start=bare, marks=[Lsn(bare + (64 << 10))], buffers=[512], crashed=16).steps[0]
    ended = analyse(wal, start=bare, end=near.end, buffers=[512], crashed=16).last
    assert near.done == ended.done < marked.done
    with pytest.raises(WalError, match="shorter than the distance: 500 MB") as caught:
        forecast(wal, start=start, distance=500 << 20)
    assert "--distance=" in str(caught.value.hint)


def test_where_the_disk_limits_the_way_is_looked_at(wal: Path, start: Lsn) -> None:
    disk = Disk(iops=50.0, read_latency_us=5000.0)
    found = forecast(wal, start=start, buffers=[512], costs=Costs(disk=disk))
    whole = analyse(wal, start=start, buffers=[512], crashed=512).last
    way = analyse(wal, start=start, buffers=[512], crashed=512, marks=places(whole)).steps[:-1]
    (prediction,) = found.predictions
    assert prediction.cold == predict(whole, 512, SHIPPED, disk, way).cold
    assert prediction.cold.redo_s > prediction.warm_s
    assert found.disk == disk


def test_the_first_calibration_that_fits_is_used() -> None:
    present, newer = calibrated(), calibrated(version="17.2")
    costs = choose_costs([newer, present], VERSION, HERE)
    assert costs == calibrated_costs(present)
    assert costs.coefficients.source == "calibrated"
    assert costs.disk == Disk(4000.0, 250.0, 256)
    (note,) = costs.notes
    assert note.startswith("Costs were calibrated on 2023-11-14 22:13 UTC: some processor, 4 cores, Post")
    for term in TERMS:
        assert costs.coefficients.cpu_us[term.name] == pytest.approx(2 * term.shipped_us, rel=0.1)


def test_where_none_fits_the_shipped_costs_are_used_and_it_is_said_why() -> None:
    assert choose_costs([], VERSION, HERE) == Costs()
    other = calibrated(HERE._replace(cpu="another processor"), "17.2")
    assert differences(other, VERSION, HERE) == (
        "cpu: calibrated another processor, here some processor",
        "version: calibrated 17.2, recorded 15",
    )
    costs = choose_costs([other, calibrated(version="18.0")], VERSION, HERE)
    assert (costs.coefficients, costs.disk) == (SHIPPED, Disk())
    assert "another processor" in costs.notes[-1], "the newest one is named"
    assert "18.0" not in costs.notes[-1]


def test_a_calibration_that_saw_too_little_is_passed_over() -> None:
    poor = replace(calibrated(), phases=calibrated().phases[:3])
    assert choose_costs([poor, calibrated()], VERSION, HERE) == calibrated_costs(calibrated())
    costs = choose_costs([poor], VERSION, HERE)
    assert costs.coefficients is SHIPPED
    assert "is not used: the calibration saw too few phases" in costs.notes[-1]


def test_minors_of_wal_and_calibration_are_told() -> None:
    costs = calibrated_costs(calibrated(version="18.4"))
    told = of_minors(costs, ["18.6"])
    assert told.notes[:-1] == costs.notes
    assert "(18.4 and 18.6)" in told.notes[-1]
    assert of_minors(costs, ["18.4"]) == costs
    assert of_minors(costs, []) == costs, "bare segments say no minor"
    assert "(18.4 and 18.6)" in of_minors(Costs(), ["18.6", "18.4"]).notes[-1]


def test_a_release_candidate_is_of_its_major_version() -> None:
    assert differences(calibrated(version="19rc1"), 19, HERE) == ()


def test_ones_own_crash_scales_the_shipped_costs(wal: Path, start: Lsn) -> None:
    found = forecast(
        wal, start=start, buffers=[512], costs=calibrated_costs(calibrated()),
        crash=OwnCrash(times(start, stats(wal).end, 4.0), "a log"),
    )  # fmt: skip
    assert found.predictions[0].warm_s == pytest.approx(4.0)
    assert found.coefficients.source == "own crash"
    assert found.notes[0] == "Costs are the shipped ones, scaled to the recovery in a log."
    assert found.disk.iops == 4000.0, "of the disk a log says nothing"


def test_a_log_is_held_against_the_recovery_that_it_describes(wal: Path, start: Lsn) -> None:
    """Whatever distance and shared_buffers are asked for."""
    crash = OwnCrash(times(start, stats(wal).end, 4.0), "a log")
    near = forecast(wal, start=start, buffers=[512], distance=2 << 20, crash=crash)
    assert near.predictions[0].warm_s < 4.0
    same = forecast(wal, start=start, buffers=[16], crash=crash)
    large = forecast(wal, start=start, buffers=[2048], crashed=16, crash=crash)
    assert same.predictions[0].warm_s == pytest.approx(4.0)
    assert large.coefficients == same.coefficients
    # The server has gone on writing since.
    half = analyse(wal, start=start, buffers=[512], marks=[Lsn(start + (2 << 20))]).steps[0].end
    later = forecast(wal, start=start, buffers=[512], crash=OwnCrash(times(start, half, 4.0), "a log"))
    assert later.predictions[0].warm_s > 4.0
    assert "shared_buffers is taken to be 128 MB" in forecast(wal, start=start, crash=crash).notes[0]


def test_a_crash_that_teaches_nothing_is_refused(wal: Path, start: Lsn) -> None:
    end = stats(wal).end

    def crash(begun: int, done: int, cpu_s: float = 4.0) -> OwnCrash:
        return OwnCrash(times(Lsn(begun), Lsn(done), cpu_s), "a log")

    with pytest.raises(WalError, match="the recovery of other WAL"):
        forecast(wal, start=start, crash=crash(start + 8, end))
    with pytest.raises(WalError, match="is not all at hand"):
        forecast(wal, start=start, crash=crash(start, end + (64 << 20)))
    with pytest.raises(AnalysisError, match="too short"):
        forecast(wal, start=start, crash=crash(start, end, 0.01))


def test_distances_take_longer_the_farther_they_are(wal: Path) -> None:
    found = forecast_distances(wal, buffers=64)
    for is_on in (True, False):
        seconds = [found.seconds(megabytes << 20, full_page_writes=is_on) for megabytes in (0, 1, 2, 8, 64)]
        assert seconds == sorted(seconds)
        assert seconds[0] < seconds[-1]
    assert found.curve(full_page_writes=True) != found.curve(full_page_writes=False)
    assert "up to 2.2 times longer in 1 of 20 cases" in found.notes[-1]


def test_a_redo_point_in_a_gap_is_one_after_it(tmp_path: Path) -> None:
    unpack(VERSION, tmp_path)
    _, missing, _ = sorted(tmp_path.iterdir())
    missing.unlink()
    whole = analyse(tmp_path, buffers=[16], allow_gaps=True)
    (gap,) = whole.gaps
    found = forecast_distances(tmp_path, buffers=64, allow_gaps=True)
    assert [work.start for work in found.with_images] == [whole.start, gap.end]


def test_distances_are_priced_by_the_given_costs(wal: Path, recording: Path) -> None:
    cheap = forecast_distances(wal, buffers=64)
    twice = {name: 2 * cost for name, cost in SHIPPED.cpu_us.items()}
    dear = forecast_distances(wal, buffers=64, costs=Costs(replace(SHIPPED, cpu_us=twice)))
    far = 2 << 20
    assert dear.seconds(far, full_page_writes=True) > cheap.seconds(far, full_page_writes=True)
    assert forecast_distances(recording).notes[0] == "shared_buffers = 2MB is the recorded server's."


def test_of_small_images_as_much_wal_holds_more_work(wal: Path) -> None:
    found = forecast_distances(wal, buffers=64)
    far = 2 << 20
    as_recorded = found.seconds(far, full_page_writes=True)
    assert found.seconds(far, full_page_writes=True, image=found.image) == as_recorded
    small = MeanImage(found.image.bytes / 8, "pglz")
    assert found.seconds(far, full_page_writes=True, image=small) > as_recorded
    without = found.seconds(far, full_page_writes=False)
    assert found.seconds(far, full_page_writes=False, image=small) == pytest.approx(without, rel=0.2)


def test_a_compressed_server_is_priced_by_its_own_images(wal: Path) -> None:
    found = forecast_distances(wal, buffers=64)
    version, segment_size = identify(wal)
    present = target_of(version, segment_size, [{}])
    present = replace(present, wal_compression="as recorded")
    small = replace(present, wal_compression="pglz")
    asked = Question(present, True, (small,), sizes_mb=(), timeouts_s=())
    told = study(simulate(wal, targets=asked.targets()), asked, found.longest_s)
    plain, packed = told.predictions[present], told.predictions[small]
    assert plain.image_bytes is not None
    assert packed.image_bytes is not None
    assert packed.image_bytes < plain.image_bytes
    assert found.image_of(packed) == MeanImage(float(f"{packed.image_bytes:.2g}"), "pglz")
    assert found.image_of(plain).compression == found.image.compression
    assert plain.recovery_s is not None
    assert packed.recovery_s is not None
    # A byte of its WAL holds more changes.
    assert packed.recovery_s / packed.distance_most > plain.recovery_s / plain.distance_most

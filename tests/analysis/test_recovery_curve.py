"""Recovery time by distance: read off between points, continued behind them, the slowest place counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from walproof.analysis.recovery_costs import SHIPPED, START_S, predict
from walproof.analysis.recovery_curve import RecoveryCurve, mean_image, recovery_curve
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.recovery import analyse


def test_it_is_read_off_straight_and_continued() -> None:
    curve = RecoveryCurve(((0.0, 1.0), (100.0, 2.0), (200.0, 5.0)))
    assert curve.seconds(0) == 1.0
    assert curve.seconds(50) == pytest.approx(1.5)
    assert curve.seconds(150) == pytest.approx(3.5)
    assert curve.seconds(300) == pytest.approx(8.0), "as steep as at last"
    assert curve.farthest == 200.0


@pytest.mark.parametrize("version", [15, 18])
def test_the_slowest_place_counts(version: int, tmp_path: Path) -> None:
    unpack(version, tmp_path)
    whole = stats(tmp_path)
    span = whole.end - whole.start
    marks = [Lsn(whole.start + span * part // 6) for part in range(1, 6)]
    found = analyse(tmp_path, buffers=[64], marks=marks, images="first")
    image = mean_image(analyse(tmp_path, buffers=[64]))
    assert 0 < image.bytes <= 8192
    alone = recovery_curve([found], 64, SHIPPED, image)
    assert alone.points[0] == (0.0, START_S)
    distances = [distance for distance, _ in alone.points]
    seconds = [second for _, second in alone.points]
    assert distances == sorted(distances)
    assert seconds == sorted(seconds)
    last = found.last.with_restored(image.bytes, image.compression)
    assert seconds[-1] == pytest.approx(predict(last, 64, SHIPPED).total_s)
    # The same load with another beginning is never slower than the slower of both.
    later = analyse(tmp_path, buffers=[64], start=found.steps[1].end, images="first")
    both = recovery_curve([found, later], 64, SHIPPED, image)
    assert all(both.seconds(distance) >= alone.seconds(distance) - 1e-9 for distance in distances)


def test_first_touches_alone_have_images(tmp_path: Path) -> None:
    unpack(15, tmp_path)
    first = analyse(tmp_path, buffers=[4096], images="first").last
    off = analyse(tmp_path, buffers=[4096], images="off").last
    assert first.restored + first.initialised >= first.pages
    assert off.restored < first.restored
    assert first.pools[4096].reads == 0, "what is never evicted is never read"
    assert off.pools[4096].reads > 0
    priced = first.with_restored(1000.0, "lz4")
    assert priced.images["lz4"].count == first.restored
    assert priced.images["off"].count == 0
    assert priced.record_bytes == first.record_bytes + priced.images["lz4"].bytes - sum(
        image.bytes for image in first.images.values()
    )

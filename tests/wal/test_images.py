"""``images.json`` of this and of an earlier version, and what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from walproof.errors import WalError
from walproof.wal.images import IMAGES_FILE, ImageSamples, read_images, write_images

FORK = (1663, 5, 16384, 0)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    samples = ImageSamples(((FORK, (9, 72_000, (9000, 12_000, 6000), 5, 600, (0.1, 0.0, 0.02))),), (1, 2, 3))
    write_images(tmp_path, samples)
    assert read_images([tmp_path]) == samples


def test_a_file_of_before_errors_were_told_gets_those_of_its_number(tmp_path: Path) -> None:
    row = [FORK, [25, 200_000, [30_000, 40_000, 20_000], 5, 600]]
    old = {"format": 1, "methods": ["pglz", "lz4", "zstd"], "nanoseconds": [1, 2, 3], "forks": [row]}
    (tmp_path / IMAGES_FILE).write_text(json.dumps(old))
    ((_, sums),) = read_images([tmp_path]).forks
    assert sums[:2] == (25, 200_000)
    assert sums[-1] == pytest.approx((0.1, 0.1, 0.1))


@pytest.mark.parametrize("error", ["-0.1", "NaN", "Infinity", "1e300", "true", '"0.1"', "null"])
def test_what_is_no_share_is_damage(tmp_path: Path, error: str) -> None:
    (tmp_path / IMAGES_FILE).write_text(
        '{"format": 2, "nanoseconds": [1, 2, 3], "forks": [[[1663, 5, 16384, 0],'
        f" [9, 72000, [9000, 12000, 6000], 5, 600, [{error}, 0.0, 0.0]]]]}}"
    )
    with pytest.raises(WalError, match="damaged"):
        read_images([tmp_path])

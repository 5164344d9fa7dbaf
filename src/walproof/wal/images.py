"""What images told before they were blanked out: ``images.json`` beside segments without contents. For each
relation's fork it has the number of images that were compressed as a trial, their bytes, and what each method
of wal_compression made of them; for all of them together, the time that each method took. It has only
numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from walproof.checked import parsed
from walproof.errors import WalError
from walproof.files import write_whole
from walproof.wal.places.opened import Path, open_places
from walproof.wal.places.place import Place, read_text

IMAGES_FILE = "images.json"
_FORMAT = 2
"""Version 1 had no standard errors."""
_METHODS = ("pglz", "lz4", "zstd")

Fork = tuple[int, int, int, int]
"""Tablespace, database, relation and fork."""
Sums = tuple[int, int, tuple[int, int, int], int, int, tuple[float, float, float]]
"""Images, their bytes plain and by method; line pointers and bytes of tuples on those stored compressed;
standard error of the bytes by method, as a share."""
_ALONE = 0.5
"""By how much images differ from each other, as a share, if the file does not tell."""


@dataclass(frozen=True, slots=True)
class ImageSamples:
    """What the images of one or several stripped parts told; a fork may be in several."""

    forks: tuple[tuple[Fork, Sums], ...] = ()
    nanoseconds: tuple[int, int, int] = (0, 0, 0)
    """By method: pglz, lz4, zstd."""

    def with_those_of(self, other: ImageSamples) -> ImageSamples:
        """Both together."""
        pglz, lz4, zstd = (a + b for a, b in zip(self.nanoseconds, other.nanoseconds, strict=True))
        return ImageSamples(self.forks + other.forks, (pglz, lz4, zstd))


def write_images(folder: FilePath, samples: ImageSamples) -> None:
    """Write the JSON beside the segments. Raises WalError."""
    data = {
        "format": _FORMAT,
        "methods": _METHODS,
        "nanoseconds": samples.nanoseconds,
        "forks": samples.forks,
    }
    path = folder / IMAGES_FILE
    try:
        write_whole(path, json.dumps(data) + "\n")
    except OSError as error:
        raise WalError(f'could not write "{path}": {error.strerror}') from error


def read_images(paths: Iterable[Path]) -> ImageSamples:
    """What the files in these folders tell, put together. Raises WalError for a damaged file."""
    samples = ImageSamples()
    with open_places(paths) as places:
        for place in places:
            path = place / IMAGES_FILE
            if path.is_file():
                samples = samples.with_those_of(_read(path))
    return samples


def _read(path: Place) -> ImageSamples:
    try:
        data = parsed(read_text(path))
        if data["format"] not in (1, _FORMAT):
            raise WalError(f'"{path}" was written by another version of walproof')
        pglz, lz4, zstd = map(_count, data["nanoseconds"])
        return ImageSamples(tuple(_row(row) for row in data["forks"]), (pglz, lz4, zstd))
    except OSError as error:
        raise WalError(f'could not read "{path}": {error.strerror}') from error
    except (ValueError, KeyError, TypeError) as error:
        raise WalError(f'"{path}" is damaged', detail=str(error)) from error


def _row(row: Any) -> tuple[Fork, Sums]:
    (tablespace, database, relation, fork), (count, plain, sizes, pointers, pointed, *told) = row
    pglz, lz4, zstd = map(_count, sizes)
    errors = map(_share, told[0] if told else 3 * [_ALONE / max(1, _count(count)) ** 0.5])
    of_pglz, of_lz4, of_zstd = errors
    place = (_count(tablespace, 32), _count(database, 32), _count(relation, 32), _count(fork, 8))
    return place, (
        _count(count), _count(plain), (pglz, lz4, zstd), _count(pointers), _count(pointed),
        (of_pglz, of_lz4, of_zstd),
    )  # fmt: skip


def _share(value: Any) -> float:
    """A finite number; Python's JSON would also read infinity."""
    if type(value) not in (int, float) or not 0 <= value <= 1e6:
        raise ValueError(f"expected a share, got {str(value)[:40]!r}")
    return float(value)


def _count(value: Any, bits: int = 48) -> int:
    """A sum of numbers of this size stays below 64 bits."""
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise ValueError(f"expected a number from 0 to 2^{bits} - 1, got {str(value)[:40]!r}")
    return value

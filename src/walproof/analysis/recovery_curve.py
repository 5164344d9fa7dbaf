"""Recovery time by distance from the redo point, for servers whose checkpoints would be elsewhere.

A recording holds the redo points of its own server. For others, replay is simulated from a few places of the
recording as if a checkpoint had begun there: the first touch of each page has an image (with
full_page_writes), no other has. The work at growing distances gives a curve; between its points it is read
off straight, behind its end it goes on as steeply as at last.

Approximated: all images have one size and compression, those of the recording or of the server that is asked
about; the load is taken to be the same from
every place, of which the slowest counts; the kernel's cache is warm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from walproof.analysis.recovery_costs import START_S, Coefficients, predict
from walproof.wal.recovery import RecoveryAnalysis

STARTS = (0.0, 0.33, 0.66)
"""Places of the recording, as shares of it, from which a recovery is simulated."""


@dataclass(frozen=True, slots=True)
class RecoveryCurve:
    """Seconds until a server is ready, by WAL from the redo point."""

    points: tuple[tuple[float, float], ...]
    """(bytes, seconds), ascending in both; the first is (0, the time of an empty recovery)."""

    def seconds(self, distance: float) -> float:
        """Seconds of a recovery of that distance."""
        for (before, fast), (after, slow) in pairwise(self.points):
            if distance <= after:
                return fast + (slow - fast) * (distance - before) / (after - before)
        (before, fast), (after, slow) = self.points[-2:]
        return slow + (slow - fast) * (distance - after) / (after - before)

    @property
    def farthest(self) -> float:
        """Distance in bytes beyond which the curve is extrapolated."""
        return self.points[-1][0]


class MeanImage(NamedTuple):
    """The page images of a server."""

    bytes: float
    """Mean size."""
    compression: str
    """How most of them are compressed."""


def mean_image(analysis: RecoveryAnalysis) -> MeanImage:
    """The images of the recording; 4 kB each if it has none."""
    images = {name: image for name, image in analysis.last.images.items() if image.count}
    if not images:
        return MeanImage(4096.0, "off")
    most = max(images, key=lambda name: images[name].count)
    size = sum(image.bytes for image in images.values()) / sum(image.count for image in images.values())
    return MeanImage(size, most)


def recovery_curve(
    analyses: Iterable[RecoveryAnalysis],
    buffers: int,
    coefficients: Coefficients,
    image: MeanImage,
) -> RecoveryCurve:
    """The slowest of some recoveries (``images="first"`` or ``"off"``) at each distance."""
    curves = []
    for analysis in analyses:
        points = [(0.0, START_S)]
        for step in analysis.steps:
            work = step.with_restored(image.bytes, image.compression)
            if work.wal_bytes > points[-1][0]:
                points.append((float(work.wal_bytes), predict(work, buffers, coefficients).total_s))
        if len(points) > 1:
            curves.append(RecoveryCurve(tuple(points)))
    assert curves, "a recording has a beginning"
    distances = sorted({distance for curve in curves for distance, _ in curve.points})
    slowest: list[tuple[float, float]] = []
    for distance in distances:
        # Beyond its own WAL a curve says nothing that another one does not know better.
        seconds = max(curve.seconds(distance) for curve in curves if distance <= curve.farthest)
        slowest.append((distance, max(seconds, slowest[-1][1] if slowest else 0.0)))
    return RecoveryCurve(tuple(slowest))

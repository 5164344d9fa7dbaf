"""What a study's variants would give on the published machine, from what was measured here.

On both machines, where commits queue behind one row (see :mod:`walproof.analysis.lock`), a transaction takes

    1 / tps = L + c             with a flush wait        1 / tps = c             without

L belongs to the disk, c to the processor. Measured here: L, and for each variant its own work c_v. The
published machine's processor is known from one published figure, the variant without flush waits: its work is
larger or smaller than ours by one factor, k = c(published) / c(here). Then all others are predictions:

    tps(published, variant) = 1 / (L + k c_v)    or    1 / (k c_v)

with L from here, because the emulated disk is the published one. Only c is fitted to the publication; L, and
all other figures, are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.analysis.cells import Absolute
from walproof.analysis.lock import CommitLock
from walproof.facts import Plan


@dataclass(frozen=True, slots=True)
class PublishedLock:
    """The commit-lock model on published figures. Times in seconds."""

    flush_s: float
    """L."""
    work_s: float
    """c."""

    @property
    def gain(self) -> float:
        """Throughput without flush waits over throughput with them."""
        return (self.flush_s + self.work_s) / self.work_s


@dataclass(frozen=True, slots=True)
class PredictedRatio:
    """A variant's throughput relative to the baseline: here, predicted for there, published."""

    variant: str
    here: float
    predicted: float
    published: float | None


@dataclass(frozen=True, slots=True)
class PublishedPrediction:
    """The published machine, predicted from one lock model. Times in seconds."""

    install: str
    workload: str
    flush_s: float
    """L as measured here."""
    work_s: float
    """c of the fastest variant without flush waits, here."""
    published_work_s: float
    """c of the published machine."""
    published_flush_s: float
    """L that the published figures themselves give, to compare with ours."""
    ratios: tuple[PredictedRatio, ...]


def published_lock(plan: Plan, lock: CommitLock) -> PublishedLock | None:
    """L and c of the published machine, from the same two figures as ours; None without them."""
    tps = _published_tps(plan, lock)
    base, free = tps.get(plan.baseline), tps.get(lock.variant)
    if base is None or free is None or free <= base:
        return None
    return PublishedLock(flush_s=1 / base - 1 / free, work_s=1 / free)


def predict_published(
    plan: Plan, reached: Sequence[Absolute], lock: CommitLock
) -> PublishedPrediction | None:
    """The prediction for the workload of ``lock``; None where the publication lacks the two figures.

    ``reached`` is the throughput of each cell here.
    """
    theirs = published_lock(plan, lock)
    here = {
        reached_here.variant: reached_here.median
        for reached_here in reached
        if (reached_here.install, reached_here.workload) == (lock.install, lock.workload)
    }
    base_here = here.get(plan.baseline)
    if theirs is None or base_here is None:
        return None
    published = _published_tps(plan, lock)
    scale = theirs.work_s / lock.work_s
    base_s = _transaction_s(1 / base_here, lock.flush_s, scale, waits=True)
    ratios = []
    for variant in plan.variants:
        tps = here.get(variant.name)
        if tps is None:
            continue
        settings = plan.settings_of(variant)
        waits = settings.get("fsync") != "off" and settings.get("synchronous_commit") != "off"
        ratios.append(
            PredictedRatio(
                variant=variant.name,
                here=tps / base_here,
                predicted=base_s / _transaction_s(1 / tps, lock.flush_s, scale, waits=waits),
                published=(
                    published[variant.name] / published[plan.baseline] if variant.name in published else None
                ),
            )
        )
    return PublishedPrediction(
        install=lock.install,
        workload=lock.workload,
        flush_s=lock.flush_s,
        work_s=lock.work_s,
        published_work_s=theirs.work_s,
        published_flush_s=theirs.flush_s,
        ratios=tuple(ratios),
    )


def _transaction_s(measured_s: float, flush_s: float, scale: float, *, waits: bool) -> float:
    """Time of a transaction on the published machine."""
    if not waits:
        return scale * measured_s
    # A variant that was faster than the flush alone did not wait for one each time.
    return flush_s + scale * max(0.0, measured_s - flush_s)


def _published_tps(plan: Plan, lock: CommitLock) -> dict[str, float]:
    return {
        reference.variant: reference.tps for reference in plan.references_of(lock.workload) if reference.tps
    }

"""What power cuts left of each variant: counts of images, commits lost, windows, and what the counts prove.

No failure in n cuts does not mean that there is none: with 95 % confidence their rate is below 3/n (the rule
of three: (1 - p)^n = 0.05 has p of about 3/n). Images of one cut are not independent: the same bound for
images, which JSON has, too, would hold if they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median, quantiles

from walproof.facts import Cell, CutFacts, ImageState, Plan, Trial
from walproof.units import parse_duration_s

_WRITER_DELAY = "200ms"
"""wal_writer_delay when nothing is set (manual, 20.5)."""
_RULE_OF_THREE = 3.0


class CutOutcome(Enum):
    """Whether a variant survives a power cut, by all images of its cuts together."""

    YES = "yes"
    LAST_COMMITS = "loses last commits"
    """Nothing worse was seen."""
    NO = "no"


@dataclass(frozen=True, slots=True)
class CutSummary:
    """All cuts of one variant on one install under one workload."""

    install: str
    workload: str
    variant: str
    cuts: int
    void: int
    """Trials that failed, about which nothing is known."""
    images: int
    counts: Mapping[ImageState, int]
    failed_cuts: int
    """Cuts of which at least one image failed."""
    torn_images: int
    """Images with a page of a relation that was torn before recovery."""
    torn_caught: int
    """How many of these images failed."""
    acknowledged: int
    """Commits that clients had been told of, over all cuts."""
    lost_commits: tuple[int, ...]
    """For each cut with losses, the most commits that one of its images lost."""
    windows_ms: tuple[float, ...]
    """For each such cut, the longest time from the acknowledgement of the oldest lost commit to the cut."""
    bound_ms: float | None
    """3 x wal_writer_delay, which bounds what asynchronous commits lose (manual, "Asynchronous Commit")."""
    unflushed: tuple[str, ...]
    """Files that a checkpoint should have flushed and did not."""
    undo_bytes_max: int
    cut_s: float
    """Median time of a trial: load, cut, and all images to their verdict."""
    audited: int
    """Cuts with the checkpoints that the fsync audit needs."""

    @property
    def failed(self) -> int:
        """Images that do not start, are corrupt or have holes."""
        return sum(count for state, count in self.counts.items() if state.is_failure)

    @property
    def lost(self) -> int:
        """Images that lost acknowledged commits and nothing else."""
        return self.counts[ImageState.LOST]

    @property
    def survives(self) -> CutOutcome | None:
        """The outcome as far as was seen; None without images."""
        if not self.images:
            return None
        if self.failed:
            return CutOutcome.NO
        return CutOutcome.LAST_COMMITS if self.lost else CutOutcome.YES

    @property
    def failure_rate_most(self) -> float | None:
        """Upper bound, at 95 %, of the rate of failing images, if those of one cut were independent, which
        they are not; None where there are failures or no images."""
        return None if self.failed or not self.images else min(1.0, _RULE_OF_THREE / self.images)

    @property
    def cut_rate_most(self) -> float | None:
        """The same for cuts."""
        return None if self.failed_cuts or not self.cuts else min(1.0, _RULE_OF_THREE / self.cuts)

    @property
    def window_ms_p95(self) -> float | None:
        """95th percentile of the windows over cuts."""
        if len(self.windows_ms) < 2:
            return self.windows_ms[0] if self.windows_ms else None
        return quantiles(self.windows_ms, n=20, method="inclusive")[-1]

    @property
    def window_ms_median(self) -> float | None:
        """Median of the windows over cuts."""
        return median(self.windows_ms) if self.windows_ms else None


def cut_summaries(plan: Plan, trials: Sequence[Trial]) -> tuple[CutSummary, ...]:
    """One for each cell of a plan with power cuts, in the plan's order; empty for a plan without."""
    if not plan.kind.cut_images:
        return ()
    return tuple(_summary(plan, trials, cell) for cell in plan.cells)


def _summary(plan: Plan, trials: Sequence[Trial], cell: Cell) -> CutSummary:
    of_cell = [trial for trial in trials if trial.cell == cell]
    with_cut = [trial for trial in of_cell if trial.cut is not None]
    cuts = [trial.cut for trial in with_cut if trial.cut is not None]
    images = [image for cut in cuts for image in cut.images]
    counts = {state: sum(cut.counts[state] for cut in cuts) for state in ImageState}
    losing = [cut for cut in cuts if _windows(cut)]
    return CutSummary(
        install=cell[0],
        workload=cell[1],
        variant=cell[2],
        cuts=len(cuts),
        # Also where the cut was added to a trial whose window was measured.
        void=len(of_cell) - len(with_cut),
        images=len(images),
        counts=counts,
        failed_cuts=sum(any(image.state.is_failure for image in cut.images) for cut in cuts),
        torn_images=sum(image.torn_pages > 0 for image in images),
        torn_caught=sum(image.torn_pages > 0 and image.state.is_failure for image in images),
        acknowledged=sum(cut.acknowledged for cut in cuts),
        lost_commits=tuple(max(image.lost_commits for image in cut.images) for cut in losing),
        windows_ms=tuple(max(_windows(cut)) for cut in losing),
        bound_ms=_bound_ms(plan, cell[2]),
        unflushed=tuple(sorted({path for cut in cuts for path in cut.unflushed})),
        undo_bytes_max=max((cut.undo_bytes_max for cut in cuts), default=0),
        cut_s=median([trial.ended_at - trial.started_at for trial in with_cut]) if with_cut else 0.0,
        audited=sum(cut.is_audited for cut in cuts),
    )


def _windows(cut: CutFacts) -> list[float]:
    """Losses of the images that lost the last commits and nothing else."""
    return [
        image.loss_window_ms
        for image in cut.images
        if image.state is ImageState.LOST and image.loss_window_ms is not None
    ]


def _bound_ms(plan: Plan, name: str) -> float | None:
    variant = plan.variant(name)
    settings = plan.settings_of(variant)
    if settings.get("synchronous_commit") != "off" or settings.get("fsync") == "off":
        return None
    delay = settings.get("wal_writer_delay", _WRITER_DELAY)
    # A number without a unit is milliseconds.
    return 3 * (float(delay) if delay.isdigit() else 1000 * parse_duration_s(delay))

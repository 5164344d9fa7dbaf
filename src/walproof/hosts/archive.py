"""Totals of an archive that a cluster reads: ranges as tasks, a tree of merges, one part for the driver.

The driver holds references, never parts. At most `IN_FLIGHT_PER_CORE` ranges are under way for each core. As
soon as `_FAN_IN` neighbours are requested, their merge is requested too, and the references are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from walproof.hosts.cluster import RayCluster
from walproof.hosts.in_order import IN_FLIGHT_PER_CORE, LOST, lost
from walproof.hosts.ranges import (
    RangeOutcome,
    SegmentRange,
    cut,
    list_archive,
    merge,
    read_on,
    read_range,
    unread,
    whole,
)
from walproof.units import Lsn
from walproof.wal.places.opened import Path, open_places
from walproof.wal.progress import Observe
from walproof.wal.totals import WalStats, stats

if TYPE_CHECKING:
    from ray import ObjectRef

_FAN_IN = 16


def archive_stats(
    cluster: RayCluster,
    paths: Sequence[Path],
    *,
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    observe: Observe | None = None,
    tell: Callable[[str], None] | None = None,
) -> WalStats:
    """Do what ``walproof.wal.stats`` does, on all cores of the cluster. Every host reads the same paths.

    ``tell`` takes a line that says what the hosts could not read, before this machine does.

    Raises WalError with the words of ``stats``, and HostError when the cluster cannot continue.
    """
    with open_places(paths) as places:
        # A task has another current folder.
        whole_paths = [place.absolute() for place in places]
        named = [str(place) for place in whole_paths]
        archive = list_archive(whole_paths, start, end, timeline)
    if archive is None or not archive.segments:
        return stats(*named, start=start, end=end, timeline=timeline)
    import ray

    tree = Tree(ray, max(1, cluster.cores), observe, archive.segment_size, archive.total_bytes)
    outcome = tree.all_of(cut(archive, max(1, cluster.cores), start, end, timeline))
    if outcome.is_whole:
        return whole(outcome).stats()
    if tell is not None and (said := unread(outcome)) is not None:
        tell(said)
    return read_on(outcome, named, start, end, timeline, observe).stats()


class Tree:
    """Merges neighbours as they are requested: level k waits for `_FAN_IN` outcomes of level k - 1."""

    def __init__(
        self,
        ray: Any,
        cores: int,
        observe: Observe | None,
        segment_size: int,
        total_bytes: int,
        work: tuple[Callable[[SegmentRange], RangeOutcome], Callable[..., RangeOutcome]] = (
            read_range,
            merge,
        ),
    ) -> None:
        """``ray``: the library, or a stand-in that simulates its tasks. ``work``: the function that
        reads a range and the one that merges outcomes."""
        self._ray = ray
        task: Any = ray.remote(num_cpus=1, max_retries=LOST)
        self._read, self._merge = (task(function) for function in work)
        self._most = cores * IN_FLIGHT_PER_CORE
        self._observe, self._segment_size, self._total = observe, segment_size, total_bytes
        self._levels: list[list[ObjectRef[RangeOutcome]]] = [[]]
        self._under_way: dict[ObjectRef[RangeOutcome], int] = {}
        self._read_bytes = 0

    def all_of(self, ranges: Iterable[SegmentRange]) -> RangeOutcome:
        """The merged outcome of all ranges. Raises HostError."""
        try:
            for range_ in ranges:
                while len(self._under_way) >= self._most:
                    self._wait()
                reference = self._read.remote(range_)
                self._under_way[reference] = range_.segments * self._segment_size
                self._add(0, reference)
            while self._under_way:
                self._wait()
            outcome: RangeOutcome = self._ray.get(self._top())
        except self._ray.exceptions.RayError as error:
            raise lost(error) from None
        return outcome

    def _add(self, level: int, reference: ObjectRef[RangeOutcome]) -> None:
        if level == len(self._levels):
            self._levels.append([])
        waiting = self._levels[level]
        waiting.append(reference)
        if len(waiting) == _FAN_IN:
            self._levels[level] = []
            self._add(level + 1, self._merge.remote(*waiting))

    def _top(self) -> ObjectRef[RangeOutcome]:
        """The last merge. What is left over on each level comes after everything on the level above."""
        rest: list[ObjectRef[RangeOutcome]] = []
        for waiting in self._levels:
            rest = [*waiting, *rest]
            if len(rest) > 1:
                rest = [self._merge.remote(*rest)]
        (top,) = rest
        return top

    def _wait(self) -> None:
        done, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=1.0, fetch_local=False)
        for reference in done:
            self._read_bytes += self._under_way.pop(reference)
        if self._observe is not None:
            self._observe(self._read_bytes, self._total)

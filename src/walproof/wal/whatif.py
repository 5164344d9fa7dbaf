"""What other checkpoint settings would have written, simulated from one recording of WAL.

    >>> from walproof.wal.whatif import Target, simulate
    >>> found = simulate("archive", targets=[Target(max_wal_size_mb=4096)])  # doctest: +SKIP
    >>> found.outcomes[0].wal_bytes  # doctest: +SKIP

crates/walproof-whatif does the work, without holding the GIL; docs/what-if.md says how, and what it assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walproof._native import wal_identity, wal_whatif
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.clock import Clock, times_elsewhere
from walproof.wal.native import from_native
from walproof.wal.places.opened import OpenPlaces, Path, open_places, reading
from walproof.wal.places.place import Place
from walproof.wal.progress import Observe
from walproof.wal.totals import Gap, gaps_of

if TYPE_CHECKING:
    from walproof._native import WhatIfRequest

Compression = Literal["as recorded", "off", "pglz", "lz4", "zstd"]
COMPRESSIONS: tuple[Compression, ...] = ("as recorded", "off", "pglz", "lz4", "zstd")


LEAST_PAGES = 1000
WHOLE_SHARE = 0.25
"""Share of the recording that whole cycles have to hold before rates are taken from them. A restart soon
after its beginning ends a cycle of a moment, which says nothing about the rest."""


def default_completion_target(version: int) -> float:
    """The default checkpoint_completion_target of that major version."""
    return 0.5 if version < 14 else 0.9


@dataclass(frozen=True, slots=True)
class Target:
    """The settings of one simulated server, named as PostgreSQL does."""

    max_wal_size_mb: int | None = 1024
    """None: size never triggers a checkpoint."""
    checkpoint_timeout_s: int | None = 300
    """None: time never triggers a checkpoint."""
    checkpoint_completion_target: float = 0.9
    min_wal_size_mb: int = 80
    full_page_writes: bool = True
    wal_compression: Compression = "as recorded"
    hint_records: bool = True
    """Whether setting a hint bit writes WAL, as with data checksums or wal_log_hints. It can be on only if
    the recorded server had it on."""
    phase: float = 0.0
    """Share of the first cycle that was over when the recording began; with 0, a checkpoint begins with
    it."""
    late_segments: int = 0
    """Number of segments by which each checkpoint begins late, because the previous one is not complete."""
    ordered_keys: bool = False
    """Whether the keys of the B-trees that are named (`simulate`) come in order, each larger than those
    before."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("max_wal_size_mb", self.max_wal_size_mb, 1),
            ("checkpoint_timeout_s", self.checkpoint_timeout_s, 1),
            ("min_wal_size_mb", self.min_wal_size_mb, 1),
            ("late_segments", self.late_segments, 0),
        ):
            if value is not None and not least <= value < 2**40:
                raise WalError(f"{name} is out of range: {value}", detail=f"The least is {least}.")
        for name, share in (
            ("checkpoint_completion_target", self.checkpoint_completion_target),
            ("phase", self.phase),
        ):
            if not 0 <= share <= 1:
                raise WalError(f"{name} is out of range: {share}", detail="It is a share from 0 to 1.")
        if self.wal_compression not in COMPRESSIONS:
            raise WalError(
                f'no such compression: "{self.wal_compression}"', hint=f"One of {', '.join(COMPRESSIONS)}."
            )

    def checkpoint_segments(self, segment_size: int) -> int | None:
        """Segments from a redo point to the trigger of the next checkpoint (CalculateCheckpointSegments)."""
        if self.max_wal_size_mb is None:
            return None
        whole = self.max_wal_size_mb // max(1, segment_size >> 20)
        return max(1, int(whole / (1.0 + self.checkpoint_completion_target))) + self.late_segments

    def at_phase(self, phase: float) -> Target:
        """The same server, but in another part of its cycle when the recording began."""
        return replace(self, phase=phase)


@dataclass(frozen=True, slots=True)
class Cycles:
    """Whole checkpoint cycles, from the first redo point to the last."""

    count: int
    wal_bytes: int
    images: int
    base_bytes: int
    """Bytes of the same records without any image."""
    seconds: float | None
    late: int
    """Cycles so short that the previous checkpoint was hardly complete."""
    error: float | None = None
    """Standard error of ``wal_bytes`` for these records, as a share, from how cycles differ; None for a
    single cycle."""


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What one simulated server wrote, from the beginning of the recording to its end."""

    wal_bytes: int
    """Size of the WAL, as the distance between its locations."""
    base_bytes: int
    """Bytes of the same records without any image."""
    images: int
    image_bytes: int
    first_images: int
    """Images of pages that the recording had not touched before."""
    first_image_bytes: int
    guessed_images: int
    """Images whose size is taken to be the mean of others."""
    sample_error_bytes: float
    """Standard error of ``wal_bytes`` that comes from sampling pages; 0 if all were held."""
    by_size: int
    """Checkpoints triggered by max_wal_size."""
    by_time: int
    """Checkpoints triggered by checkpoint_timeout."""
    cycles: Cycles
    distance_mean: float
    """Bytes of WAL from the redo point at which recovery would begin."""
    distance_most: int
    crash_offset: int
    """Where recovery from a crash at the recording's end would begin, in bytes after its start."""
    pg_wal_most: int
    """The most bytes of segments at one time, without slots, wal_keep_size or a lagging archiver."""

    @property
    def checkpoints(self) -> int:
        """Checkpoints that began."""
        return self.by_size + self.by_time

    @property
    def holds_cycles(self) -> bool:
        """Whether its whole cycles hold enough of the recording to take rates from them."""
        return self.cycles.count > 0 and self.cycles.base_bytes >= WHOLE_SHARE * self.base_bytes


@dataclass(frozen=True, slots=True)
class SourceCheckpoint:
    """A checkpoint of the recording's own server."""

    redo: Lsn
    at: float
    """When it began, Unix time in whole seconds."""
    is_shutdown: bool


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well the rules explain the recording's references whose image, or lack of an image, is known."""

    images: int
    """Images that the rule explains."""
    bare: int
    """References without an image for which the rule wants none."""
    unexplained: int
    """Images that the rule does not explain."""
    missing: int
    """Images that the rule wants and the recording does not have."""
    expected_bytes: int
    """Size of images as followed from record to record."""
    found_bytes: int
    """Size of the same images as found in the recording."""

    @property
    def share(self) -> float | None:
        """Share of the tested references that agree with the rule."""
        tried = self.images + self.bare + self.unexplained + self.missing
        return (self.images + self.bare) / tried if tried else None

    @property
    def size_error(self) -> float | None:
        """By how much the followed sizes are too large, as a share."""
        return self.expected_bytes / self.found_bytes - 1 if self.found_bytes else None


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts of the recording."""

    records: int
    record_bytes: int
    images: int
    image_bytes: int
    hint_images: int
    references: int
    pages: int
    """Number of different pages; for a sample, of those that it stands for."""
    held_pages: int
    """Number of pages held in memory."""
    begun_before: int
    """Pages that had been touched since the last redo point before the recording."""
    first_time_us: int | None
    last_time_us: int | None
    longest_silence_us: int
    """The longest time between two ends of transactions."""
    checkpoints: tuple[SourceCheckpoint, ...]
    has_hint_records: bool
    full_page_writes_off: bool
    has_backup: bool
    has_consistency_images: bool
    compression: Compression
    agreement: Agreement
    memory_bytes: int
    """Bytes of the table of pages."""

    @property
    def seconds(self) -> float | None:
        """Seconds from the first known time, usually a transaction's end, to the last."""
        if self.first_time_us is None or self.last_time_us is None:
            return None
        return (self.last_time_us - self.first_time_us) / 1e6

    @property
    def tells_time(self) -> bool:
        """Whether the known times are spread over the recording."""
        return self.seconds is not None and self.seconds >= max(1.0, 2 * self.longest_silence_us / 1e6)


@dataclass(frozen=True, slots=True)
class MethodSample:
    """Images of the recording under one method."""

    bytes: int
    nanoseconds: int
    """Time of compressing them, and others that were let go again: it compares methods, and is not one of
    `ImageSample.count` images."""
    error: float | None = None
    """Standard error of what all images would take, as a share, since only some were compressed; None if not
    known."""

    @property
    def seconds(self) -> float:
        """The same in seconds."""
        return self.nanoseconds / 1e9


@dataclass(frozen=True, slots=True)
class ImageSample:
    """Images of the recording that were compressed to see how small each method makes them."""

    count: int
    plain_bytes: int
    methods: Mapping[str, MethodSample]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What the recording says, and what each target would have written."""

    version: int
    system_identifier: int
    segment_size: int
    first_timeline: int
    timeline: int
    """The timeline at the end."""
    start: Lsn
    end: Lsn
    finish_reason: str | None
    gaps: tuple[Gap, ...]
    clock: Clock
    """What the times are taken from."""
    recorded: SourceFacts
    sample: ImageSample
    targets: tuple[Target, ...]
    outcomes: tuple[SimulatedRun, ...]
    """One for each target, in their order."""

    @property
    def tells_compression(self) -> bool:
        """Whether images were compressed as a trial, now or before they were stripped of contents."""
        return self.sample.count > 0 or not self.recorded.images

    @property
    def wal_bytes(self) -> int:
        """What the recording's own server wrote; gaps are not counted."""
        return self.end - self.start - sum(gap.end - gap.start for gap in self.gaps)


def identify(*paths: Path, start: Lsn | None = None, timeline: int | None = None) -> tuple[int, int]:
    """Major version and segment size (bytes) of a recording; looks at one page. Raises WalError."""
    with reading(paths) as wal:
        version, segment_size, _ = wal.call(wal_identity, wal.sources, start, timeline)
    return version, segment_size


def system_identifier(*paths: Path, start: Lsn | None = None, timeline: int | None = None) -> int:
    """The system identifier of the cluster that wrote it; arguments as for `identify`."""
    with reading(paths) as wal:
        return wal.call(wal_identity, wal.sources, start, timeline)[2]


class SimulationOrder(NamedTuple):
    """What a simulator is to simulate."""

    start: Lsn | None
    end: Lsn | None
    timeline: int | None
    allow_gaps: bool
    request: WhatIfRequest
    """Targets, times, the most pages to hold, samples of images, B-trees whose keys may be ordered."""


Simulator = Callable[[SimulationOrder, Observe | None], Mapping[str, Any]]
"""Simulates targets over the WAL of some places and returns the native module's answer. Raises WalError."""


def simulate_here(places: Sequence[Place]) -> Simulator:
    """The simulator that reads the WAL on this machine."""
    wal = OpenPlaces(places, threads=1)

    def run(asked: SimulationOrder, observe: Observe | None) -> Mapping[str, Any]:
        return wal.call(
            wal_whatif, wal.sources, asked.start, asked.end, asked.timeline, allow_gaps=asked.allow_gaps,
            request=asked.request, observe=wal.observed(observe),
        )  # fmt: skip

    return run


def simulate(
    *paths: Path,
    targets: Sequence[Target],
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    allow_gaps: bool = False,
    most_pages: int | None = None,
    ordered: Sequence[int] = (),
    simulator: Callable[[Sequence[Place]], Simulator] = simulate_here,
    observe: Observe | None = None,
) -> WhatIf:
    """Read a recording (its first 64 MB twice) and simulate every target.

    If transactions hardly tell the time, the recording is read once more with the positions that ``wal
    capture`` wrote down, or with the times of the segment files, if these can be the WAL's own.

    At most ``most_pages`` are held in memory: of more pages, a sample by relation, whose error is reported.
    ``ordered``: relfilenodes of the B-trees of `Target.ordered_keys`.
    ``simulator``: what reads the WAL. ``observe`` is told how far each reading has come.

    Raises WalError as ``walproof.wal.stats``.
    """
    if most_pages is not None and most_pages < LEAST_PAGES:
        raise WalError(
            f"a sample of {most_pages:,} pages says too little", hint=f"Hold {LEAST_PAGES:,} at least."
        )
    from walproof.wal.images import read_images

    with open_places(paths) as places:
        told = read_images(places)
        reads = simulator(places)

        def run(clock: Clock, times: Sequence[tuple[Lsn, int]] = ()) -> WhatIf:
            request: WhatIfRequest = {"targets": targets, "times": times, "most_pages": most_pages,
                       "samples": (told.forks, told.nanoseconds), "ordered": list(ordered)}  # fmt: skip
            raw = reads(SimulationOrder(start, end, timeline, allow_gaps, request), observe)
            return whatif_of(raw, targets, clock)

        found = run("transactions")
        if found.recorded.tells_time:
            return found
        for clock, times in times_elsewhere(places, found.segment_size):
            other = run(clock, times)
            if other.recorded.tells_time:
                return other
        return found


def whatif_of(raw: Mapping[str, Any], targets: Sequence[Target], clock: Clock) -> WhatIf:
    """The native module's answer on these targets."""
    recorded = {**raw["recorded"], "compression": raw["recorded"]["compression"] or "off"}
    given = {"gaps": gaps_of(raw["gaps"]), "targets": tuple(targets), "clock": clock, "recorded": recorded}
    return from_native(WhatIf, {**raw, **given})

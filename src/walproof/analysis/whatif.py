"""From simulated servers to predictions: rates, intervals and cliffs.

A recording begins and ends somewhere within checkpoint cycles, and images crowd at the beginning of a cycle.
So rates are taken only from whole cycles, relative to what the same records take without images, for four
positions of the first redo point. The interval includes how far these differ, and the uncertainty of a
recording as a sample (``whatif_errors``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from walproof.analysis.whatif_errors import Spreads, cycle_error, image_error, plain, spreads, together
from walproof.analysis.whatif_slope import size_mb, slope
from walproof.wal.whatif import Compression, SimulatedRun, Target, WhatIf

PHASES = (0.0, 0.25, 0.5, 0.75)
SIZES_MB = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
TIMEOUTS_S = (60, 300, 900, 1800, 3600)
METHODS: tuple[Compression, ...] = ("off", "pglz", "lz4", "zstd")
CYCLES_WANTED = 6
MODEL_ERROR = 0.02
"""Share by which prediction and server differed in bench/whatif when nothing else interfered."""
SPACING_ERROR = 0.05
"""Share by which a real spacing may differ: where the curve falls, WAL differs with it."""
SAMPLE_SPAN = 2.0
"""Standard errors of a page sample that the span holds."""
FALLING = -1.0
"""Elasticity beyond which more WAL shortens the spacing as much: errors feed on themselves, count twice."""
STEEP = -1.5
"""Elasticity beyond which an error of a tenth in spacing costs more than a seventh of the WAL."""
CLIFF = 2 / 3
"""A doubling of max_wal_size that leaves less than this of the WAL is a cliff."""
LATE_SHARE = 0.25
HINT_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class PredictedSpan:
    """The interval that should hold the true value."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ServerPrediction:
    """One server with other settings, in steady operation under the recorded load."""

    target: Target
    wal_bytes: float
    """Bytes per hour; in the whole recording if it has no times."""
    wal_span: PredictedSpan
    images: float
    checkpoints: float
    by_size_share: float
    """Share of checkpoints caused by max_wal_size."""
    spacing_bytes: float | None
    """Mean distance between two redo points; None without a whole cycle."""
    spacing_s: float | None
    distance_mean: float
    """Bytes of WAL that recovery would read."""
    distance_most: float
    pg_wal_most: int
    cycles: int
    """Number of whole cycles in the recording; 0 if they hold less than ``WHOLE_SHARE`` of it."""
    late_share: float
    guessed_share: float
    sample_error: float
    """Standard error of WAL from sampling pages, as a share."""
    recovery_s: float | None = None
    """Seconds of the longest crash recovery, with a warm cache and its checkpoint; None if not asked for."""
    elasticity: float | None = None
    """Percent by which WAL changes when max_wal_size changes by one percent."""
    image_error: float = 0.0
    """Share by which WAL may differ because only some images were test-compressed; included in the span."""
    cycle_error: float = 0.0
    """Share by which WAL may differ because the recording holds few cycles; included in the span."""
    image_bytes: float | None = None
    """Mean size of an image; None if it writes none."""

    @property
    def is_late(self) -> bool:
        """Whether checkpoints would overrun each other."""
        return self.late_share > LATE_SHARE

    @property
    def has_whole_cycles(self) -> bool:
        """Whether whole cycles hold enough of the recording to take rates from them."""
        return self.cycles > 0

    @property
    def confidence(self) -> str:
        """``high``, ``medium`` or ``low``."""
        steep = self.elasticity is not None and self.elasticity < STEEP
        if not self.has_whole_cycles or self.is_late or self.guessed_share > 0.25 or self.sample_error > 0.1:
            return "low"
        sampled = max(self.sample_error, self.image_error / SAMPLE_SPAN, self.cycle_error / SAMPLE_SPAN)
        if self.cycles < CYCLES_WANTED or steep or self.guessed_share > 0.05 or sampled > 0.02:
            return "medium"
        return "high"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a recording; which servers have to be simulated follows from it."""

    present: Target
    is_present_known: bool
    asked: tuple[Target, ...] = ()
    """Servers with the requested settings (``--set``)."""
    sizes_mb: tuple[int, ...] = SIZES_MB
    timeouts_s: tuple[int, ...] = TIMEOUTS_S
    recorded: tuple[str, ...] = ()
    """Versions that wrote the WAL, with their minors, as far as recordings say."""
    with_others: bool = True
    """Whether the present server is asked about under each wal_compression, and with full_page_writes
    reversed."""
    methods: tuple[Compression, ...] = METHODS
    """The values of wal_compression that the server takes, as methods."""
    segment_bytes: int = 16 << 20

    def grid(self) -> list[Target]:
        """Every max_wal_size with every checkpoint_timeout, including those of the present server."""
        size, timeout = self.present.max_wal_size_mb, self.present.checkpoint_timeout_s
        # A server with less than two segments does not start (ReadControlFile in xlog.c).
        possible = [size for size in self.sizes_mb if size << 20 >= 2 * self.segment_bytes]
        # Below the smallest of these sizes, doublings of the present one show where the curve begins to fall.
        least = min(possible, default=0)
        doubled = [size << steps for steps in range(7) if size << steps < least] if size else []
        sizes = sorted({*possible, *doubled, *([size] if size else [])})
        timeouts = sorted({*self.timeouts_s, *([timeout] if timeout else [])})
        return [
            replace(self.present, max_wal_size_mb=size, checkpoint_timeout_s=other)
            for other in timeouts
            for size in sizes
        ]

    def others(self) -> list[Target]:
        """The present server under each other wal_compression, and with full_page_writes reversed."""
        if not self.with_others:
            return []
        present = self.present
        methods = [method for method in self.methods if method != present.wal_compression]
        ways = [replace(present, wal_compression=method) for method in methods]
        return [*ways, replace(present, full_page_writes=not present.full_page_writes)]

    def settings(self) -> list[Target]:
        """Every server that is asked about, each once."""
        return list(dict.fromkeys([*self.grid(), *self.others(), *self.asked, self.present]))

    def targets(self) -> list[Target]:
        """What to simulate: each server at four phases, and with checkpoints that overrun each other."""
        found: list[Target] = []
        for target in self.settings():
            found += [target.at_phase(phase) for phase in PHASES]
            if target.max_wal_size_mb is not None:
                found.append(replace(target, late_segments=1))
        return found


@dataclass(frozen=True, slots=True)
class Cliff:
    """Two neighbouring sizes between which WAL falls steeply."""

    smaller: ServerPrediction
    larger: ServerPrediction

    @property
    def times(self) -> float:
        """Factor by which WAL falls."""
        return self.smaller.wal_bytes / self.larger.wal_bytes


@dataclass(frozen=True, slots=True)
class Study:
    """Everything that one recording answers."""

    found: WhatIf
    question: Question
    predictions: Mapping[Target, ServerPrediction]

    @property
    def hours(self) -> float | None:
        """Hours that the recording covers; None if it has no times, or spans less than a second."""
        seconds = self.found.recorded.seconds
        return seconds / 3600 if seconds and seconds >= 1 else None

    @property
    def recorded_bytes(self) -> float:
        """WAL of the recorded server: per hour, or in the whole recording."""
        return self.found.wal_bytes / (self.hours or 1.0)

    def told(self) -> list[ServerPrediction]:
        """Predictions that the recording supports: none with compression if the images' contents are gone."""
        return [
            self.predictions[target]
            for target in self.question.settings()
            if target.wal_compression == "as recorded" or self.found.tells_compression
        ]

    @property
    def present(self) -> ServerPrediction:
        """The present settings, simulated."""
        return self.predictions[self.question.present]

    def curve(self, timeout_s: int | None, also_mb: int | None = None) -> list[ServerPrediction]:
        """Predictions by max_wal_size with that checkpoint_timeout, as far as sizes differ in this recording.

        ``also_mb`` is included if it was simulated.
        """
        predictions = [
            self.predictions[target]
            for target in self.question.grid()
            if target.checkpoint_timeout_s == timeout_s
        ]
        kept = self._telling(predictions)
        kept += [
            prediction
            for prediction in predictions
            if prediction.target.max_wal_size_mb == also_mb and prediction not in kept
        ]
        return sorted(kept, key=lambda prediction: prediction.target.max_wal_size_mb or 0)

    def timeouts(self) -> list[int]:
        """Timeouts that differ from each other in this recording, including the present one."""
        every = sorted({target.checkpoint_timeout_s or 0 for target in self.question.grid()})
        seconds = self.found.recorded.seconds or 0.0
        present = self.question.present.checkpoint_timeout_s
        shorter = [timeout for timeout in every if timeout < seconds or timeout == present]
        longer = [timeout for timeout in every if timeout >= seconds and timeout not in shorter]
        return sorted({*shorter, *longer[:1]})

    def _telling(self, predictions: Sequence[ServerPrediction]) -> list[ServerPrediction]:
        """Leave out sizes beyond the first that triggers no checkpoint, and sizes that are much too small."""
        kept: list[ServerPrediction] = []
        for prediction in predictions:
            is_present = prediction.target.max_wal_size_mb == self.question.present.max_wal_size_mb
            is_beyond = bool(kept) and kept[-1].by_size_share == 0 and prediction.by_size_share == 0
            if is_present or not is_beyond:
                kept.append(prediction)
        late = [prediction for prediction in kept if prediction.is_late]
        present = self.question.present
        return [
            curve_point
            for curve_point in kept
            if curve_point not in late[:-1] or curve_point.target == present
        ]

    def cliffs(self) -> list[Cliff]:
        """Where doubling max_wal_size saves over a third of WAL, at the present timeout; steepest first."""
        curve = self.curve(self.question.present.checkpoint_timeout_s)
        found = [
            Cliff(smaller, larger)
            for smaller, larger in pairwise(curve)
            if larger.wal_bytes < smaller.wal_bytes * CLIFF ** math.log2(size_mb(larger) / size_mb(smaller))
        ]
        return sorted(found, key=lambda cliff: -cliff.times)

    @property
    def has_recovery_times(self) -> bool:
        """Whether every prediction says how long its longest recovery takes."""
        return all(prediction.recovery_s is not None for prediction in self.predictions.values())


def study(
    found: WhatIf, question: Question, recovery_s: Callable[[ServerPrediction], float] | None = None
) -> Study:
    """Predictions for every server of the question from its simulations.

    ``recovery_s`` says how long the longest recovery of such a server takes.
    """
    outcomes = dict(zip(found.targets, found.outcomes, strict=True))
    seconds = found.recorded.seconds
    hours = seconds / 3600 if seconds and seconds >= 1 else None
    others = spreads(outcomes)
    predictions = {target: _predict(target, outcomes, found, hours, others) for target in question.settings()}
    if recovery_s is not None:
        predictions = {key: replace(had, recovery_s=recovery_s(had)) for key, had in predictions.items()}
    return Study(found, question, _with_elasticity(predictions))


def _predict(
    target: Target,
    outcomes: Mapping[Target, SimulatedRun],
    found: WhatIf,
    hours: float | None,
    others: Spreads,
) -> ServerPrediction:
    phases = [outcomes[target.at_phase(phase)] for phase in PHASES]
    ended = [_cycles_ended(*pair) for pair in zip(PHASES, phases, strict=True)]
    whole = [run for run, own in zip(phases, ended, strict=True) if own > 0 and run.holds_cycles]
    cold = phases[0]
    base = max(1, cold.base_bytes)
    scale = 1.0 / (hours or 1.0)
    late_share = whole[0].cycles.late / whole[0].cycles.count if whole else 0.0
    if whole:
        ratios = [outcome.cycles.wal_bytes / max(1, outcome.cycles.base_bytes) for outcome in whole]
        bases = sum(outcome.cycles.base_bytes for outcome in whole) or 1
        ratio = sum(outcome.cycles.wal_bytes for outcome in whole) / bases
        images = sum(outcome.cycles.images for outcome in whole) / bases * base
        low, high = min(ratios), max(ratios)
        count = sum(outcome.cycles.count for outcome in whole)
        spacing = sum(outcome.cycles.wal_bytes for outcome in whole) / count
        times = [outcome.cycles.seconds for outcome in whole if outcome.cycles.seconds is not None]
        spacing_s = sum(times) / count if len(times) == len(whole) else None
        checkpoints = count * base / bases
    else:
        # Less than a cycle: the worst case is a checkpoint right at the beginning, the best one long ago.
        ratio = high = cold.wal_bytes / base
        low = (cold.wal_bytes - cold.first_image_bytes) / base
        images, spacing, spacing_s = float(cold.images), None, None
        checkpoints = float(cold.checkpoints)
    if late_share > LATE_SHARE and target.max_wal_size_mb is not None:
        late = outcomes[replace(target, late_segments=1)]
        if late.holds_cycles:
            low = min(low, late.cycles.wal_bytes / max(1, late.cycles.base_bytes))
    begun = sum(phase.checkpoints for phase in phases)
    written = sum(phase.images for phase in phases)
    # In less than two cycles the simulation need not have seen a whole one and the checkpoint after it, which
    # is what a server keeps. Cycles that a restart ended are shorter.
    has_seen = any(own > 1 and run.holds_cycles for run, own in zip(phases, ended, strict=True))
    room = 0.0 if has_seen else _room(target, found.segment_size, high * base / (hours or math.inf))
    sample_error = cold.sample_error_bytes / max(1, cold.wal_bytes)
    low, high = low * (1 - MODEL_ERROR), high * (1 + MODEL_ERROR)
    of_images, of_cycles = image_error(target, cold, found), cycle_error(target, whole, others)
    sampled = 1 + together((SAMPLE_SPAN * sample_error, of_images, of_cycles))
    low, high = low / sampled, high * sampled
    return ServerPrediction(
        target=target,
        wal_bytes=ratio * base * scale,
        wal_span=PredictedSpan(low * base * scale, high * base * scale),
        images=images * scale,
        checkpoints=checkpoints * scale,
        by_size_share=sum(phase.by_size for phase in phases) / begun if begun else 0.0,
        spacing_bytes=spacing,
        spacing_s=spacing_s,
        distance_mean=sum(phase.distance_mean for phase in phases) / len(phases),
        distance_most=max(room, *(phase.distance_most for phase in phases)),
        pg_wal_most=max(int(room), *(phase.pg_wal_most for phase in phases)),
        cycles=max(ended) if whole else 0,
        late_share=late_share,
        guessed_share=cold.guessed_images / cold.images if cold.images else 0.0,
        sample_error=sample_error,
        image_error=of_images,
        cycle_error=of_cycles,
        image_bytes=sum(phase.image_bytes for phase in phases) / written if written else None,
    )


def _cycles_ended(phase: float, run: SimulatedRun) -> int:
    """Whole cycles that its settings ended. A restart ends a cycle early, which tells no distance."""
    # With a phase, the first checkpoint ends the rest of a cycle only.
    return min(run.cycles.count, run.checkpoints - (phase > 0))


def _room(target: Target, segment_size: int, wal_bytes_per_hour: float) -> float:
    """WAL from one redo point to the end of the next checkpoint, as far as settings and rate bound it."""
    cycles = 1 + target.checkpoint_completion_target
    segments = target.checkpoint_segments(segment_size)
    bounds = [cycles * segments * segment_size] if segments is not None else []
    if target.checkpoint_timeout_s is not None and wal_bytes_per_hour > 0:
        bounds.append(cycles * target.checkpoint_timeout_s * wal_bytes_per_hour / 3600)
    return min(bounds, default=0.0)


def _with_elasticity(predictions: Mapping[Target, ServerPrediction]) -> dict[Target, ServerPrediction]:
    """The predictions with the slope between their neighbours in size; a steeper slope widens the span."""
    curves: dict[Target, list[ServerPrediction]] = {}
    for target, prediction in predictions.items():
        if target.max_wal_size_mb is not None:
            curves.setdefault(replace(target, max_wal_size_mb=None), []).append(prediction)
    found, curved = dict(predictions), set[Target]()
    for curve in curves.values():
        curve.sort(key=lambda prediction: prediction.target.max_wal_size_mb or 0)
        for index, prediction in enumerate(curve):
            before, behind = curve[max(0, index - 1)], curve[min(len(curve) - 1, index + 1)]
            steepness = slope(before, behind)
            if steepness is None:
                continue
            curved.add(prediction.target)
            span = _steepened(prediction, steepness)
            found[prediction.target] = replace(prediction, elasticity=steepness, wal_span=span)
    for target, prediction in predictions.items():
        # Compression has no curve of its own: the curve of the same server without it is steeper.
        like = found.get(plain(target))
        if target not in curved and like is not None and like.elasticity is not None:
            found[target] = replace(prediction, wal_span=_steepened(prediction, like.elasticity))
    return found


def _steepened(prediction: ServerPrediction, steepness: float) -> PredictedSpan:
    """The span where more WAL brings the next checkpoint sooner, and with it more WAL."""
    if steepness >= 0:
        return prediction.wal_span
    # Overestimated WAL of a sample shortens the spacing as well.
    spacing_error = SPACING_ERROR + SAMPLE_SPAN * prediction.sample_error + prediction.image_error
    factor = (1 + spacing_error) ** (-steepness * (2 if steepness < FALLING else 1))
    return PredictedSpan(prediction.wal_span.low / factor, prediction.wal_span.high * factor)

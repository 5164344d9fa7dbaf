"""How long a recorded server would be away after a crash: from its WAL to seconds.

    >>> from pathlib import Path
    >>> from walproof.analysis.forecast import forecast
    >>> found = forecast(Path("data/pg_wal"), buffers=[16384])  # doctest: +SKIP
    >>> print(found.predictions[0].total_s)  # doctest: +SKIP

``forecast`` is of one crash, ``forecast_distances`` of servers whose checkpoints would be elsewhere. Both
simulate the work (walproof.wal.recovery) and price it (`recovery`) by ``Costs``, chosen by callers from the
calibrations that they have. The machine is not looked at, and no file but the WAL and what was recorded
beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from walproof.analysis.recovery_costs import (
    SHIPPED,
    Coefficients,
    Disk,
    RecoveryPrediction,
    is_limited,
    places,
    predict,
)
from walproof.analysis.recovery_curve import STARTS, MeanImage, RecoveryCurve, mean_image, recovery_curve
from walproof.analysis.recovery_fit import fit, scale_to_crash
from walproof.analysis.whatif import ServerPrediction
from walproof.errors import AnalysisError, WalError
from walproof.facts.calibration import Calibration, SyncCosts
from walproof.facts.recovery_log import RecoveryTimes
from walproof.sentences import say_percent
from walproof.settings.minors import compared_minors, major_minor
from walproof.units import Lsn, format_bytes, format_utc, parse_bytes
from walproof.wal.places.opened import Path as WalPath
from walproof.wal.progress import Observe
from walproof.wal.recording import find_recording
from walproof.wal.recovery import (
    PAGE_BYTES,
    Images,
    RecoveryAnalysis,
    RecoveryWork,
    analyse,
    find_redo,
    redo_before,
)
from walproof.wal.segment import segment_holding

DEFAULT_BUFFERS = (128 << 20) // PAGE_BYTES
"""Default of shared_buffers, in buffers of 8 kB."""
_PAGE_HEADER_BYTES = 40
"""The longest header of a page of WAL, which may stand between two records."""
_MARKS = 12
"""Distances between a simulated redo point and the end of the WAL at which a recovery is priced."""


class MachineFacts(NamedTuple):
    """What costs depend on: those of another machine are not used for this one."""

    cpu: str
    cores: int
    page_bytes: int
    """Size of a page of its memory."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What each part of a recovery costs, and where that comes from."""

    coefficients: Coefficients = SHIPPED
    disk: Disk = field(default_factory=Disk)
    notes: tuple[str, ...] = (
        "Costs are the shipped ones, of another machine; walproof recovery calibrate measures these.",
    )
    calibrated: str | None = None
    """The version that they were calibrated on, with its minor."""
    sync: SyncCosts | None = None
    """Costs of the phase before redo; None where it was not calibrated."""


@dataclass(frozen=True, slots=True)
class OwnCrash:
    """A measured recovery, of WAL that is at hand beside that of a forecast, or the same."""

    times: RecoveryTimes
    source: str
    """Where the times come from, for the notes."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predictions for one crash."""

    analysis: RecoveryAnalysis
    """The simulated work."""
    predictions: tuple[RecoveryPrediction, ...]
    """One for each size of shared_buffers."""
    coefficients: Coefficients
    disk: Disk
    notes: tuple[str, ...]
    """Where coefficients and settings come from, and what was not used."""


@dataclass(frozen=True, slots=True)
class DistanceForecast:
    """Recovery times by distance from the redo point, with a warm cache."""

    with_images: tuple[RecoveryAnalysis, ...]
    """The simulated work with full_page_writes, from several places of the recording."""
    without_images: tuple[RecoveryAnalysis, ...]
    buffers: int
    coefficients: Coefficients
    image: MeanImage
    """Images of the recording."""
    notes: tuple[str, ...]
    """Notes as in ``Forecast``, and what the times leave out."""
    _curves: dict[tuple[bool, MeanImage], RecoveryCurve] = field(
        default_factory=dict, repr=False, compare=False
    )

    def curve(self, *, full_page_writes: bool, image: MeanImage | None = None) -> RecoveryCurve:
        """Times of a server with such images; default: those of the recording."""
        asked = (full_page_writes, image or self.image)
        if asked not in self._curves:
            work = self.with_images if full_page_writes else self.without_images
            self._curves[asked] = recovery_curve(work, self.buffers, self.coefficients, asked[1])
        return self._curves[asked]

    def seconds(self, distance: float, *, full_page_writes: bool, image: MeanImage | None = None) -> float:
        """Seconds until connections are accepted, of a recovery of ``distance`` bytes of WAL.

        Where images are small, as many bytes hold more records.
        """
        return self.curve(full_page_writes=full_page_writes, image=image).seconds(distance)

    def image_of(self, server: ServerPrediction) -> MeanImage:
        """Images that the server would write."""
        method = server.target.wal_compression
        compression = self.image.compression if method == "as recorded" else method
        size = self.image.bytes if server.image_bytes is None else server.image_bytes
        # Servers that differ in less have one curve.
        return MeanImage(float(f"{size:.2g}"), compression)

    def longest_s(self, server: ServerPrediction) -> float:
        """Seconds of the longest recovery of a server of `walproof.analysis.whatif`."""
        images = server.target.full_page_writes
        return self.seconds(server.distance_most, full_page_writes=images, image=self.image_of(server))


def differences(calibration: Calibration, version: int, here: MachineFacts) -> tuple[str, ...]:
    """How the calibrated machine and server differ from ``here`` and from the major version of a
    recording."""
    machine = calibration.machine
    lines = [
        f"{name}: calibrated {getattr(machine, name)}, here {value}"
        for name, value in here._asdict().items()
        if getattr(machine, name) != value
    ]
    if major_minor(machine.version)[0] != version:
        lines.append(f"version: calibrated {machine.version}, recorded {version}")
    return tuple(lines)


def calibrated_costs(calibration: Calibration) -> Costs:
    """The costs that were calibrated. Raises AnalysisError as `fit`."""
    machine = calibration.machine
    note = (
        f"Costs were calibrated on {format_utc(calibration.made_at)}: {machine.cpu}, {machine.cores} cores, "
        f"PostgreSQL {machine.version}."
    )
    disk = Disk(calibration.read_iops, calibration.read_latency_us, calibration.read_ahead_kb)
    return Costs(fit(calibration), disk, (note,), machine.version, calibration.sync)


def of_minors(costs: Costs, recorded: Collection[str]) -> Costs:
    """``costs`` with a note when the WAL, or the WAL and the calibration, is of several minors.

    ``recorded``: the versions whose WAL is read, as far as recordings say them.
    """
    prices = [costs.calibrated] if costs.calibrated is not None and recorded else []
    compared = compared_minors([*recorded, *prices])
    return costs if compared is None else replace(costs, notes=(*costs.notes, compared))


def choose_costs(calibrations: Iterable[Calibration], version: int, here: MachineFacts) -> Costs:
    """The costs of the first calibration of this machine and major version, else the shipped ones.

    ``calibrations``: newest first. One that costs cannot be told from is passed over.
    """
    unlike: list[tuple[str, ...]] = []
    for calibration in calibrations:
        unlike.append(differences(calibration, version, here))
        if not unlike[-1]:
            try:
                return calibrated_costs(calibration)
            except AnalysisError as error:
                unlike[-1] = (error.message,)
    shipped = Costs()
    if not unlike:
        return shipped
    note = "The newest calibration at hand is not used: " + "; ".join(unlike[0])
    return replace(shipped, notes=(*shipped.notes, note))


def forecast(
    *paths: WalPath,
    buffers: Sequence[int] | None = None,
    crashed: int | None = None,
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    distance: int | None = None,
    concurrency: int | None = None,
    allow_gaps: bool = False,
    costs: Costs | None = None,
    crash: OwnCrash | None = None,
    observe: Observe | None = None,
) -> Forecast:
    """Predict the recovery of a server that crashes at the end of recorded WAL.

    ``paths``: pg_wal or archive folders and segments of one recording. ``buffers``: sizes of shared_buffers
    of the server that recovers, in buffers of 8 kB; default: the recorded server's, else 128 MB. ``crashed``:
    the same of the server that crashes; default: the recorded server's, else the first of ``buffers``.
    ``start``: the redo point; default: that of the last complete checkpoint. ``distance``: bytes from the
    redo point to the crash. ``concurrency``: maintenance_io_concurrency. ``costs``: the shipped ones by
    default. ``crash``: a measured recovery, to which the shipped coefficients are scaled. Its WAL is read by
    itself, and its server is taken to have had ``crashed``; the disk stays that of ``costs``. ``observe`` is
    told how far each reading of the WAL has come.

    Times are in seconds. Raises WalError as `walproof.wal.recovery.analyse`, when the WAL ends before
    ``distance``, and when that of ``crash`` is not at hand; AnalysisError when ``crash`` is too short.
    """
    costs = costs or Costs()
    buffers, notes = _buffers(buffers, paths)
    crashed = _crashed_buffers(paths, buffers) if crashed is None else crashed
    redo = find_redo(*paths, end=end, timeline=timeline, observe=observe).redo if start is None else start

    def work(
        until: Lsn | None, marks: Sequence[Lsn] = (), *, begin: Lsn = redo, sizes: Sequence[int] = buffers
    ) -> RecoveryAnalysis:
        return analyse(
            *paths, buffers=sizes, start=begin, end=until, timeline=timeline, allow_gaps=allow_gaps,
            concurrency=concurrency, marks=marks, crashed=crashed, read_ahead_kb=costs.disk.read_ahead_kb,
            observe=observe,
        )  # fmt: skip

    if distance is None:
        found = work(end)
    else:
        marked = work(end, [Lsn(redo + distance)])
        if len(marked.steps) == 1:
            before = Lsn(max(0, marked.last.end - distance))
            earlier = redo_before(*paths, before=before, timeline=timeline, observe=observe)
            raise _too_short(marked.last, distance, earlier)
        found = replace(marked, steps=marked.steps[:1], finish_reason=None)
        if found.last.done:
            # Pages written only after the crash cannot be newer than their records.
            found = work(found.last.end)
    coefficients = costs.coefficients
    if crash is None:
        notes += costs.notes
    else:
        own = [crashed]  # its server was started again as it had been
        coefficients = _scaled(crash, crashed, lambda begin, to: work(to, begin=begin, sizes=own))
        notes += (f"Costs are the shipped ones, scaled to the recovery in {crash.source}.",)
    if found.last.done:
        notes += (
            f"{say_percent(found.last.done / found.last.references)} of block references are to pages that a "
            f"server with shared_buffers = {format_bytes(crashed * PAGE_BYTES)} had written before it "
            "crashed; replay passes them over.",
        )
    predictions = tuple(predict(found.last, size, coefficients, costs.disk) for size in buffers)
    if any(is_limited(prediction) for prediction in predictions):
        # A second look at the same WAL, piece by piece.
        way = work(found.last.end, places(found.last)).steps[:-1]
        predictions = tuple(predict(found.last, size, coefficients, costs.disk, way) for size in buffers)
    return Forecast(found, predictions, coefficients, costs.disk, notes)


def forecast_distances(
    *paths: WalPath,
    buffers: int | None = None,
    full_page_writes: bool = True,
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    allow_gaps: bool = False,
    costs: Costs | None = None,
    observe: Observe | None = None,
) -> DistanceForecast:
    """Predict recoveries by their distance, for servers with other checkpoints (see `recovery_curve`).

    Arguments as of `forecast`; ``buffers`` is one size. ``full_page_writes``: of the recorded server, for
    whom the notes say up to which distance the WAL tells the times. Raises WalError as
    `walproof.wal.recovery.analyse`.
    """
    costs = costs or Costs()
    (size, *_), notes = _buffers(None if buffers is None else [buffers], paths)
    whole = analyse(
        *paths, buffers=[16], start=start, end=end, timeline=timeline, allow_gaps=allow_gaps, observe=observe
    )
    image = mean_image(whole)
    span = whole.last.end - whole.start
    # At the beginning of a segment there is always a record to find; after a gap, where the gap ends.
    shares = {segment_holding(int(whole.start + span * share), whole.segment_size) for share in STARTS}
    begins = {
        next((int(gap.end) for gap in whole.gaps if gap.start <= place < gap.end), place) for place in shares
    }

    def work(images: Images) -> tuple[RecoveryAnalysis, ...]:
        analyses = []
        for begin in sorted(Lsn(max(place, whole.start)) for place in begins):
            marks = [Lsn(begin + (whole.last.end - begin) * part // _MARKS) for part in range(1, _MARKS)]
            analyses.append(
                analyse(
                    *paths, buffers=[size], start=begin, end=end, timeline=timeline, allow_gaps=allow_gaps,
                    marks=marks, images=images, observe=observe,
                )
            )  # fmt: skip
        return tuple(analyses)

    found = DistanceForecast(work("first"), work("off"), size, costs.coefficients, image, ())
    farthest = found.curve(full_page_writes=full_page_writes).farthest
    limits = (
        f"Recovery times are up to {costs.coefficients.band:.1f} times longer in 1 of 20 cases; they are "
        "for a warm cache. Redo points are simulated; the first change of a page after a redo point is "
        f"assumed to write an image of mean size. Distances beyond {format_bytes(farthest)} are extrapolated."
    )
    return replace(found, notes=(*notes, *costs.notes, limits))


def _recorded_buffers(paths: Sequence[WalPath]) -> str | None:
    recording = find_recording(paths)
    return None if recording is None else recording.settings.get("shared_buffers")


def _buffers(given: Sequence[int] | None, paths: Sequence[WalPath]) -> tuple[list[int], tuple[str, ...]]:
    """Sizes in buffers, and what was assumed."""
    if given:
        return list(given), ()
    size = _recorded_buffers(paths)
    if size is not None:
        return [parse_bytes(size) // PAGE_BYTES], (f"shared_buffers = {size} is the recorded server's.",)
    note = (
        "shared_buffers is taken to be 128 MB, the default: --shared-buffers says what the server will have."
    )
    return [DEFAULT_BUFFERS], (note,)


def _crashed_buffers(paths: Sequence[WalPath], buffers: Sequence[int]) -> int:
    size = _recorded_buffers(paths)
    return buffers[0] if size is None else parse_bytes(size) // PAGE_BYTES


def _too_short(whole: RecoveryWork, distance: int, earlier: Lsn | None) -> WalError:
    """That the recording ends before that distance; ``earlier``: a redo point after which it does not."""
    got = whole.wal_bytes
    shorter = f"--distance={got >> 10}kB can be answered" if got >> 10 else ""
    if earlier is None:
        hint = f"{shorter}, or record longer." if shorter else "Record longer."
    else:
        hint = f"--start={earlier} takes that earlier location as the redo point; after it there is enough."
        hint += f" Without it, {shorter}." if shorter else ""
    return WalError(
        f"the WAL after the redo point is shorter than the distance: {format_bytes(distance)}",
        detail=f"After the redo point {whole.start} there are {format_bytes(got)} of WAL.",
        hint=hint,
    )


def _scaled(crash: OwnCrash, buffers: int, work: Callable[[Lsn, Lsn], RecoveryAnalysis]) -> Coefficients:
    """The shipped coefficients, scaled to the crash of a server with so many buffers.

    ``work`` is that between two locations. Raises WalError when the WAL of the crash is not at hand,
    AnalysisError as `scale_to_crash`.
    """
    begun, done = crash.times.redo_start, crash.times.redo_end
    try:
        # Without the last record, which begins where redo was done.
        found = work(begun, done)
    except WalError as error:
        raise WalError(
            "the WAL of the recovery in the log is not all at hand",
            detail=f"Its redo went from {begun} to {done}: {error.message}. {error.detail or ''}".rstrip(),
            hint="Add the segments that it replayed, or leave out --crash-log.",
        ) from error
    if found.start != begun or not found.last.records or done - found.last.end > _PAGE_HEADER_BYTES:
        raise WalError(
            "the log describes the recovery of other WAL",
            detail=f"Its redo went from {begun} to {done}; in the WAL at hand no record begins at "
            f"{begun if found.start != begun else done}.",
            hint="Name the log of the server whose WAL this is.",
        )
    return scale_to_crash(found.last, buffers, crash.times)

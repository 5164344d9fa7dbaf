"""What each part of a recovery costs on a machine, learned from measured ones.

From a calibration by non-negative least squares, rows weighted by 1/time and held weakly to the shipped
coefficients; from the log of your last crash as the shipped ones times one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeVar

from walproof.analysis.recovery_costs import (
    CHECKPOINT_TERMS,
    COLD_TERMS,
    MB,
    SHIPPED,
    TERMS,
    Coefficients,
    cold_checkpoint,
    predict,
    redo_terms_s,
    term_units,
)
from walproof.errors import AnalysisError
from walproof.facts.calibration import Calibration, CheckpointRun, ColdReplay, PhaseReplay
from walproof.facts.recovery_log import RecoveryTimes
from walproof.wal.recovery import RecoveryWork

_RIDGE = 0.005
"""Weight of the shipped coefficients: a row of this weight for each."""

_NAMES = tuple(term.name for term in TERMS)


def fit(calibration: Calibration) -> Coefficients:
    """Coefficients of the machine that was calibrated.

    Raises AnalysisError when too few phases were seen to tell the terms apart.
    """
    phases = _median_repeats(calibration.phases)
    if len({phase.phase for phase in phases}) < 6 or len({phase.buffers for phase in phases}) < 2:
        raise AnalysisError(
            "the calibration saw too few phases to tell costs apart",
            detail=f"{len(phases)} replays of {len({phase.phase for phase in phases})} phases were seen.",
            hint="Calibrate again on a quieter machine.",
        )
    rows = [term_units(phase.work) for phase in phases]
    costs = [phase.cpu_s * 1e6 for phase in phases]
    cpu = _least_squares(rows, costs, costs, [term.shipped_us for term in TERMS])
    cpu_us = dict(zip(_NAMES, cpu, strict=True))
    checkpoint = _fit_checkpoint(calibration.checkpoints)
    return Coefficients(
        "calibrated",
        cpu_us,
        _fit_cold(calibration.cold),
        checkpoint,
        _median_error(phases, cpu_us),
        max(0.0, calibration.fresh_touch_us - calibration.touch_us),
    )


def _median_repeats(phases: Iterable[PhaseReplay]) -> list[PhaseReplay]:
    """One row for each phase, size and recovery_prefetch.

    The median: a machine that others use gives memory to one replay at once, and to the next one late. The
    work is a median, too: combined calibrations each have their own load.
    """
    seen = (phase for phase in phases if phase.cpu_s > 0)
    return [
        replace(
            replays[0],
            cpu_s=median(replay.cpu_s for replay in replays),
            work={name: median(replay.work[name] for replay in replays) for name in replays[0].work},
        )
        for replays in _together(seen, lambda replay: (replay.phase, replay.buffers, replay.prefetch))
    ]


_Row = TypeVar("_Row")


def _together(rows: Iterable[_Row], kind: Callable[[_Row], object]) -> list[list[_Row]]:
    """The groups of replays of one kind."""
    kinds: dict[object, list[_Row]] = {}
    for row in rows:
        kinds.setdefault(kind(row), []).append(row)
    return list(kinds.values())


def repeat_difference(calibration: Calibration, coefficients: Coefficients) -> float | None:
    """The median share by which replays of one phase with equal shared_buffers differ; None if each has only
    one.

    Beyond what their work, by these coefficients, makes them differ: with and without the prefetcher it is
    much the same, not quite. Large on a machine that others use, too: the costs are then those of the minutes
    of the calibration.
    """
    said = [(phase, sum(redo_terms_s(phase.work, coefficients).values())) for phase in calibration.phases]
    seen = (pair for pair in said if pair[0].cpu_s > 0 and pair[1] > 0)
    times = [
        [phase.cpu_s / expected_s for phase, expected_s in pairs]
        for pairs in _together(seen, lambda pair: (pair[0].phase, pair[0].buffers))
    ]
    differences = [max(ratios) / min(ratios) - 1 for ratios in times if len(ratios) > 1]
    return median(differences) if differences else None


def scale_to_crash(work: RecoveryWork, buffers: int, times: RecoveryTimes) -> Coefficients:
    """The shipped coefficients, scaled by the measured time of the user's crash over their prediction for it.

    ``work`` is that of the same crash. Raises AnalysisError when the log has no time, or too short a one.
    """
    measured = times.cpu_s if times.cpu_s is not None else times.redo_elapsed_s
    if measured is None or measured < 0.1:
        raise AnalysisError(
            "the recovery in the log is too short to learn from",
            detail=f"expected 0.1 s of CPU at least, got {measured if measured is not None else 'none'}",
            hint="The figures of the log are in steps of 10 ms; use a longer one, or calibrate.",
        )
    before = predict(work, buffers, SHIPPED)
    factor = measured / before.warm_s
    checkpoint = 1.0
    if times.checkpoint is not None and times.checkpoint.total_s > 0.05 and before.checkpoint_s > 0:
        checkpoint = times.checkpoint.total_s / before.checkpoint_s
    return replace(
        SHIPPED,
        source="own crash",
        cpu_us={name: cost * factor for name, cost in SHIPPED.cpu_us.items()},
        cold_us={name: cost * factor for name, cost in SHIPPED.cold_us.items()},
        checkpoint_us={name: cost * checkpoint for name, cost in SHIPPED.checkpoint_us.items()},
    )


def _least_squares(
    rows: Sequence[Sequence[float]],
    costs: Sequence[float],
    scales: Sequence[float],
    shipped: Sequence[float],
) -> list[float]:
    """Non-negative coefficients; rows weighted by 1/scale, and one weak row for each shipped coefficient."""
    import numpy as np
    from scipy.optimize import nnls

    scale = np.asarray(scales, dtype=float)
    matrix, target = np.asarray(rows, dtype=float) / scale[:, None], np.asarray(costs, dtype=float) / scale
    prior = np.asarray(shipped, dtype=float)
    # Scaled, so that a coefficient of 1 is the shipped one.
    scaled = matrix * prior
    weight = np.sqrt(_RIDGE)
    found, _ = nnls(
        np.vstack([scaled, weight * np.eye(len(prior))]),
        np.concatenate([target, weight * np.ones(len(prior))]),
    )
    return [float(cost) for cost in found * prior]


def _fit_checkpoint(runs: Iterable[CheckpointRun]) -> dict[str, float]:
    medians = _median_runs(runs)
    if len(medians) < 4:
        return dict(CHECKPOINT_TERMS)
    names = [name for name, _ in CHECKPOINT_TERMS if name != "segments"]
    totals = [run.pages_s * 1e6 for run in medians]
    warm = [{"resident": run.resident, "spilled": run.spilled, "runs": run.runs} for run in medians]
    work = [
        cold_checkpoint(counts) if run.is_cold else counts for run, counts in zip(medians, warm, strict=True)
    ]
    costs = _least_squares(
        [[counts.get(name, 0.0) for name in names] for counts in work],
        totals,
        totals,
        [cost for name, cost in CHECKPOINT_TERMS if name != "segments"],
    )
    found = dict(CHECKPOINT_TERMS) | dict(zip(names, costs, strict=True))
    # What it does besides the server tells apart, so nothing has to be fitted.
    segments_us = [run.rest_s * 1e6 / run.segments for run in medians if run.segments]
    return found | ({"segments": median(segments_us)} if segments_us else {})


def _median_runs(runs: Iterable[CheckpointRun]) -> list[CheckpointRun]:
    """One run for each place, size and cache, as in `_median_repeats`: whole replays make many."""
    seen = (run for run in runs if run.pages_s > 0)
    return [
        replace(
            repeats[0],
            resident=median(run.resident for run in repeats),
            spilled=median(run.spilled for run in repeats),
            runs=median(run.runs for run in repeats),
            pages_s=median(run.pages_s for run in repeats),
            rest_s=median(run.rest_s for run in repeats),
        )
        for repeats in _together(seen, lambda run: (run.phase, run.buffers, run.is_cold))
    ]


def _fit_cold(replays: Iterable[ColdReplay]) -> dict[str, float]:
    """Fit how much longer each phase took than with a warm cache, weighted by its total time."""
    usable = [replay for replay in replays if replay.cpu_s > 0]
    if not usable:
        return dict(COLD_TERMS)
    costs = _least_squares(
        [[replay.requests, replay.wal_bytes / MB] for replay in usable],
        [(replay.cpu_s - replay.warm_cpu_s) * 1e6 for replay in usable],
        [replay.cpu_s * 1e6 for replay in usable],
        [cost for _, cost in COLD_TERMS],
    )
    return dict(zip((name for name, _ in COLD_TERMS), costs, strict=True))


def _median_error(phases: Sequence[PhaseReplay], cpu_us: Mapping[str, float]) -> float:
    errors = []
    for phase in phases:
        units = zip(_NAMES, term_units(phase.work), strict=True)
        errors.append(abs(sum(count * cpu_us[name] for name, count in units) / 1e6 / phase.cpu_s - 1))
    return median(errors)

"""What a calibration found, as the terminal shows it."""

from __future__ import annotations

from walproof.analysis.recovery_costs import CHECKPOINT_TERMS, COLD_TERMS, TERMS, Coefficients
from walproof.analysis.recovery_fit import repeat_difference
from walproof.facts.calibration import Calibration
from walproof.sentences import say_percent

_QUIET_DIFFERENCE = 0.08
"""Spread of the replays of a phase above which costs hold only for the minutes of the calibration."""


def calibration_text(calibration: Calibration, coefficients: Coefficients) -> str:
    """A line for each cost beside the shipped one, then the disk, the memory, and the precision."""
    machine = calibration.machine
    lines = [
        f"What does a recovery cost on {machine.cpu}, {machine.cores} cores, PostgreSQL {machine.version}?",
        "",
        f"{'':<82}{'here':>9}{'shipped':>9}",
    ]
    lines += [
        _cost(f"{term.says}, us for each {term.unit}", coefficients.cpu_us[term.name], term.shipped_us)
        for term in TERMS
    ]
    cold = {"requests": "read of pages", "wal": "MB of WAL"}
    lines += [
        _cost(f"CPU of reading from the disk, us for each {cold[name]}", coefficients.cold_us[name], shipped)
        for name, shipped in COLD_TERMS
    ]
    says = {
        "resident": "dirty page",
        "spilled": "dirty page that the kernel got before",
        "runs": "run of these",
        "cold_resident": "dirty page, with a cold cache besides",
        "cold_spilled": "dirty page that the kernel got before, with a cold cache besides",
        "segments": "segment of WAL that is recycled",
    }
    lines += [
        _cost(f"checkpoint, us for each {says[name]}", coefficients.checkpoint_us[name], shipped)
        for name, shipped in CHECKPOINT_TERMS
    ]
    if calibration.read_iops is not None and calibration.read_latency_us is not None:
        lines.append(
            f"\nThe disk: {calibration.read_iops:,.0f} random reads of 8 kB a second, "
            f"{calibration.read_latency_us:.0f} us for one alone, "
            f"up to {calibration.read_ahead_kb:,} kB read ahead by the kernel."
        )
    fresh_us, touch_us = calibration.fresh_touch_us, calibration.touch_us
    memory = f"The first use of 8 kB of memory: {touch_us:.1f} us"
    if fresh_us > 1.5 * touch_us:
        memory += f"; {fresh_us:.1f} us where the host has taken back what was free. Costs are without that"
    lines.append(f"{memory}.")
    if coefficients.phase_error is not None:
        lines.append(f"Median error of the fit on its own phases: {say_percent(coefficients.phase_error)}.")
    difference = repeat_difference(calibration, coefficients)
    if difference is not None:
        line = f"Replays of a phase differed by {say_percent(difference)} in the median"
        is_quiet = difference < _QUIET_DIFFERENCE
        advice = "this machine is not quiet. At another hour, calibrate again with --add."
        lines.append(f"{line}." if is_quiet else f"{line}: {advice}")
    return "\n".join(lines) + "\n"


def _cost(what: str, here: float, shipped: float) -> str:
    return f"{what:<82}{here:9.3g}{shipped:9.3g}"

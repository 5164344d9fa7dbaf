"""Rules about WAL volume, and about checkpoints that fell unevenly."""

from __future__ import annotations

from walproof.advise.case import Case, pair_numbers
from walproof.advise.finding import Finding, FindingKind
from walproof.advise.limits import commit_flush, row_lock
from walproof.advise.wording import say_ratio, say_ratio_in_brackets
from walproof.analysis.effect import Conclusion, Effect, effects
from walproof.sentences import say_percent
from walproof.settings.catalogue import as_shown

NOTABLE_CHANGE = 0.02
"""A smaller change in WAL volume is measurable, but not worth a sentence."""
_VOLUME_SETTINGS = frozenset(
    {
        "checkpoint_completion_target",
        "checkpoint_timeout",
        "full_page_writes",
        "max_wal_size",
        "track_commit_timestamp",
        "wal_compression",
        "wal_level",
        "wal_log_hints",
        "wal_skip_threshold",
    }
)
"""Settings that change what the same transactions write."""
UNEVEN = 0.30
"""Difference in checkpoint share from which a ratio needs the warning."""


def wal_volume(case: Case) -> Finding | None:
    """Bytes of WAL per transaction against the baseline, and whether the throughput cares."""
    if case.effect is None:
        return None
    wanted = effects(case.plan, case.trials, "wal_bytes_per_txn")
    volume = next(effect for effect in wanted if effect.cell == case.cell)
    if volume.ratio is None or volume.interval is None:
        return None
    evidence = case.pick("wal_bytes_per_txn", "wal_fpi_per_txn")
    evidence["wal_bytes_per_txn_ratio"] = volume.ratio
    if _is_change(volume) and (shared := _shared_images(case, volume)) is not None:
        return case.find(FindingKind.WAL, shared, evidence, pair_numbers(volume))
    if _is_change(volume):
        sentence = (
            f"{_name(case)} {'saved' if volume.ratio < 1 else 'added'} {_say_change(volume)} "
            f"of WAL bytes per transaction"
        )
        if volume.ratio < 1 and case.effect.conclusion is Conclusion.NO_DIFFERENCE and _waits_for_flush(case):
            sentence += ", but commits wait for the flush, not for bytes"
        return case.find(FindingKind.WAL, sentence, evidence, pair_numbers(volume))
    images = case.baseline_mean.get("wal_fpi_per_txn")
    if "full_page_writes" not in as_shown(case.variant.settings) or images is None:
        return None
    sentence = (
        f"{_name(case)} made no notable difference to the WAL bytes per transaction "
        f"({say_ratio_in_brackets(volume.ratio, volume.interval)}): "
        f"{case.plan.baseline} wrote {images:.2g} full-page images per transaction"
    )
    return case.find(FindingKind.WAL, sentence, evidence, pair_numbers(volume))


def changed_level(case: Case) -> Finding | None:
    """Logical decoding was switched on or off within windows, by a slot that came or went (from 19)."""
    changed = [trial for trial in case.finished if trial.metrics.get("wal_level_changes")]
    if not changed:
        return None
    sentence = (
        f"effective_wal_level changed within {len(changed)} of {len(case.finished)} windows, because a "
        "logical slot was made or dropped: their WAL is partly that of wal_level=logical"
    )
    evidence = {"wal_level_changes": max(trial.metrics["wal_level_changes"] for trial in changed)}
    return case.find(FindingKind.WAL, sentence, evidence, [trial.number for trial in changed])


def uneven_checkpoints(case: Case) -> Finding | None:
    """A checkpoint ran for much more, or much less, of the variant's windows than of the baseline's."""
    name = "checkpoint_active_share"
    mean, other = case.mean.get(name), case.baseline_mean.get(name)
    if case.effect is None or mean is None or other is None or abs(mean - other) < UNEVEN:
        return None
    sentence = (
        f"a checkpoint was active for {say_percent(mean)} of the measured time, "
        f"and for {say_percent(other)} with {case.plan.baseline}: the ratio includes that difference"
    )
    trials = case.numbers((case.cell[1],), (case.plan.baseline, case.cell[2]))
    return case.find(FindingKind.CHECKPOINT, sentence, {name: mean, f"baseline {name}": other}, trials)


def _shared_images(case: Case, volume: Effect) -> str | None:
    """What is said instead of a saving where the variant's settings do not act on the volume of WAL: in the
    same time a faster variant spreads the images that follow a checkpoint over more transactions."""
    speed = case.effect
    if speed is None or speed.metric != "tps" or speed.ratio is None or volume.ratio is None:
        return None
    differs = speed.conclusion in (Conclusion.HIGHER, Conclusion.LOWER)
    is_timed = case.plan.workload(case.cell.workload).transactions is None
    baseline = case.plan.settings_of(case.plan.variant(case.plan.baseline))
    own = case.plan.settings_of(case.variant)
    changed = {name for name in {*own, *baseline} if own.get(name) != baseline.get(name)}
    is_opposite = (speed.ratio > 1) is (volume.ratio < 1)
    if not (differs and is_timed and is_opposite) or not changed or changed & _VOLUME_SETTINGS:
        return None
    word = "less" if volume.ratio < 1 else "more"
    return (
        f"{_name(case)} wrote {_say_change(volume)} {word} WAL per transaction, with "
        f"{say_ratio(speed.ratio, speed.interval)} the transactions in the same time: they share the "
        "page images that follow a checkpoint, so equal work (compare --transactions) may write as much"
    )


def _is_change(volume: Effect) -> bool:
    assert volume.ratio is not None
    return (
        volume.conclusion in (Conclusion.HIGHER, Conclusion.LOWER) and abs(volume.ratio - 1) >= NOTABLE_CHANGE
    )


def _say_change(volume: Effect) -> str:
    assert volume.ratio is not None
    assert volume.interval is not None
    low, high = sorted(100 * abs(end - 1) for end in (volume.interval.low, volume.interval.high))
    return f"{say_percent(abs(volume.ratio - 1))} ({low:.0f} to {high:.0f})"


def _name(case: Case) -> str:
    """The settings when they are few enough to read, else the variant's name."""
    settings = case.variant.settings
    if len(settings) != 1:
        return case.variant.name
    return "".join(f"{name}={value}" for name, value in settings.items())


def _waits_for_flush(case: Case) -> bool:
    locked = row_lock(case)
    behind_lock = locked is not None and "WAL flush" in locked.sentence
    return commit_flush(case) is not None or behind_lock

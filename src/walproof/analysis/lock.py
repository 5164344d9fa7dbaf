"""How much of what a flush costs at scale 1 is the disk, and how much is a lock held across the flush?

At scale 1 every transaction of pgbench's TPC-B updates the one row of pgbench_branches and holds that row
lock until its commit is flushed, so commits queue behind one another and

    tps = 1 / (L + c)        L: flush time seen by a commit, c: all other work of a transaction

Without the flush wait (fsync=off) the same queue runs at 1 / c, so both are known from two figures of a
round: c = 1 / tps(no flush), L = 1 / tps(baseline) - c. The gain is then 1 + L / c by construction: it is
a prediction only where L comes from elsewhere, as from the probe's ``wal_sync_ms_avg``.

At a scale of at least the number of clients few transactions meet on a row, and one flush serves many
commits (group commit). What fsync=off gains there is what the flush costs when no lock is held across it.
So, on the log scale, where gains multiply:

    disk share = log(gain at large scale) / log(gain at scale 1)        lock share = 1 - disk share
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from walproof.analysis.contrast import contrasts
from walproof.analysis.effect import Conclusion, conclude
from walproof.analysis.interval import LEVEL, Interval, mean_interval, t_quantile
from walproof.analysis.rounds import index_trials, positive_metric, rounds_of
from walproof.facts import Cell, Plan, Trial, Workload

_NO_FLUSH = ({"fsync": "off"}, {"synchronous_commit": "off"})
"""Variants without a flush wait, the better measure of c first: walwriter still flushes in the second."""
_BRANCH_UPDATE = re.compile(r"\bupdate\s+pgbench_branches\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LockShare:
    """Division of the gain at scale 1 between lock and disk, in shares that sum to 1."""

    lock: float
    disk: float
    interval: Interval | None
    """Interval of the lock share; None for fewer than two rounds."""


@dataclass(frozen=True, slots=True)
class CommitLock:
    """The commit-lock model of one install, from the baseline and a variant without flush waits."""

    install: str
    workload: str
    """The workload at scale 1."""
    variant: str
    """The variant without flush waits."""
    n: int
    """Rounds used at scale 1."""
    flush_s: float
    """L: how long a commit waits for its flush."""
    flush_interval_s: Interval | None
    work_s: float
    """c: all other work of a transaction while it holds the row lock."""
    work_interval_s: Interval | None
    gain: float
    """Geometric mean over rounds of tps(no flush) / tps(baseline); 1 + L / c."""
    gain_interval: Interval | None
    sync_ms: float | None
    """Mean time of a WAL flush that the probe saw in the baseline's windows."""
    predicted_gain: float | None
    """1 + sync_ms / c: what the model predicts from the probe's flush time."""
    large_workload: str | None
    """The same load at a scale >= clients, when the plan has one."""
    large_gain: float | None
    large_gain_interval: Interval | None
    share: LockShare | None
    share_reason: str | None
    """Why there is no share."""


def commit_lock(plan: Plan, trials: Sequence[Trial], install: str) -> CommitLock | str:
    """The model for one install, or one line that says why the facts do not allow it."""
    variant = _no_flush_variant(plan)
    if variant is None:
        return "no variant sets only fsync=off or only synchronous_commit=off"
    small = next((w for w in plan.workloads if _is_one_row(w)), None)
    if small is None:
        return "no workload makes several clients update the one branch row (TPC-B-like, scale 1)"
    pairs = _tps_pairs(plan, trials, (install, small.name), variant)
    if not pairs:
        return f"no round holds finished trials of {plan.baseline} and {variant} at scale 1"
    logs = [math.log(free / waiting) for _, waiting, free in pairs]
    work = [1 / free for _, _, free in pairs]
    flush = [1 / waiting - 1 / free for _, waiting, free in pairs]
    gain_interval = _gain_interval(plan, trials, Cell(install, small.name, variant))
    if fmean(logs) <= 0 or conclude(gain_interval) is Conclusion.NO_DIFFERENCE:
        return f"{variant} gains nothing measurable at scale 1: no flush time to divide"
    sync_ms = _mean_sync_ms(trials, Cell(install, small.name, plan.baseline))
    large = next((w for w in plan.workloads if _is_many_rows(w, small)), None)
    large_pairs = _tps_pairs(plan, trials, (install, large.name), variant) if large else []
    large_logs = [math.log(free / waiting) for _, waiting, free in large_pairs]
    large_gain_interval = _gain_interval(plan, trials, Cell(install, large.name, variant)) if large else None
    share, reason = _divide(pairs, large_pairs)
    return CommitLock(
        install=install,
        workload=small.name,
        variant=variant,
        n=len(pairs),
        flush_s=fmean(flush),
        flush_interval_s=mean_interval(flush),
        work_s=fmean(work),
        work_interval_s=mean_interval(work),
        gain=math.exp(fmean(logs)),
        gain_interval=gain_interval,
        sync_ms=sync_ms,
        predicted_gain=1 + sync_ms / 1000 / fmean(work) if sync_ms is not None else None,
        large_workload=large.name if large else None,
        large_gain=math.exp(fmean(large_logs)) if large_logs else None,
        large_gain_interval=large_gain_interval,
        share=share,
        share_reason=reason,
    )


_Pair = tuple[int, float, float]
"""(round, tps of the baseline, tps without flush waits)."""


def _divide(pairs: Sequence[_Pair], large_pairs: Sequence[_Pair]) -> tuple[LockShare | None, str | None]:
    small = {number: math.log(free / waiting) for number, waiting, free in pairs}
    both = [(small[n], math.log(free / waiting)) for n, waiting, free in large_pairs if n in small]
    if not both:
        return None, "no round holds the same load at a scale of at least the number of clients"
    gain, large_gain = fmean(pair[0] for pair in both), fmean(pair[1] for pair in both)
    if gain <= 0 or large_gain >= gain:
        return None, "the gain is no smaller at the larger scale: the lock explains none of it"
    if large_gain < 0:
        interval = mean_interval([pair[1] for pair in both])
        if interval is None or not interval.contains(0.0):
            return None, "at the larger scale the variant is slower than the baseline"
    # A gain that measures just below 1 at the larger scale is noise around "the disk explains nothing".
    disk = max(0.0, large_gain / gain)
    if len(both) < 2:
        return LockShare(lock=1 - disk, disk=disk, interval=None), None
    # Error of a ratio of two means from the same rounds, to first order (the delta method).
    errors = [(big - large_gain / gain * little) / gain for little, big in both]
    reach = t_quantile(LEVEL, len(both) - 1) * stdev(errors) / math.sqrt(len(both))
    lock = 1 - disk
    return LockShare(lock, disk, Interval(max(0.0, lock - reach), min(1.0, lock + reach), LEVEL, "t")), None


def _tps_pairs(plan: Plan, trials: Sequence[Trial], where: tuple[str, str], variant: str) -> list[_Pair]:
    index = index_trials(trials)
    pairs = []
    for number in rounds_of(trials):
        waiting = positive_metric(index.get((number, Cell(*where, plan.baseline))), "tps")
        free = positive_metric(index.get((number, Cell(*where, variant))), "tps")
        if waiting is not None and free is not None:
            pairs.append((number, waiting, free))
    return pairs


def _no_flush_variant(plan: Plan) -> str | None:
    baseline = plan.settings_of(plan.variant(plan.baseline))
    flushed = {"fsync": "on", "synchronous_commit": "on", **baseline}
    if flushed["fsync"] != "on" or flushed["synchronous_commit"] == "off":
        return None  # The baseline does not wait for the flush either.
    for settings in _NO_FLUSH:
        for variant in plan.variants:
            if plan.settings_of(variant) == {**baseline, **settings}:
                return variant.name
    return None


def _is_one_row(workload: Workload) -> bool:
    """Whether every transaction updates the only branch row, by several clients at full speed."""
    updates = workload.builtin == "tpcb-like" or (
        bool(workload.scripts) and all(_BRANCH_UPDATE.search(script.text) for script in workload.scripts)
    )
    return updates and workload.scale == 1 and workload.clients > 1 and workload.rate_tps is None


def _is_many_rows(workload: Workload, small: Workload) -> bool:
    """Whether it is the load of ``small`` with at least one branch row per client."""
    same = ("builtin", "scripts", "clients", "threads", "protocol", "rate_tps")
    return workload.scale >= workload.clients and all(
        getattr(workload, name) == getattr(small, name) for name in same
    )


def _mean_sync_ms(trials: Sequence[Trial], cell: Cell) -> float | None:
    values = [
        value
        for trial in trials
        if trial.cell == cell and (value := positive_metric(trial, "wal_sync_ms_avg")) is not None
    ]
    return fmean(values) if values else None


def _gain_interval(plan: Plan, trials: Sequence[Trial], cell: Cell) -> Interval | None:
    """The interval that the cell's effect has, which knows the spread of all variants."""
    others = [Cell(cell.install, cell.workload, variant.name) for variant in plan.variants]
    baseline = Cell(cell.install, cell.workload, plan.baseline)
    found = contrasts([(cell, baseline) for cell in others if cell != baseline], trials, "tps")
    return next(contrast.interval() for contrast in found if contrast.cell == cell)

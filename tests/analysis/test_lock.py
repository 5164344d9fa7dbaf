"""The commit-lock model: figures of a known machine come back, and unfit facts get a reason."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.analysis.facts import (
    ASYNC,
    DEFAULT,
    FPW_OFF,
    FSYNC_OFF,
    INSTALL,
    fail,
    make_plan,
    make_trial,
    make_trials,
    make_workload,
)
from walproof.analysis.lock import CommitLock, commit_lock
from walproof.facts import Cell, Plan, Script, Trial, Variant

SMALL, LARGE = make_workload(), make_workload("scale 50", 50)
FLUSH_S, WORK_S = 0.00143, 0.000284  # the published 582 and 3525 tps


def machine(cell: Cell) -> float:
    """tps = 1 / (L + c) at scale 1; at scale 50 group commit leaves a gain of 1.5."""
    waits = cell[2] == "default" or cell[2].startswith("full")
    if cell[1] == SMALL.name:
        return 1 / (WORK_S + (FLUSH_S if waits else 0))
    return 4000.0 if waits else 6000.0


def model(plan: Plan, trials: tuple[Trial, ...]) -> CommitLock:
    lock = commit_lock(plan, trials, INSTALL.label)
    assert isinstance(lock, CommitLock), lock
    return lock


def reason(plan: Plan, trials: tuple[Trial, ...]) -> str:
    lock = commit_lock(plan, trials, INSTALL.label)
    assert isinstance(lock, str)
    return lock


def test_flush_and_work_of_the_published_machine() -> None:
    """582 and 3525 tps are L = 1.43 ms and c = 0.284 ms, a gain of 1 + L / c = 6.04."""
    plan = make_plan((DEFAULT, FSYNC_OFF, FPW_OFF), (SMALL, LARGE))
    lock = model(plan, make_trials(plan, 6, machine, noise=0.01))
    assert lock.flush_s == pytest.approx(FLUSH_S, rel=0.03)
    assert lock.work_s == pytest.approx(WORK_S, rel=0.03)
    assert lock.gain == pytest.approx(1 + FLUSH_S / WORK_S, rel=0.03)
    assert lock.gain == pytest.approx(1 + lock.flush_s / lock.work_s, rel=0.01)
    assert lock.flush_interval_s is not None
    assert lock.flush_interval_s.contains(FLUSH_S)
    assert lock.work_interval_s is not None
    assert lock.work_interval_s.contains(WORK_S)
    assert (lock.variant, lock.workload, lock.large_workload, lock.n) == (
        "fsync=off",
        "scale 1",
        "scale 50",
        6,
    )
    assert (lock.sync_ms, lock.predicted_gain) == (None, None)


def test_share_of_lock_and_disk_on_the_log_scale() -> None:
    """Gains 6.04 and 1.5: the disk explains ln 1.5 / ln 6.04 = 0.226 of it, the lock the rest."""
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))
    lock = model(plan, make_trials(plan, 8, machine, noise=0.01))
    assert lock.share is not None
    assert lock.share.disk == pytest.approx(0.226, abs=0.02)
    assert lock.share.lock + lock.share.disk == pytest.approx(1)
    assert lock.share.interval is not None
    assert lock.share.interval.contains(1 - 0.2255)
    assert lock.large_gain == pytest.approx(1.5, rel=0.03)
    assert lock.share_reason is None


def test_interval_of_the_share_covers() -> None:
    """300 simulated runs of 4 rounds; four standard deviations of 0.95 are 0.05."""
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))
    held = 0
    for seed in range(300):
        share = model(plan, make_trials(plan, 4, machine, noise=0.03, round_noise=0.2, seed=seed)).share
        assert share is not None
        assert share.interval is not None
        held += share.interval.contains(1 - 0.22546)
    assert held / 300 == pytest.approx(0.95, abs=0.05)


def test_noise_of_the_gain_at_scale_one_alone_widens_the_share() -> None:
    """Gains 4, 6, 9 beside a constant 2: the reach is t x (disk share) x sd(ln gain) / ln 6 / sqrt 3."""
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))
    trials: list[Trial] = []
    for number, gain in enumerate((4.0, 6.0, 9.0), start=1):
        for cell in plan.cells:
            free = (gain if cell[1] == SMALL.name else 2.0) if cell[2] == "fsync=off" else 1.0
            trials.append(make_trial(len(trials) + 1, number, cell, {"tps": 100 * free}))
    share = model(plan, tuple(trials)).share
    assert share is not None
    assert share.interval is not None
    disk = math.log(2) / math.log(6)
    reach = 4.302653 * disk * math.log(1.5) / math.log(6) / math.sqrt(3)
    assert share.lock == pytest.approx(1 - disk)
    assert (share.interval.low, share.interval.high) == pytest.approx(
        (1 - disk - reach, 1 - disk + reach), rel=1e-5
    )


def test_the_probes_flush_time_predicts_the_gain() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))
    trials = make_trials(plan, 4, machine, noise=0.001, metrics={"wal_sync_ms_avg": 1.5})
    lock = model(plan, trials)
    assert lock.sync_ms == pytest.approx(1.5)
    assert lock.predicted_gain == pytest.approx(1 + 0.0015 / WORK_S, rel=0.01)


def test_synchronous_commit_is_the_second_choice() -> None:
    plan = make_plan((DEFAULT, ASYNC), (SMALL,))
    lock = model(plan, make_trials(plan, 3, machine))
    assert lock.variant == "synchronous_commit=off"
    plan = make_plan((DEFAULT, ASYNC, FSYNC_OFF), (SMALL,))
    assert model(plan, make_trials(plan, 3, machine)).variant == "fsync=off"


def test_the_variant_without_a_flush_is_known_by_what_it_sets_not_by_how_it_is_typed() -> None:
    plan = make_plan((DEFAULT, replace(FSYNC_OFF, settings={"fsync": "no"})), (SMALL,))
    assert model(plan, make_trials(plan, 3, machine)).variant == "fsync=off"


def test_without_a_large_scale_there_is_a_model_but_no_share() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, make_workload("scale 10", 10)))
    lock = model(plan, make_trials(plan, 3, machine))
    assert lock.share is None
    assert lock.large_gain is None
    assert "at least the number of clients" in (lock.share_reason or "")


def test_a_gain_that_does_not_shrink_is_not_the_lock() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))
    trials = make_trials(plan, 4, lambda cell: 3000.0 if cell[2] == "fsync=off" else 500.0)
    trials = tuple(
        replace(
            t, metrics={"tps": t.metrics["tps"] * (1.5 if t.cell[1:] == ("scale 50", "fsync=off") else 1)}
        )
        for t in trials
    )
    lock = model(plan, trials)
    assert lock.share is None
    assert "no smaller at the larger scale" in (lock.share_reason or "")


def test_no_gain_at_the_large_scale_is_all_lock() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))

    def table(cell: Cell) -> float:
        return 4000.0 if cell[1] == "scale 50" else machine(cell)

    shares = [model(plan, make_trials(plan, 4, table, seed=seed)).share for seed in range(20)]
    known = [share for share in shares if share is not None]
    assert len(known) >= 15
    assert all(share.lock == pytest.approx(1, abs=0.05) for share in known)
    assert all(0 <= share.disk <= 1 and share.lock <= 1 for share in known)


def test_a_loss_at_the_large_scale_has_no_share() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))

    def table(cell: Cell) -> float:
        return (3000.0 if cell[2] == "fsync=off" else 4000.0) if cell[1] == "scale 50" else machine(cell)

    lock = model(plan, make_trials(plan, 4, table))
    assert lock.share is None
    assert "slower than the baseline" in (lock.share_reason or "")


def test_one_round_has_figures_without_intervals() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))
    lock = model(plan, make_trials(plan, 1, machine))
    assert (lock.flush_interval_s, lock.work_interval_s, lock.gain_interval) == (None, None, None)
    assert lock.share is not None
    assert lock.share.interval is None


def test_reasons_why_there_is_no_model() -> None:
    both = Variant("both", {"fsync": "off", "full_page_writes": "off"})
    plan = make_plan((DEFAULT, both), (SMALL,))
    assert "no variant sets only fsync=off" in reason(plan, make_trials(plan, 3, machine))
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL,), base_settings={"fsync": "off"})
    assert "no variant sets only fsync=off" in reason(plan, make_trials(plan, 3, machine))
    plan = make_plan((DEFAULT, FSYNC_OFF), (LARGE,))
    assert "no workload makes several clients update" in reason(plan, make_trials(plan, 3, machine))
    plan = make_plan((DEFAULT, FSYNC_OFF), (make_workload(clients=1),))
    assert "no workload makes several clients update" in reason(plan, make_trials(plan, 3, machine))
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL,))
    failed = fail(make_trials(plan, 3, machine), lambda trial: trial.variant == "fsync=off")
    assert "no round holds finished trials" in reason(plan, failed)
    assert "gains nothing measurable" in reason(plan, make_trials(plan, 3, lambda cell: 500.0))


def test_a_script_that_updates_branches_counts_and_another_does_not() -> None:
    script = Script("transfer", "BEGIN;\nUPDATE pgbench_branches SET bbalance = bbalance + 1;\nEND;")
    workload = replace(SMALL, builtin=None, scripts=(script,))
    plan = make_plan((DEFAULT, FSYNC_OFF), (workload,))
    assert isinstance(commit_lock(plan, make_trials(plan, 3, machine), INSTALL.label), CommitLock)
    other = replace(workload, scripts=(script, Script("read", "SELECT bbalance FROM pgbench_branches;")))
    plan = make_plan((DEFAULT, FSYNC_OFF), (other,))
    assert "no workload" in reason(plan, make_trials(plan, 3, machine))


def test_rounds_without_both_trials_are_not_used() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))
    trials = make_trials(plan, 4, machine)
    trials = fail(trials, lambda t: t.round == 2 and t.cell[1:] == ("scale 1", "default"))
    extra = make_trial(99, 5, Cell("18.3", "scale 1", "default"), {"tps": 1.0})
    assert model(plan, (*trials, extra)).n == 3

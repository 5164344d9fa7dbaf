"""The published machine, predicted from one whose disk emulates its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walproof.analysis.cells import Absolute, absolute
from walproof.analysis.lock import CommitLock, commit_lock
from walproof.analysis.published import predict_published, published_lock
from walproof.facts import Install, Plan, Reference, Throughput, Trial, TrialState, Variant, Workload

FLUSH_S, WORK_S, THERE_S = 0.00143, 0.0004, 0.0002
INSTALL = Install("18.3", "18.3", 180003, "/opt/pg18/bin", "embedded")
VARIANTS = {
    "default": ({}, 1.0, True),
    "slower work": ({"wal_buffers": "64kB"}, 1.5, True),
    "fsync=off": ({"fsync": "off"}, 1.0, False),
    "synchronous_commit=off": ({"synchronous_commit": "off"}, 1.1, False),
}


def _tps(work_s: float, waits: bool) -> float:
    return 1 / (work_s + (FLUSH_S if waits else 0.0))


def _plan() -> Plan:
    workload = Workload("scale 1", "tpcb-like", (), 1, 50, 2, 60.0, None, None, "simple", 0.0)
    return Plan(
        "durability", "?", "", Throughput(), (INSTALL,), INSTALL, (workload,), {},
        tuple(Variant(name, settings) for name, (settings, _, _) in VARIANTS.items()),
        "default", {}, "full", (), 3, None, None, (), True, (), 1, "/srv",
        references=tuple(
            Reference(name, "scale 1", tps=_tps(THERE_S * share, waits))
            for name, (_, share, waits) in VARIANTS.items()
        ),
        device="doc-000-vm",
    )  # fmt: skip


def _trials() -> list[Trial]:
    return [
        Trial(
            0, number, "18.3", "scale 1", name, TrialState.DONE, 0.0, 1.0, 0.0, 1.0,
            {"tps": _tps(WORK_S * share, waits) * (1 + 0.001 * number)}, {},
        )
        for number in (1, 2, 3)
        for name, (_, share, waits) in VARIANTS.items()
    ]  # fmt: skip


def _lock(plan: Plan) -> CommitLock:
    lock = commit_lock(plan, _trials(), "18.3")
    assert isinstance(lock, CommitLock), lock
    return lock


def _reached(plan: Plan) -> tuple[Absolute, ...]:
    return absolute(plan, _trials())


def test_a_machine_that_follows_the_model_is_predicted_exactly() -> None:
    """Half the work per transaction, the same flush: the ratios differ from ours and are found."""
    plan = _plan()
    found = predict_published(plan, _reached(plan), _lock(plan))
    assert found is not None
    assert found.flush_s == pytest.approx(FLUSH_S, rel=0.01)
    assert (found.published_work_s, found.published_flush_s) == pytest.approx((THERE_S, FLUSH_S))
    for ratio in found.ratios:
        assert ratio.predicted == pytest.approx(ratio.published, rel=0.01), ratio
    by_name = {ratio.variant: ratio for ratio in found.ratios}
    assert by_name["fsync=off"].here == pytest.approx(1 + FLUSH_S / WORK_S, rel=0.01)
    assert by_name["fsync=off"].predicted == pytest.approx(1 + FLUSH_S / THERE_S, rel=0.01)


def test_without_the_two_published_figures_there_is_no_prediction() -> None:
    plan = _plan()
    lock = _lock(plan)
    assert predict_published(replace(plan, references=plan.references[:1]), _reached(plan), lock) is None
    assert predict_published(replace(plan, references=()), _reached(plan), lock) is None


def test_the_published_figures_have_a_lock_of_their_own() -> None:
    plan = _plan()
    found = published_lock(plan, _lock(plan))
    assert found is not None
    assert (found.flush_s, found.work_s) == pytest.approx((FLUSH_S, THERE_S))
    assert found.gain == pytest.approx(_tps(THERE_S, waits=False) / _tps(THERE_S, waits=True))
    # A figure that names no workload is about the first one, and about no other.
    unnamed = replace(
        plan, references=tuple(replace(reference, workload=None) for reference in plan.references)
    )
    assert published_lock(unnamed, _lock(plan)) == found
    other = replace(plan.workloads[0], name="scale 50", scale=50)
    assert published_lock(replace(unnamed, workloads=(other, *plan.workloads)), _lock(plan)) is None

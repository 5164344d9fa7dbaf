"""What cuts left, summed up: counts, windows, bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.facts import CORRUPT, LAST, NONE, make_facts
from walproof.analysis.power_cut import CutOutcome, cut_summaries
from walproof.facts import (
    CheckedImage,
    CutFacts,
    ImageState,
    Plan,
    PowerCuts,
    Trial,
    TrialState,
    Variant,
)

S = ImageState
VARIANTS = (
    Variant("full durability", {}, durability=NONE),
    Variant("synchronous_commit=off", {"synchronous_commit": "off"}, durability=LAST),
    Variant("slow writer", {"synchronous_commit": "off", "wal_writer_delay": "1s"}, durability=LAST),
    Variant("fsync=off", {"fsync": "off"}, durability=CORRUPT),
)


def image(
    number: int, state: ImageState, lost: int = 0, window: float | None = None, torn: int = 0
) -> CheckedImage:
    reason = None if state is S.CLEAN else f"because of {state.value}"
    return CheckedImage(number, 1000 + number, "random 0.5 of 512 B", state, reason, torn, lost, window, 0.4)


def cut(*images: CheckedImage, unflushed: tuple[str, ...] = ()) -> CutFacts:
    return CutFacts(7, "wal flush 812", "busy", 1000, 1.2, 5 << 20, 3, unflushed, images)


def cut_plan() -> Plan:
    plan = make_facts().run.plan
    return replace(
        plan, study="power-cut", title="What survives a power cut under each setting?", variants=VARIANTS,
        baseline="full durability", workloads=plan.workloads[:1], references=(),
        kind=PowerCuts(2),
    )  # fmt: skip


def cut_trials(plan: Plan) -> tuple[Trial, ...]:
    """Two rounds; one trial of fsync=off is void."""
    facts: dict[str, list[CutFacts | None]] = {
        "full durability": [
            cut(image(1, S.CLEAN, torn=3), image(2, S.CLEAN)),
            cut(image(1, S.BENIGN), image(2, S.CLEAN)),
        ],
        "synchronous_commit=off": [
            cut(image(1, S.LOST, 4, 120.0), image(2, S.LOST, 5, 150.0)),
            cut(image(1, S.CLEAN), image(2, S.CLEAN)),
        ],
        "slow writer": [
            cut(image(1, S.LOST, 9, 900.0), image(2, S.CLEAN)),
            cut(image(1, S.LOST, 1, 100.0), image(2, S.CLEAN)),
        ],
        "fsync=off": [
            cut(image(1, S.NO_START, torn=9), image(2, S.HOLES, 7, 300.0, torn=1), unflushed=()),
            None,
        ],
    }  # fmt: skip
    trials: list[Trial] = []
    for place in range(2):
        for name, cuts in facts.items():
            of_cell = cuts[place]
            number = len(trials) + 1
            trials.append(
                Trial(
                    number, place + 1, plan.installs[0].label, plan.workloads[0].name, name,
                    TrialState.DONE if of_cell else TrialState.FAILED, 100.0 * number, 100.0 * number + 3,
                    None, None, {}, {}, reason=None if of_cell else "the run is void: too much", cut=of_cell,
                )
            )  # fmt: skip
    return tuple(trials)


def test_counts_windows_and_bounds() -> None:
    plan = cut_plan()
    safe, off, slow, fsync = cut_summaries(plan, cut_trials(plan))
    assert (safe.cuts, safe.images, safe.failed, safe.lost, safe.void) == (2, 4, 0, 0, 0)
    assert (safe.counts[S.CLEAN], safe.counts[S.BENIGN]) == (3, 1)
    assert safe.failure_rate_most == pytest.approx(0.75)
    assert safe.cut_rate_most == 1.0
    assert (safe.torn_images, safe.torn_caught) == (1, 0)
    assert safe.bound_ms is None
    assert safe.windows_ms == ()

    assert off.lost_commits == (5,)
    assert off.windows_ms == (150.0,)
    assert (off.bound_ms, slow.bound_ms) == (600.0, 3000.0)
    assert slow.windows_ms == (900.0, 100.0)
    assert slow.window_ms_median == 500.0
    assert slow.window_ms_p95 == pytest.approx(860.0)

    outcomes = [summary.survives for summary in (safe, off, slow, fsync)]
    assert outcomes == [CutOutcome.YES, CutOutcome.LAST_COMMITS, CutOutcome.LAST_COMMITS, CutOutcome.NO]

    assert (fsync.cuts, fsync.void, fsync.failed, fsync.failed_cuts) == (1, 1, 2, 1)
    assert fsync.failure_rate_most is None
    assert fsync.cut_rate_most is None
    # A hole is not a window: what is lost is not the end.
    assert fsync.windows_ms == ()
    assert (fsync.torn_images, fsync.torn_caught) == (2, 2)


def test_a_plan_without_cuts_has_no_summaries() -> None:
    facts = make_facts()
    assert cut_summaries(facts.run.plan, facts.trials) == ()


def test_no_image_proves_nothing() -> None:
    plan = cut_plan()
    (safe, *_) = cut_summaries(plan, ())
    assert (safe.images, safe.failure_rate_most, safe.cut_rate_most, safe.cut_s) == (0, None, None, 0.0)
    assert safe.survives is None

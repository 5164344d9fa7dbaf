"""Effects: what they are computed from, what they leave out, and whether their intervals cover the truth."""

from __future__ import annotations

import math
import random

import pytest

from tests.analysis.facts import (
    DEFAULT,
    FPW_OFF,
    FSYNC_OFF,
    INSTALL,
    OLDER,
    fail,
    make_plan,
    make_trial,
    make_trials,
    make_workload,
)
from walproof.analysis.cells import absolute
from walproof.analysis.effect import Conclusion, conclude, effects, install_effects
from walproof.analysis.inference.spread import Pooling
from walproof.errors import AnalysisError
from walproof.facts import Cell, Plan, Trial, Variant

TPS = {"default": 500.0, "fsync=off": 2000.0, "full_page_writes=off": 500.0}


def truth(cell: Cell) -> float:
    return TPS[cell[2]]


def trials_of(plan: Plan, table: list[dict[str, float]]) -> tuple[Trial, ...]:
    """One row a round: variant -> tps."""
    cells = [
        (number, Cell(INSTALL.label, "scale 1", variant), tps)
        for number, row in enumerate(table, start=1)
        for variant, tps in row.items()
    ]
    return tuple(make_trial(i, number, cell, {"tps": tps}) for i, (number, cell, tps) in enumerate(cells, 1))


def test_ratio_interval_and_median_by_hand() -> None:
    """Ratios 2, 4 and 8: geometric mean 4, logs 1 ln2 apart, so the interval is 4 x or / 2^(4.303/sqrt 3)."""
    plan = make_plan((DEFAULT, FSYNC_OFF))
    trials = trials_of(plan, [{"default": 100, "fsync=off": 100 * ratio} for ratio in (2.0, 8.0, 4.0)])
    (effect,) = effects(plan, trials)
    assert effect.cell == ("18.3", "scale 1", "fsync=off")
    assert effect.baseline == ("18.3", "scale 1", "default")
    assert (effect.ratio, effect.median_ratio) == pytest.approx((4.0, 4.0))
    assert effect.interval is not None
    reach = 2 ** (4.302653 / math.sqrt(3))
    assert (effect.interval.low, effect.interval.high) == pytest.approx((4 / reach, 4 * reach), rel=1e-5)
    assert effect.half_width == pytest.approx(reach - 1, rel=1e-5)
    assert [(pair.round, pair.trial, pair.baseline_trial) for pair in effect.ratios] == [
        (1, 2, 1),
        (2, 4, 3),
        (3, 6, 5),
    ]
    assert [pair.ratio for pair in effect.ratios] == pytest.approx([2, 8, 4])
    assert (effect.n, effect.left_out) == (3, 0)


def test_conclusions() -> None:
    """A large gain, a large loss, nothing, and a single round."""
    plan = make_plan()
    trials = make_trials(plan, 5, lambda cell: {**TPS, "full_page_writes=off": 250.0}[cell[2]])
    assert [e.conclusion for e in effects(plan, trials)] == [Conclusion.HIGHER, Conclusion.LOWER]
    same = effects(plan, make_trials(plan, 5, lambda cell: 500.0))
    assert [e.conclusion for e in same] == [Conclusion.NO_DIFFERENCE] * 2
    once = effects(plan, make_trials(plan, 1, truth))
    assert [(e.conclusion, e.interval, e.p, e.comparisons) for e in once] == [
        (Conclusion.TOO_FEW, None, None, 0)
    ] * 2


def test_failed_missing_and_unusable_trials_are_left_out_and_counted() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF))
    trials = make_trials(plan, 6, truth)
    trials = fail(trials, lambda t: (t.round, t.variant) == (1, "fsync=off"))
    trials = fail(trials, lambda t: (t.round, t.variant) == (2, "default"))
    trials = tuple(t for t in trials if (t.round, t.variant) != (3, "default"))
    zero = make_trial(99, 4, Cell("18.3", "scale 1", "fsync=off"), {"tps": 0.0})
    trials = tuple(zero if (t.round, t.variant) == (4, "fsync=off") else t for t in trials)
    (effect,) = effects(plan, trials)
    assert (effect.n, effect.left_out) == (2, 4)
    assert [pair.round for pair in effect.ratios] == [5, 6]


def test_no_trials_at_all() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF))
    (effect,) = effects(plan, ())
    assert (effect.ratio, effect.interval, effect.n, effect.left_out) == (None, None, 0, 0)
    assert effect.conclusion is Conclusion.TOO_FEW


def test_a_slow_round_cancels() -> None:
    """Rounds that differ by a factor of ten leave ratios, and so the interval, untouched."""
    plan = make_plan((DEFAULT, FSYNC_OFF))
    rows = [
        {"default": 100 * speed, "fsync=off": 400 * speed * wobble}
        for speed, wobble in ((1.0, 1.01), (10.0, 0.99), (3.0, 1.0))
    ]
    (effect,) = effects(plan, trials_of(plan, rows))
    assert effect.half_width is not None
    assert effect.half_width < 0.03


def test_outliers_are_flagged_and_used() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF))
    ratios = [4.0, 4.04, 3.96, 4.02, 3.98, 1.0]
    (effect,) = effects(plan, trials_of(plan, [{"default": 100, "fsync=off": 100 * r} for r in ratios]))
    assert [pair.outlier for pair in effect.ratios] == [False] * 5 + [True]
    assert effect.n == 6
    assert effect.ratio == pytest.approx(math.prod(ratios) ** (1 / 6))


def test_the_size_of_the_family_and_what_it_costs() -> None:
    plan = make_plan(workloads=(make_workload(), make_workload("scale 50", 50)))
    found = effects(plan, make_trials(plan, 4, truth))
    assert [effect.comparisons for effect in found] == [4] * 4
    for effect in found:
        assert effect.p is not None
        assert effect.p_family is not None
        assert effect.p <= effect.p_family <= min(1.0, 4 * effect.p + 1e-12)


def test_a_difference_that_the_family_explains_is_in_doubt() -> None:
    """Ten variants of one table: the same ratios, whose interval leaves out 1, alone and among ten."""
    noise = random.Random(5)
    names = [f"variant {number}" for number in range(10)]
    rows = [
        {"default": 100.0, **{name: 100 * math.exp(noise.gauss(0, 0.03)) for name in names}} for _ in range(6)
    ]
    for row in rows:
        row["variant 0"] *= 1.035
    plan = make_plan((DEFAULT, *(Variant(name, {}) for name in names)))
    first = effects(plan, trials_of(plan, rows))[0]
    assert first.interval is not None
    assert not first.interval.contains(1.0)
    assert first.p is not None
    assert first.p_family is not None
    assert first.p < 0.05 < first.p_family
    assert first.conclusion is Conclusion.IN_DOUBT
    assert conclude(first.interval) is Conclusion.HIGHER


def test_a_spread_that_all_variants_share_makes_every_interval_narrower() -> None:
    """Seven variants, three rounds: twelve degrees of freedom instead of two."""
    plan = make_plan((DEFAULT, *(Variant(f"variant {number}", {}) for number in range(6))))
    found = effects(plan, make_trials(plan, 3, lambda cell: 500.0, seed=3))
    assert [(e.spread.degrees, e.spread.pooling) for e in found if e.spread] == [(12, Pooling.ALL)] * 6
    for effect in found:
        assert effect.interval is not None
        assert effect.spread is not None
        reach = math.log(effect.interval.high / effect.interval.low)
        assert reach == pytest.approx(2 * 2.178813 * math.sqrt(effect.spread.variance / 3), rel=1e-5)


def test_another_metric() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF))
    trials = make_trials(plan, 4, lambda cell: 10.0 / truth(cell), metric="latency_ms_p99")
    (effect,) = effects(plan, trials, "latency_ms_p99")
    assert effect.conclusion is Conclusion.LOWER
    assert effects(plan, trials, "tps")[0].n == 0


def test_installs_are_compared_with_the_first() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), installs=(INSTALL, OLDER))
    trials = make_trials(plan, 5, lambda cell: truth(cell) * (0.5 if cell[0] == "15.9" else 1.0))
    found = install_effects(plan, trials)
    assert [(e.cell, e.baseline) for e in found] == [
        (("15.9", "scale 1", "default"), ("18.3", "scale 1", "default")),
        (("15.9", "scale 1", "fsync=off"), ("18.3", "scale 1", "fsync=off")),
    ]
    assert all(e.ratio == pytest.approx(0.5, rel=0.05) for e in found)
    assert install_effects(make_plan(), ()) == ()
    # Within an install the baseline is that install's own.
    assert [e.baseline[0] for e in effects(plan, trials)] == ["18.3", "15.9"]


def test_trials_of_two_runs_are_refused() -> None:
    plan = make_plan((DEFAULT, FPW_OFF))
    trials = make_trials(plan, 1, truth) + make_trials(plan, 1, truth, seed=2)
    with pytest.raises(AnalysisError, match=r'round 1 holds "(default|full_page_writes=off)" twice'):
        effects(plan, trials)


@pytest.mark.parametrize("rounds", [3, 5, 10])
def test_interval_covers_the_true_ratio_although_rounds_drift(rounds: int) -> None:
    """600 simulated runs with 3 % noise per trial, 20 % noise per round and a steady slow-down.

    The interval of the ratio is to hold the true 4 in 95 % of them (four standard deviations: 3.6 %).
    """
    plan = make_plan((DEFAULT, FSYNC_OFF))
    held = 0
    for seed in range(600):
        trials = make_trials(
            plan,
            rounds,
            truth,
            seed=1000 * rounds + seed,
            noise=0.03,
            round_noise=0.2,
            drift_per_trial=-0.002,
        )
        (effect,) = effects(plan, trials)
        assert effect.interval is not None
        held += effect.interval.contains(4.0)
    assert held / 600 == pytest.approx(0.95, abs=0.036)


def test_absolute_figures_per_cell() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF))
    trials = trials_of(plan, [{"default": tps, "fsync=off": 100.0} for tps in (90.0, 100.0, 130.0)])
    trials = fail(trials, lambda t: t.variant == "fsync=off" and t.round < 3)
    default, off = absolute(plan, trials)
    assert (default.n, default.failed, default.median, default.min, default.max) == (3, 0, 100, 90, 130)
    assert default.mean == pytest.approx(320 / 3)
    assert default.sd == pytest.approx(20.817, abs=1e-3)
    assert default.cv == pytest.approx(20.817 / 106.667, abs=1e-5)
    assert (off.n, off.failed, off.sd, off.cv) == (1, 2, None, None)
    (nothing, _) = absolute(plan, ())
    assert (nothing.n, nothing.mean, nothing.median, nothing.min) == (0, None, None, None)

"""Factorial models: against statsmodels, against a known truth, and with fractions that alias."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product

import pytest

from tests.analysis.facts import fail, make_plan, make_trials, make_workload
from walproof.analysis.factors import FactorModel, factor_models
from walproof.facts import Cell, Plan, Trial, Variant
from walproof.lab.design import factorial_design

FACTORS = {
    "fsync": ("on", "off"),
    "full_page_writes": ("on", "off"),
    "wal_compression": ("off", "pglz", "lz4"),
}


def plan_of(factors: Mapping[str, tuple[str, ...]], fraction: str = "full") -> Plan:
    cells = factorial_design(factors, fraction).cells
    variants = [Variant(",".join(cell.values()), dict(cell), levels=dict(cell)) for cell in cells]
    return make_plan(variants, factors=factors)


def law(plan: Plan, log_tps: Callable[[Mapping[str, str]], float]) -> Callable[[Cell], float]:
    return lambda cell: math.exp(log_tps(plan.variant(cell[2]).levels))


def known(levels: Mapping[str, str]) -> float:
    """fsync=off x3, full_page_writes=off x1.2 (x1.5 more where fsync is off), pglz x0.9, lz4 x1.1."""
    log = math.log(500)
    log += math.log(3) * (levels["fsync"] == "off")
    log += math.log(1.2) * (levels["full_page_writes"] == "off")
    log += math.log(1.5) * (levels["fsync"] == levels["full_page_writes"] == "off")
    return log + {"off": 0.0, "pglz": math.log(0.9), "lz4": math.log(1.1)}[levels["wal_compression"]]


def only(plan: Plan, trials: tuple[Trial, ...]) -> FactorModel:
    (model,) = factor_models(plan, trials)
    return model


def ratios(model: FactorModel) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(term.name, term.levels): term.ratio for term in model.terms}


def test_a_known_truth_comes_back() -> None:
    """Without noise: main effects averaged over the other factors, interactions as ratios of ratios."""
    plan = plan_of(FACTORS)
    model = only(plan, make_trials(plan, 2, law(plan, known), noise=0.0, round_noise=0.1))
    found = ratios(model)
    # Averaged over full_page_writes on and off, fsync=off gains 3 x sqrt(1.5), and the same the other way.
    assert found[("fsync", ("off",))] == pytest.approx(3 * math.sqrt(1.5))
    assert found[("full_page_writes", ("off",))] == pytest.approx(1.2 * math.sqrt(1.5))
    assert found[("wal_compression", ("pglz",))] == pytest.approx(0.9)
    assert found[("wal_compression", ("lz4",))] == pytest.approx(1.1)
    assert found[("fsync*full_page_writes", ("off", "off"))] == pytest.approx(1.5)
    assert found[("fsync*wal_compression", ("off", "lz4"))] == pytest.approx(1)
    assert len(model.terms) == 1 + 1 + 2 + 1 + 2 + 2
    assert model.unfitted == ()
    assert all(term.aliases == () for term in model.terms)
    assert model.residual_sd == pytest.approx(0, abs=1e-9)
    assert model.degrees == 24 - 2 - 9
    assert {term.references for term in model.terms if term.name == "fsync*wal_compression"} == {
        ("on", "off")
    }


def test_agrees_with_statsmodels() -> None:
    """The same model by formula: treatment contrasts of centred columns, rounds as a factor."""
    import numpy as np
    import statsmodels.api as sm

    plan = plan_of({"a": ("0", "1"), "b": ("0", "1")})
    effect = {"00": 0.0, "10": 0.4, "01": -0.1, "11": 0.5}
    trials = make_trials(
        plan, 5, law(plan, lambda levels: effect[levels["a"] + levels["b"]]), noise=0.1, round_noise=0.3
    )
    trials = fail(trials, lambda trial: trial.number in (3, 11))
    model = only(plan, trials)
    done = [trial for trial in trials if trial.metrics]
    levels = [plan.variant(trial.variant).levels for trial in done]
    a = np.array([float(row["a"]) - 0.5 for row in levels])
    b = np.array([float(row["b"]) - 0.5 for row in levels])
    dummies = [np.array([float(trial.round == n) for trial in done]) for n in range(1, 6)]
    design = np.column_stack([*dummies, a, b, a * b])
    fit = sm.OLS(np.array([math.log(trial.metrics["tps"]) for trial in done]), design).fit()
    assert (model.n, model.left_out, model.degrees) == (18, 2, int(fit.df_resid))
    assert model.residual_sd == pytest.approx(math.sqrt(fit.mse_resid))
    for index, term in enumerate(model.terms, start=5):
        low, high = fit.conf_int(0.05)[index]
        assert math.log(term.ratio) == pytest.approx(fit.params[index])
        assert term.p == pytest.approx(fit.pvalues[index])
        assert term.interval is not None
        assert (math.log(term.interval.low), math.log(term.interval.high)) == pytest.approx((low, high))


def test_intervals_cover_and_silent_terms_stay_silent() -> None:
    """200 runs of 3 rounds: every interval holds its truth in 95 % (four standard deviations: 6 %)."""
    plan = plan_of({"a": ("0", "1"), "b": ("0", "1", "2")})
    gain = {"0": 0.0, "1": 0.2, "2": -0.3}
    truth = {
        ("a", ("1",)): math.exp(0.5),
        ("b", ("1",)): math.exp(0.2),
        ("b", ("2",)): math.exp(-0.3),
        ("a*b", ("1", "1")): 1.0,
        ("a*b", ("1", "2")): 1.0,
    }
    held = dict.fromkeys(truth, 0)
    for seed in range(200):
        trials = make_trials(
            plan,
            3,
            law(plan, lambda levels: 0.5 * (levels["a"] == "1") + gain[levels["b"]]),
            noise=0.05,
            round_noise=0.3,
            seed=seed,
        )
        for term in only(plan, trials).terms:
            assert term.interval is not None
            held[(term.name, term.levels)] += term.interval.contains(truth[(term.name, term.levels)])
    for count in held.values():
        assert count / 200 == pytest.approx(0.95, abs=0.06)


def test_a_half_fraction_fits_main_effects_and_names_what_they_hold() -> None:
    """c = a*b up to sign: c is fitted and holds the interaction, which is not fitted."""
    plan = plan_of({"a": ("0", "1"), "b": ("0", "1"), "c": ("0", "1")}, "half")
    model = only(plan, make_trials(plan, 3, law(plan, lambda levels: float(levels["c"]) * 0.7)))
    assert [(term.name, term.aliases) for term in model.terms] == [
        ("a", ("b*c",)),
        ("b", ("a*c",)),
        ("c", ("a*b",)),
    ]
    assert [(term.factors, term.reason) for term in model.unfitted] == [
        (("a", "b"), "the design cannot tell it from c"),
        (("a", "c"), "the design cannot tell it from b"),
        (("b", "c"), "the design cannot tell it from a"),
    ]
    assert ratios(model)[("c", ("1",))] == pytest.approx(math.exp(0.7), rel=0.05)


def test_resolution_four_fits_one_pair_of_each_aliased_two() -> None:
    plan = plan_of(dict.fromkeys("abcd", ("0", "1")), "half")
    model = only(plan, make_trials(plan, 3, lambda cell: 100.0))
    assert [(term.name, term.aliases) for term in model.terms] == [
        ("a", ()),
        ("b", ()),
        ("c", ()),
        ("d", ()),
        ("a*b", ("c*d",)),
        ("a*c", ("b*d",)),
        ("a*d", ("b*c",)),
    ]


def test_aliases_of_the_model_are_those_that_the_design_announces() -> None:
    """For every published fraction of up to seven factors: two computations, one from each side."""
    names = "abcdefg"
    for name in ("2^(3-1)", "2^(5-1)", "2^(5-2)", "2^(6-2)", "2^(6-3)", "2^(7-3)", "2^(7-4)"):
        factors = dict.fromkeys(names[: int(name[3])], ("0", "1"))
        plan = plan_of(factors, name)
        model = only(plan, make_trials(plan, 2, lambda cell: 100.0))
        announced = [
            set(text.replace("-", "").split(" = ")) for text in factorial_design(factors, name).aliases
        ]
        found = [{term.name, *term.aliases} for term in model.terms if term.aliases]
        assert sorted(map(sorted, found)) == sorted(map(sorted, announced)), name


def test_plackett_burman_fits_main_effects_only() -> None:
    plan = plan_of(dict.fromkeys("abcdefg", ("0", "1")), "plackett-burman-12")
    model = only(plan, make_trials(plan, 3, law(plan, lambda levels: 0.3 * float(levels["d"]))))
    assert [term.name for term in model.terms] == list("abcdefg")
    assert len(model.unfitted) == 21
    assert ratios(model)[("d", ("1",))] == pytest.approx(math.exp(0.3), rel=0.04)


def test_one_at_a_time_compares_each_level_with_the_reference() -> None:
    plan = plan_of({"x": ("1", "2", "3"), "y": ("1", "2")}, "one-at-a-time")
    model = only(plan, make_trials(plan, 3, law(plan, lambda levels: 0.1 * float(levels["x"])), noise=0.0))
    assert ratios(model) == pytest.approx(
        {("x", ("2",)): math.exp(0.1), ("x", ("3",)): math.exp(0.2), ("y", ("2",)): 1.0}
    )
    assert [term.factors for term in model.unfitted] == [("x", "y")]


def test_a_level_that_always_fails_takes_its_terms_along() -> None:
    plan = plan_of({"a": ("0", "1"), "b": ("0", "1")})
    trials = make_trials(plan, 3, law(plan, lambda levels: 0.4 * float(levels["b"])))
    model = only(plan, fail(trials, lambda trial: plan.variant(trial.variant).levels["a"] == "1"))
    assert [term.name for term in model.terms] == ["b"]
    assert ratios(model)[("b", ("1",))] == pytest.approx(math.exp(0.4), rel=0.05)
    assert [term.factors for term in model.unfitted] == [("a",), ("a", "b")]
    assert model.left_out == 6


def test_one_round_of_a_saturated_design_has_ratios_without_intervals() -> None:
    plan = plan_of({"a": ("0", "1"), "b": ("0", "1")})
    model = only(plan, make_trials(plan, 1, lambda cell: 100.0))
    assert (model.degrees, model.residual_sd) == (0, None)
    assert all(term.interval is None and term.p is None and term.p_holm is None for term in model.terms)


def test_no_factors_or_no_trials_make_no_model() -> None:
    plain = make_plan()
    assert factor_models(plain, make_trials(plain, 3, lambda cell: 1.0)) == ()
    plan = plan_of({"a": ("0", "1"), "b": ("0", "1")})
    assert factor_models(plan, ()) == ()


def test_one_model_per_workload() -> None:
    base = plan_of({"a": ("0", "1"), "b": ("0", "1")})
    plan = make_plan(
        base.variants, (make_workload(), make_workload("scale 50", 50)), factors=dict(base.factors)
    )
    found = factor_models(plan, make_trials(plan, 2, lambda cell: 100.0))
    assert [(model.install, model.workload, model.n) for model in found] == [
        ("18.3", "scale 1", 8),
        ("18.3", "scale 50", 8),
    ]


@pytest.mark.parametrize("levels", list(product((2, 3), repeat=2)))
def test_holm_is_over_the_terms_of_the_model(levels: tuple[int, int]) -> None:
    factors = {name: tuple(map(str, range(count))) for name, count in zip("ab", levels, strict=True)}
    plan = plan_of(factors)
    model = only(plan, make_trials(plan, 3, lambda cell: 100.0))
    smallest = min(model.terms, key=lambda term: term.p or 0.0)
    assert smallest.p is not None
    assert smallest.p_holm == pytest.approx(min(1.0, smallest.p * len(model.terms)))

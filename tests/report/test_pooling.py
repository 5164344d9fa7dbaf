"""Whose rounds the intervals rest on, in sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.facts import DEFAULT, FSYNC_OFF, make_plan, make_trials, make_workload
from walproof.analysis.effect import Effect, effects
from walproof.analysis.inference.spread import Pooling, Spread
from walproof.report.pooling import say_pooling


def made(pooling: Pooling, degrees: float, workloads: int = 1) -> tuple[Effect, ...]:
    plan = make_plan(workloads=tuple(make_workload(f"scale {10**n}", 10**n) for n in range(workloads)))
    found = effects(plan, make_trials(plan, 5, lambda cell: 100.0))
    return tuple(replace(effect, spread=Spread(0.01, degrees, pooling, 0.5)) for effect in found)


@pytest.mark.parametrize(
    ("pooling", "words"),
    [
        (Pooling.ALL, "all variants and the baseline together"),
        (Pooling.VARIANTS, "of the baseline from its rounds alone, because it varies more (7.31 degrees"),
        (Pooling.OWN, "Variants vary differently, so each ratio is judged from its rounds alone."),
    ],
)
def test_a_sentence_for_each_way(pooling: Pooling, words: str) -> None:
    (sentence,) = say_pooling(made(pooling, 7.312))
    assert words in sentence


def test_workloads_are_named_where_they_differ() -> None:
    pooled, two, three, four = made(Pooling.ALL, 8, workloads=2)
    assert len(say_pooling((pooled, two, three, four))) == 1
    alone = [replace(e, spread=Spread(0.01, 4, Pooling.OWN, 0.0)) for e in (three, four)]
    first, second = say_pooling((pooled, two, *alone))
    assert first.startswith("scale 1: How much a ratio varies is known from all")
    assert second == "scale 10: Variants vary differently, so each ratio is judged from its rounds alone."


def test_one_comparison_has_nothing_to_share_and_none_says_nothing() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF))
    found = effects(plan, make_trials(plan, 4, lambda cell: 100.0))
    assert say_pooling(found) == ["The one ratio is judged from its rounds alone (3 degrees of freedom)."]
    assert say_pooling(effects(plan, make_trials(plan, 1, lambda cell: 100.0))) == []

"""Pages touched by draws: against draws that were made, and the law found again from what they touched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from walproof.analysis.working_set import Counted, Draws, Law, Pages, fit, images, nearest, touched
from walproof.facts.application import CyclePart

ROWS, PAGES = 200_000, 3000
HALVES = (CyclePart(0.0, 0.5, 1.0, True), CyclePart(0.5, 0.5, 1.0))
LAWS = (
    Draws(),
    Draws(Law.ZIPF, 1.1),
    Draws(Law.ZIPF, 1.1, True),
    Draws(Law.ZIPF, 1.5),
    Draws(Law.EXPONENTIAL, 50.0, True),
    Draws(Law.EXPONENTIAL, 100.0),
)


def chances_of(draws: Draws) -> NDArray[np.float64]:
    """The chance of each rank."""
    ranks = np.arange(1, ROWS + 1)
    weights = {
        Law.EVEN: np.ones(ROWS),
        Law.ZIPF: ranks ** -float(draws.parameter or 1.0),
        Law.EXPONENTIAL: np.exp(-draws.parameter * ranks / ROWS),
    }[draws.law]
    return np.asarray(weights / weights.sum(), np.float64)


def drawn(draws: Draws, count: int, seed: int = 1) -> NDArray[np.int64]:
    """The page of each draw."""
    chance = np.random.default_rng(seed)
    places = np.arange(ROWS) if draws.is_adjacent else chance.permutation(ROWS)
    rows = chance.choice(ROWS, count, p=chances_of(draws))
    pages: NDArray[np.int64] = places[rows] * PAGES // ROWS
    return pages


def distinct(pages: NDArray[np.int64]) -> int:
    return len(set(pages.tolist()))


@pytest.mark.parametrize("draws", LAWS, ids=str)
@pytest.mark.parametrize("count", [1000, 20_000])
def test_pages_touched_are_those_of_real_draws(draws: Draws, count: int) -> None:
    found = [distinct(drawn(draws, count, seed)) for seed in range(3)]
    assert touched(Pages(ROWS, PAGES, 1.0), count, draws) == pytest.approx(np.mean(found), rel=0.06)


@pytest.mark.parametrize("draws", [*LAWS[1:], Draws(Law.ZIPF, 3.0), Draws(Law.EXPONENTIAL, 200.0)], ids=str)
@pytest.mark.parametrize("count", [1000, 100_000, 10_000_000])
def test_ranks_in_bins_touch_as_many_pages_as_single_ones(draws: Draws, count: int) -> None:
    pages, chances = 4000, chances_of(draws)
    if draws.is_adjacent:
        wanted = float(-np.expm1(-count * chances.reshape(pages, -1).sum(axis=1)).sum())
    else:
        wanted = float(pages * (1 - np.exp(-count * chances).mean() ** (ROWS / pages)))
    assert touched(Pages(ROWS, pages, 1.0), count, draws) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("draws", LAWS, ids=str)
def test_what_follows_is_told_from_what_was_counted(draws: Draws) -> None:
    count = 5000
    pages = drawn(draws, 3 * count)
    counted = Counted(distinct(pages[:count]), distinct(pages[: count // 2]))
    family = Pages(ROWS, PAGES, float(count))
    law = fit([family], HALVES, counted)
    assert law is not None
    assert touched(family, 3 * count, law) == pytest.approx(distinct(pages), rel=0.1)


def test_even_draws_are_called_even() -> None:
    pages = drawn(Draws(), 3000)
    found = fit([Pages(ROWS, PAGES, 3000.0)], HALVES, Counted(distinct(pages), distinct(pages[:1500])))
    assert found == Draws()


def test_nothing_is_told_where_every_page_was_touched() -> None:
    many = Pages(ROWS, PAGES, 10_000_000.0)
    assert fit([many], HALVES, Counted(PAGES, PAGES)) is None


def test_nothing_is_told_where_something_else_makes_images() -> None:
    family = Pages(ROWS, PAGES, 1000.0)
    even = images([family], HALVES, Draws())
    assert fit([family], HALVES, Counted(1.6 * even, even)) is None
    assert fit([], HALVES, Counted(10, 5)) is None


def test_a_part_that_begins_late_in_a_cycle_has_fewer_images() -> None:
    family = Pages(ROWS, PAGES, 1000.0)
    early = [CyclePart(0.0, 2.0, 1.0)]
    late = [CyclePart(4.0, 2.0, 1.0)]
    assert images([family], late, Draws()) < 0.5 * images([family], early, Draws())
    twice = [replace(early[0], count=2.0)]
    assert images([family], twice, Draws()) == pytest.approx(2 * images([family], early, Draws()))


def test_a_table_without_pages_has_no_images() -> None:
    assert touched(Pages(0, 0, 1.0), 100.0, Draws(Law.ZIPF, 1.1)) == 0.0
    assert touched(Pages(10, 1, 1.0), 0.0, Draws()) == 0.0


@pytest.mark.parametrize("is_adjacent", [False, True])
def test_of_several_laws_the_one_with_as_many_images_is_nearest(is_adjacent: bool) -> None:
    family = Pages(ROWS, PAGES, 5000.0)
    either = [Draws(Law.ZIPF, 1.1), Draws(Law.ZIPF, 1.1, is_adjacent=True)]
    pages = drawn(either[is_adjacent], 5000)
    counted = Counted(distinct(pages), distinct(pages[:2500]))
    assert nearest([family], HALVES, counted, either) == either[is_adjacent]


def test_a_small_table_that_is_changed_often_has_all_its_pages_touched() -> None:
    """Ten counters, 100 changes a second: in five minutes the chance to miss one is less than a float has."""
    assert touched(Pages(10, 4, 100.0), 30_000.0, Draws(Law.ZIPF, 1.2)) == 4.0
    day = [CyclePart(0.0, 300.0, 288.0)]
    assert fit([Pages(10, 4, 100.0)], day, Counted(1100, 0)) is None

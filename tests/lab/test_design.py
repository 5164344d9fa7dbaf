"""Designs: balance, orthogonality, resolution and aliases are computed from the cells, not looked up."""

from __future__ import annotations

from itertools import combinations, product
from math import prod

import pytest

from walproof.errors import StudyError
from walproof.lab.design import (
    FactorialDesign,
    factorial_design,
    fractions_for,
    full_factorial,
    resolution,
    round_order,
)

NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "j", "k", "l")
# Run counts and resolutions as the tables print them (Box, Hunter & Hunter, table 6.22).
PUBLISHED = {
    "2^(3-1)": (4, 3),
    "2^(4-1)": (8, 4),
    "2^(5-1)": (16, 5),
    "2^(5-2)": (8, 3),
    "2^(6-1)": (32, 6),
    "2^(6-2)": (16, 4),
    "2^(6-3)": (8, 3),
    "2^(7-1)": (64, 7),
    "2^(7-2)": (32, 4),
    "2^(7-3)": (16, 4),
    "2^(7-4)": (8, 3),
    "2^(8-1)": (128, 8),
    "2^(8-2)": (64, 5),
    "2^(8-3)": (32, 4),
    "2^(8-4)": (16, 4),
    "2^(9-5)": (16, 3),
    "2^(10-6)": (16, 3),
    "2^(11-7)": (16, 3),
}


def two_level(count: int) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(NAMES[:count], ("on", "off"))


def signs_of(design: FactorialDesign) -> list[tuple[int, ...]]:
    return [tuple(1 if level == "off" else -1 for level in cell.values()) for cell in design.cells]


def column(signs: list[tuple[int, ...]], chosen: tuple[int, ...]) -> list[int]:
    return [prod(cell[index] for index in chosen) for cell in signs]


def dot(left: list[int], right: list[int]) -> int:
    return sum(a * b for a, b in zip(left, right, strict=True))


def every_fraction() -> list[tuple[str, int]]:
    return [(name, count) for count in range(2, 12) for name in fractions_for(count)]


@pytest.mark.parametrize(("name", "count"), every_fraction())
def test_the_first_cell_is_the_reference_and_no_cell_comes_twice(name: str, count: int) -> None:
    design = factorial_design(two_level(count), name)
    assert set(design.cells[0].values()) == {"on"}
    assert len({tuple(cell.items()) for cell in design.cells}) == len(design.cells)
    assert all(tuple(cell) == NAMES[:count] for cell in design.cells)


@pytest.mark.parametrize(
    ("name", "count"), [pair for pair in every_fraction() if pair[0] not in ("full", "one-at-a-time")]
)
def test_fractions_are_balanced_and_orthogonal(name: str, count: int) -> None:
    signs = signs_of(factorial_design(two_level(count), name))
    for index in range(count):
        assert sum(column(signs, (index,))) == 0
    for pair in combinations(range(count), 2):
        assert sum(column(signs, pair)) == 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_run_count_and_resolution_are_the_published_ones(name: str) -> None:
    runs, published = PUBLISHED[name]
    count = int(name.removeprefix("2^(").split("-")[0])
    design = factorial_design(two_level(count), name)
    assert len(design.cells) == runs
    assert design.resolution == published


def test_every_table_entry_is_checked_against_its_publication() -> None:
    offered = {name for name, _ in every_fraction() if name.startswith("2^")}
    assert offered == set(PUBLISHED)


def defining_words(signs: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    count = len(signs[0])
    every = (c for length in range(1, count + 1) for c in combinations(range(count), length))
    return [chosen for chosen in every if abs(sum(column(signs, chosen))) == len(signs)]


@pytest.mark.parametrize("name", [name for name in PUBLISHED if int(name[3:].split("-")[0]) <= 9])
def test_the_defining_relation_has_as_many_words_as_the_fraction_drops(name: str) -> None:
    """A 2^(k-p) fraction has 2^p - 1 defining words; its resolution is the shortest."""
    count, dropped = (int(part) for part in name[3:-1].split("-"))
    signs = signs_of(factorial_design(two_level(count), name))
    words = defining_words(signs)
    assert len(words) == 2**dropped - 1
    assert min(len(word) for word in words) == resolution(signs)


@pytest.mark.parametrize("name", PUBLISHED)
def test_aliases_are_exactly_the_columns_that_agree(name: str) -> None:
    """Read the alias texts back, and compare them with every pair of columns of the design."""
    count = int(name[3:].split("-")[0])
    design = factorial_design(two_level(count), name)
    signs = signs_of(design)
    told: set[tuple[str, str, int]] = set()
    for text in design.aliases:
        chain = [(-1 if part.startswith("-") else 1, part.removeprefix("-")) for part in text.split(" = ")]
        for (sign, left), (other, right) in combinations(chain, 2):
            told.add((*sorted((left, right)), sign * other))  # type: ignore[arg-type]
    terms = {
        "*".join(NAMES[i] for i in chosen): column(signs, chosen)
        for length in (1, 2)
        for chosen in combinations(range(count), length)
    }
    seen = {
        (*sorted((left, right)), dot(terms[left], terms[right]) // len(signs))
        for left, right in combinations(terms, 2)
        if abs(dot(terms[left], terms[right])) == len(signs)
    }
    assert told == seen


def test_alias_texts_of_a_small_fraction() -> None:
    assert factorial_design(two_level(3), "half").aliases == ("a = -b*c", "b = -a*c", "c = -a*b")
    assert factorial_design(two_level(4), "half").aliases == ("a*b = c*d", "a*c = b*d", "a*d = b*c")
    assert factorial_design(two_level(5), "half").aliases == ()


def test_plackett_burman_spreads_each_interaction_over_the_other_main_effects() -> None:
    design = factorial_design(two_level(11), "plackett-burman-12")
    signs = signs_of(design)
    assert len(signs) == 12
    for number, pair in product(range(11), combinations(range(11), 2)):
        shared = dot(column(signs, (number,)), column(signs, pair))
        assert abs(shared) == (0 if number in pair else 4)
    assert design.aliases == ("every main effect holds 1/3 of each interaction between two other factors",)
    assert design.resolution == 3


def test_half_and_quarter_are_names_of_table_entries() -> None:
    assert factorial_design(two_level(5), "half") == factorial_design(two_level(5), "2^(5-1)")
    assert factorial_design(two_level(7), "quarter") == factorial_design(two_level(7), "2^(7-2)")


def test_full_factorial_takes_any_number_of_levels() -> None:
    factors = {"fsync": ("on", "off"), "wal_compression": ("off", "pglz", "lz4")}
    cells = full_factorial(factors)
    assert len(cells) == 6
    assert cells[0] == {"fsync": "on", "wal_compression": "off"}
    assert cells[1] == {"fsync": "on", "wal_compression": "pglz"}
    design = factorial_design(factors)
    assert list(design.cells) == cells
    assert (design.fraction, design.resolution, design.aliases) == ("full", None, ())


def test_one_at_a_time_changes_one_factor_a_cell() -> None:
    design = factorial_design({"x": ("1", "2", "3"), "y": ("1", "2")}, "one-at-a-time")
    assert design.cells == (
        {"x": "1", "y": "1"},
        {"x": "2", "y": "1"},
        {"x": "3", "y": "1"},
        {"x": "1", "y": "2"},
    )


@pytest.mark.parametrize(
    ("factors", "fraction", "message"),
    [
        ({}, "full", "at least one factor"),
        ({"x": ("1",)}, "full", 'factor "x" needs at least two different levels'),
        ({"x": ("1", "1")}, "full", 'factor "x" needs at least two different levels'),
        (two_level(4), "third", 'unknown fraction "third"'),
        (two_level(4), "2^(5-2)", 'fraction "2^(5-2)" does not fit 4 factors'),
        (two_level(2), "half", 'fraction "half" does not fit 2 factors'),
        (two_level(4), "quarter", 'fraction "quarter" does not fit 4 factors'),
        (two_level(4), "plackett-burman-12", "does not fit 4 factors"),
        ({**two_level(4), "x": ("1", "2", "3")}, "half", "needs two levels of each factor"),
    ],
)
def test_a_fraction_that_does_not_fit_is_a_study_error(
    factors: dict[str, tuple[str, ...]], fraction: str, message: str
) -> None:
    with pytest.raises(StudyError) as caught:
        factorial_design(factors, fraction)
    assert message in caught.value.message
    assert caught.value.detail


def test_round_order_is_a_seeded_permutation() -> None:
    cells = list(range(8))
    order = round_order(cells, 7, 1)
    assert sorted(order) == cells
    assert round_order(cells, 7, 1) == order
    assert round_order(cells, 7, 2) != order
    assert round_order(cells, 8, 1) != order
    # Stored runs resume on other machines and Python versions: the order is part of the format.
    assert order == (7, 3, 6, 2, 5, 1, 4, 0)


def test_round_order_favours_no_place() -> None:
    """Over 4000 rounds each of 4 cells comes first in 1000 +- 4 standard deviations (27.4)."""
    first = [round_order("abcd", 1, number)[0] for number in range(4000)]
    for cell in "abcd":
        assert abs(first.count(cell) - 1000) < 4 * 27.4

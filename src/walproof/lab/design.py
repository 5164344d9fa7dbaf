"""Which cells a study runs, and in which order. Pure: seeds and names in, cells out.

A factorial design gives every factor a few levels; the first level is the reference. A full factorial runs
every combination. A fraction of a two-level factorial runs few of them and pays with aliases: effects that
it cannot tell apart. The fractions are the minimum-aberration ones of Box, Hunter and Hunter, "Statistics
for Experimenters", 2nd edition, table 6.22, with signs chosen so that the cell with every factor at its
reference level, which studies compare with, is always among those that are run.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import prod
from typing import TypeVar

from walproof.errors import StudyError

Item = TypeVar("Item")

# Generators of 2^(k-p): the first k-p factors make a full factorial, each later factor is a product of
# these. Letters as in the tables, which skip I.
_LETTERS = "ABCDEFGHJKL"
_GENERATORS: Mapping[str, tuple[str, ...]] = {
    "2^(3-1)": ("AB",),
    "2^(4-1)": ("ABC",),
    "2^(5-1)": ("ABCD",),
    "2^(5-2)": ("AB", "AC"),
    "2^(6-1)": ("ABCDE",),
    "2^(6-2)": ("ABC", "BCD"),
    "2^(6-3)": ("AB", "AC", "BC"),
    "2^(7-1)": ("ABCDEF",),
    "2^(7-2)": ("ABCD", "ABDE"),
    "2^(7-3)": ("ABC", "BCD", "ACD"),
    "2^(7-4)": ("AB", "AC", "BC", "ABC"),
    "2^(8-1)": ("ABCDEFG",),
    "2^(8-2)": ("ABCD", "ABEF"),
    "2^(8-3)": ("ABC", "ABD", "BCDE"),
    "2^(8-4)": ("BCD", "ACD", "ABC", "ABD"),
    "2^(9-5)": ("ABC", "BCD", "ACD", "ABD", "ABCD"),
    "2^(10-6)": ("ABC", "BCD", "ACD", "ABD", "ABCD", "AB"),
    "2^(11-7)": ("ABC", "BCD", "ACD", "ABD", "ABCD", "AB", "AC"),
}
_PLACKETT_BURMAN = "plackett-burman-12"
# Plackett and Burman, "The Design of Optimum Multifactorial Experiments", Biometrika 33 (1946): each row is
# the one above shifted by one; a last row of minuses completes it.
_PLACKETT_BURMAN_ROW = (1, 1, -1, 1, 1, 1, -1, -1, -1, 1, -1)
_ONE_AT_A_TIME = "one-at-a-time"

Signs = tuple[int, ...]
"""One cell of a two-level design: -1 is the reference level, +1 the other, one per factor."""


@dataclass(frozen=True, slots=True)
class FactorialDesign:
    """The cells of a factorial study and what they can tell."""

    fraction: str
    """``full``, or the canonical name of the fraction (``half`` of five factors is ``2^(5-1)``)."""
    cells: tuple[Mapping[str, str], ...]
    """Factor -> level; the cell of reference levels comes first."""
    resolution: int | None
    """III: main effects aliased with pairs; IV: pairs with pairs; V and up: neither. None for designs
    that have none (full, one-at-a-time)."""
    aliases: tuple[str, ...]
    """Main effects and pairs that cannot be told apart: ``c = -a*b``. Empty for a full factorial."""


def round_order(cells: Sequence[Item], seed: int, round_number: int) -> tuple[Item, ...]:
    """The cells of one round in random order. It is always the same for a seed and a round, so a resumed run
    goes on in the order in which it began."""
    order = list(cells)
    random.Random(f"{seed}/{round_number}").shuffle(order)  # a text seeds the same on every machine
    return tuple(order)


def factorial_design(factors: Mapping[str, Sequence[str]], fraction: str = "full") -> FactorialDesign:
    """The design of that name over these factors.

    ``full``; ``half`` and ``quarter``; ``2^(k-p)`` as in the tables; ``plackett-burman-12`` (main effects
    of 5 to 11 factors); ``one-at-a-time``. Raises StudyError when the fraction is unknown or does not
    fit the factors.
    """
    _check_levels(factors)
    if fraction == "full":
        return FactorialDesign(fraction, tuple(full_factorial(factors)), None, ())
    if fraction == _ONE_AT_A_TIME:
        alias = "interactions are not seen: no cell changes two factors"
        return FactorialDesign(fraction, tuple(_one_at_a_time(factors)), None, (alias,))
    name = _canonical_name(fraction, len(factors))
    _check_fits(factors, fraction, name)
    signs = _plackett_burman(len(factors)) if name == _PLACKETT_BURMAN else _regular(_GENERATORS[name])
    # Fewest changes first, so the first cell is the one of reference levels.
    signs.sort(key=lambda cell: (sum(sign > 0 for sign in cell), [-sign for sign in cell]))
    cells = tuple(
        {name: levels[sign > 0] for (name, levels), sign in zip(factors.items(), cell, strict=True)}
        for cell in signs
    )
    return FactorialDesign(name, cells, resolution(signs), _aliases(tuple(factors), signs))


def full_factorial(factors: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of levels, the last factor varying fastest."""
    return [dict(zip(factors, levels, strict=True)) for levels in product(*factors.values())]


def resolution(signs: Sequence[Signs]) -> int | None:
    """Length of the shortest product of factors that is correlated with a constant.

    Then a main effect is aliased with products of ``resolution - 1`` factors at the least. None when no
    product is, as in a full factorial.
    """
    count = len(signs[0])
    for length in range(1, count + 1):
        for chosen in combinations(range(count), length):
            if sum(_products(signs, chosen)) != 0:
                return length
    return None


def _one_at_a_time(factors: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    reference = {name: levels[0] for name, levels in factors.items()}
    return [reference] + [
        {**reference, name: level} for name, levels in factors.items() for level in levels[1:]
    ]


def _regular(generators: Sequence[str]) -> list[Signs]:
    basic = _basic_count(generators)
    cells = []
    for cell in product((-1, 1), repeat=basic):
        # An odd product of minuses is a minus already; an even one needs its sign turned, or the cell
        # of reference levels would fall outside the fraction.
        later = [
            prod(cell[_LETTERS.index(letter)] for letter in word) * (1 if len(word) % 2 else -1)
            for word in generators
        ]
        cells.append((*cell, *later))
    return cells


def _basic_count(generators: Sequence[str]) -> int:
    return max(_LETTERS.index(letter) for word in generators for letter in word) + 1


def _plackett_burman(count: int) -> list[Signs]:
    row = _PLACKETT_BURMAN_ROW
    rows = [row[-shift:] + row[:-shift] for shift in range(len(row))]
    return [cell[:count] for cell in (*rows, (-1,) * len(row))]


def _aliases(names: Sequence[str], signs: Sequence[Signs]) -> tuple[str, ...]:
    """Chains of main effects and pairs whose columns agree, from the columns themselves."""
    columns = {
        "*".join(names[i] for i in chosen): _products(signs, chosen)
        for length in (1, 2)
        for chosen in combinations(range(len(names)), length)
    }
    chains: list[list[str]] = []
    partial: set[Fraction] = set()
    placed: set[str] = set()
    for name, column in columns.items():
        chain = [name]
        for other, values in columns.items():
            share = Fraction(sum(a * b for a, b in zip(column, values, strict=True)), len(signs))
            if other != name and abs(share) == 1 and other not in placed:
                chain.append(other if share == 1 else f"-{other}")
                placed.add(other)
            elif share not in (-1, 0, 1):
                partial.add(abs(share))
        if name not in placed and len(chain) > 1:
            chains.append(chain)
        placed.add(name)
    texts = [" = ".join(chain) for chain in chains]
    texts += [
        f"every main effect holds {share} of each interaction between two other factors"
        for share in sorted(partial)
    ]
    return tuple(texts)


def _products(signs: Sequence[Signs], chosen: Sequence[int]) -> list[int]:
    return [prod(cell[index] for index in chosen) for cell in signs]


def _canonical_name(fraction: str, count: int) -> str:
    dropped = {"half": 1, "quarter": 2}.get(fraction)
    return f"2^({count}-{dropped})" if dropped else fraction


def _check_levels(factors: Mapping[str, Sequence[str]]) -> None:
    if not factors:
        raise StudyError("a factorial design needs at least one factor", detail="Got none.")
    for name, levels in factors.items():
        if len(set(levels)) < max(2, len(levels)):
            raise StudyError(
                f'factor "{name}" needs at least two different levels',
                detail=f"Got: {', '.join(levels) or 'none'}.",
            )


def _check_fits(factors: Mapping[str, Sequence[str]], fraction: str, name: str) -> None:
    fitting = fractions_for(len(factors))
    if name not in _GENERATORS and name != _PLACKETT_BURMAN and fraction == name:
        raise StudyError(
            f'unknown fraction "{fraction}"',
            detail=f"For {len(factors)} factors there are: {', '.join(fitting)}.",
        )
    if name not in fitting:
        raise StudyError(
            f'fraction "{fraction}" does not fit {len(factors)} factors',
            detail=f"For {len(factors)} factors there are: {', '.join(fitting)}.",
        )
    for factor, levels in factors.items():
        if len(levels) != 2:
            raise StudyError(
                f'fraction "{fraction}" needs two levels of each factor',
                detail=f'Factor "{factor}" has {len(levels)}: {", ".join(levels)}.',
                hint=f'Give it two levels, or use "full" or "{_ONE_AT_A_TIME}".',
            )


def fractions_for(count: int) -> tuple[str, ...]:
    """Names of the designs that fit that many two-level factors, the largest first."""
    regular = [
        name
        for name, generators in _GENERATORS.items()
        if _basic_count(generators) + len(generators) == count
    ]
    # Up to three factors the full factorial is smaller; with four a cell would come twice.
    screening = [_PLACKETT_BURMAN] if 5 <= count <= len(_PLACKETT_BURMAN_ROW) else []
    return ("full", *regular, *screening, _ONE_AT_A_TIME)

"""Which factors matter? Few trials that each move about half of the factors (Plackett and Burman 1946).

Every factor's effect is then estimated from all trials and not just from two of its own: with eleven factors,
twelve trials show each effect as well as seventy would with one factor at a time. What a limit rules out is
not run: factors go back to their defaults, one at a time, until the row keeps its promises. Where the
defaults themselves break one, rows have the fewest lines that keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from walproof.analysis.tuning.space import Space
from walproof.facts.tuning import DEFAULT, Candidate

PRIMES = (3, 7, 11, 19, 23, 31, 43, 47, 59, 67, 71, 79, 83)
"""Primes that leave 3 when divided by 4: each gives a design for that many factors."""


def plackett_burman(factors: int) -> list[list[bool]]:
    """Rows of which of ``factors`` are moved; the row that moves none, which is the default, is left out.

    By Paley's construction (1933): shifts of the quadratic residues of a prime. Any two factors are moved
    together, apart and not at all in equally many rows. Raises ValueError above 83 factors.
    """
    prime = next((number for number in PRIMES if number >= factors), None)
    if prime is None:
        raise ValueError(f"a design for at most {PRIMES[-1]} factors, not {factors}")
    squares = {number * number % prime for number in range(prime)}
    return [[(column + shift) % prime in squares for column in range(factors)] for shift in range(prime)]


def one_at_a_time(
    space: Space, settings: Sequence[str], admits: Callable[[Candidate], bool]
) -> Iterator[Candidate]:
    """Every other choice of each setting alone. Settings take turns, so that the first few cover them all."""
    columns = [
        [choice for choice in space.factors[name].choices if choice != space.factors[name].default]
        for name in settings
    ]
    for turn in range(max(map(len, columns), default=0)):
        for name, choices in zip(settings, columns, strict=True):
            if turn < len(choices):
                # From the far end inwards: what does nothing there does nothing between.
                candidate = space.candidate({name: _spread_out(choices)[turn]})
                if candidate != DEFAULT and admits(candidate):
                    yield candidate


def fraction(
    space: Space,
    settings: Sequence[str],
    admits: Callable[[Candidate], bool],
    least: Candidate = DEFAULT,
) -> Iterator[Candidate]:
    """The rows of the design as candidates; a factor with several choices takes each of them in turn.

    ``least``: lines that rows are given which break a promise without them.
    """
    turns = dict.fromkeys(settings, 0)
    seen: set[Candidate] = {DEFAULT}
    for row in plackett_burman(len(settings)):
        values: dict[str, str] = {}
        for name, moved in zip(settings, row, strict=True):
            if moved:
                factor = space.factors[name]
                choices = _spread_out([choice for choice in factor.choices if choice != factor.default])
                values[name] = choices[turns[name] % len(choices)]
                turns[name] += 1
        candidate = repaired(space, values, admits, least)
        if candidate not in seen:
            seen.add(candidate)
            yield candidate


def repaired(
    space: Space, values: dict[str, str], admits: Callable[[Candidate], bool], least: Candidate = DEFAULT
) -> Candidate:
    """The candidate with those values, of which just enough are given back, one by one, to keep promises.

    ``least``: lines that it is given if it breaks a promise without them, and that it keeps then.
    """
    candidate = space.candidate(values)
    if not admits(candidate):
        candidate = space.candidate(values | least.conf)
    while not admits(candidate):
        lines = [name for name, _ in candidate.settings if name not in least.conf]
        if not lines:
            return least
        fewer = [space.without(candidate, name) for name in lines]
        candidate = next((shorter for shorter in fewer if admits(shorter)), fewer[-1])
    return candidate


def _spread_out(choices: Sequence[str]) -> list[str]:
    """The largest, the middle, the smallest, then the others."""
    order = list(dict.fromkeys([len(choices) - 1, len(choices) // 2, 0, *range(len(choices))]))
    return [choices[index] for index in order]

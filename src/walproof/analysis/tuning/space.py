"""What can be searched: the grid of all factors' choices, and a single form for each configuration.

Two confs that make the same server are the same candidate: a line that sets the default is left out, and so
is a line whose factor needs another setting that the conf does not have. A line above the setting that caps
it has the largest choice within that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from walproof.facts.tuning import Candidate, Factor, TuningPlan
from walproof.settings.catalogue import normalise

ABSENT = ""
"""Value, in all other candidates, of a setting that only a start sets."""
_NUMBER = re.compile(r"^(-?\d+(?:\.\d+)?)\s*([a-zA-Z]*)$")
_UNITS = {
    "": 1.0, "b": 1.0, "kb": 1024.0, "mb": 1024.0**2, "gb": 1024.0**3, "tb": 1024.0**4,
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip


class Space:
    """The factors of a plan, and the settings that only its starts set, as a grid."""

    def __init__(self, plan: TuningPlan) -> None:
        self.keep = dict(plan.keep)
        factors = {factor.setting: _with(factor, factor.default) for factor in plan.factors}
        self.searched = tuple(factors)
        """Settings that are moved; lines of other factors come from starts, and may only be given back."""
        for start in plan.starts:
            for setting, value in start.settings:
                known = factors.get(setting) or Factor(setting, (ABSENT,), None, ABSENT, "fresh")
                factors[setting] = _with(known, value)
        self.factors: Mapping[str, Factor] = factors

    @property
    def size(self) -> int:
        """Number of points in the grid of searched factors, including points with idle lines."""
        return math.prod(len(self.factors[name].choices) for name in self.searched)

    def values(self, candidate: Candidate) -> dict[str, str]:
        """Each factor's value in the candidate."""
        conf = candidate.conf
        return {name: conf.get(name, factor.default) for name, factor in self.factors.items()}

    def candidate(self, values: Mapping[str, str]) -> Candidate:
        """The candidate with those values, without lines that change nothing."""
        lines = {
            name: value
            for name, value in values.items()
            if name not in self.factors or value != self.factors[name].default
        }
        while idle := [name for name in lines if not self._acts(name, lines)]:
            for name in idle:
                del lines[name]
        for name in [name for name in lines if self._is_capped(name, lines[name], lines)]:
            factor = self.factors[name]
            within = [choice for choice in factor.choices if not self._is_capped(name, choice, lines)]
            lines[name] = max(within, key=lambda choice: number_of(name, choice), default=factor.default)
            if lines[name] == factor.default:
                del lines[name]
        return Candidate.of(lines)

    def without(self, candidate: Candidate, setting: str) -> Candidate:
        """The candidate without a line and without the lines that need it."""
        return self.candidate({name: value for name, value in candidate.settings if name != setting})

    def neighbours(self, candidate: Candidate) -> Iterator[Candidate]:
        """Every candidate, once, that differs in the value of one searched factor or gives back a start's
        line."""
        values = self.values(candidate)
        seen = {candidate}
        for name, factor in self.factors.items():
            for choice in factor.choices if name in self.searched else (factor.default,):
                if choice != values[name]:
                    other = self.candidate({**values, name: choice})
                    if other not in seen:
                        seen.add(other)
                        yield other

    def everything(self) -> Iterator[Candidate]:
        """Every candidate of the searched factors' grid, once."""
        seen: set[Candidate] = set()
        for choices in product(*(self.factors[name].choices for name in self.searched)):
            candidate = self.candidate(dict(zip(self.searched, choices, strict=True)))
            if candidate not in seen:
                seen.add(candidate)
                yield candidate

    def code(self, candidate: Candidate) -> tuple[int, ...]:
        """Number of each factor's choice. Raises ValueError for a value that is not a choice."""
        values = self.values(candidate)
        return tuple(factor.choices.index(values[name]) for name, factor in self.factors.items())

    def holds(self, candidate: Candidate) -> bool:
        """Whether every line of the candidate is a choice of a factor."""
        return all(
            name in self.factors and value in self.factors[name].choices for name, value in candidate.settings
        )

    def is_toggled(self, candidate: Candidate, other: Candidate) -> bool:
        """Whether the two differ, and only in settings that a running server takes on reload."""
        ours, theirs = self.values(candidate), self.values(other)
        differ = [name for name in self.factors if ours[name] != theirs[name]]
        return bool(differ) and all(self.factors[name].design == "toggled" for name in differ)

    def _is_capped(self, name: str, value: str, lines: Mapping[str, str]) -> bool:
        """Whether the setting acts with less than the value, because another one is smaller."""
        factor = self.factors.get(name)
        if factor is None or factor.capped_by is None:
            return False
        most = self._value(factor.capped_by, lines)
        return most is not None and number_of(name, value) > number_of(factor.capped_by, most)

    def _acts(self, name: str, lines: Mapping[str, str]) -> bool:
        needs: dict[str, set[str]] = {}
        factor = self.factors.get(name)
        for setting, value in factor.needs if factor else ():
            needs.setdefault(setting, set()).add(value)
        # A setting that nobody sets has the version's default, with which the space was made.
        return all(
            self._value(setting, lines) in {None, ABSENT, *values} for setting, values in needs.items()
        )

    def _value(self, setting: str, lines: Mapping[str, str]) -> str | None:
        known = self.factors.get(setting)
        return lines.get(setting, self.keep.get(setting, known.default if known else None))


def _with(factor: Factor, value: str) -> Factor:
    """The factor with one more choice: placed by size if the choices have an order, else at the end."""
    if value in factor.choices:
        return factor
    size = _size(value)
    place = len(factor.choices)
    if factor.scale is not None and size is not None:
        sizes = [_size(choice) for choice in factor.choices]
        place = sum(1 for other in sizes if other is not None and other < size)
    choices = (*factor.choices[:place], value, *factor.choices[place:])
    return replace(factor, choices=choices, scale=factor.scale if size is not None else None)


def _size(value: str) -> float | None:
    """A value as a number, so that choices can be put in order; None for words."""
    found = _NUMBER.match(value.strip())
    if found is None or found[2].lower() not in _UNITS:
        return None
    return float(found[1]) * _UNITS[found[2].lower()]


def number_of(name: str, value: str) -> float:
    """The value of a setting as a number, whatever its unit; 0 for a word. Raises SettingError."""
    return _size(normalise(name, value)) or 0.0


def places(factor: Factor) -> list[float]:
    """Position of each choice in the range, from 0 to 1; choices are spaced as the factor's scale says."""
    count = len(factor.choices)
    return [index / (count - 1) if count > 1 else 0.0 for index in range(count)]

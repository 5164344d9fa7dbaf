"""What a configuration may lose: which value of which setting risks what.

``durability.csv`` is about a crash of one machine. A row's class holds only for its ``risky_values`` (``*``
for any value), and only together with ``only_with`` if that is filled in. ``other_risks.csv`` is about what
else may happen: a failover, a restore, a full disk, a slot that is invalidated. A value there may be
``(empty)``, or ``!VALUE`` for any other. Both are curated from the pages of the manual in their ``doc``
column.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from walproof.settings.catalogue import is_custom, normalise
from walproof.settings.durability import DurabilityClass

_TABLE = Path(__file__).with_name("durability.csv")
_OTHERS = Path(__file__).with_name("other_risks.csv")
_EMPTY = "(empty)"


@dataclass(frozen=True, slots=True)
class About:
    """What is known about a setting of the write path, in words."""

    name: str
    durability: DurabilityClass
    """What its risky values may cost."""
    risky_values: tuple[str, ...]
    only_with: tuple[str, str] | None
    """(setting, value) without which the risky values risk nothing."""
    risk: str
    tradeoff: str
    evidence: str
    """Where its effect can be observed."""
    doc: str
    """Page of the manual."""


def durability_class(settings: Mapping[str, str]) -> DurabilityClass:
    """What a crash of the machine may cost with ``settings`` over the defaults: the worst of them.

    Raises SettingError for a value of a risky setting that cannot be read.
    """
    return max((found for _, found, _ in risk_of(settings)), default=DurabilityClass.NONE)


def risk_of(settings: Mapping[str, str]) -> list[tuple[str, DurabilityClass, str]]:
    """(setting, class, sentence) for each of ``settings`` that risks something, the worst first.

    Raises SettingError for a value of a risky setting that cannot be read.
    """
    rows = about()
    given = {name.lower(): value for name, value in settings.items() if not is_custom(name)}
    values = {name: normalise(name, value) for name, value in given.items() if name in rows}
    found = [
        (row.name, row.durability, f"{row.name}={given[name]}: {row.risk}")
        for name, value in values.items()
        if (row := rows[name]).durability is not DurabilityClass.NONE
        and (row.risky_values == ("*",) or value in row.risky_values)
        and (row.only_with is None or values.get(row.only_with[0]) == row.only_with[1])
    ]
    return sorted(found, key=lambda risk: -risk[1].rank)


def other_risks(settings: Mapping[str, str]) -> list[tuple[str, str]]:
    """(setting, sentence) for each of ``settings`` that risks something else than by a crash of the machine.

    Raises SettingError for a value of such a setting that cannot be read.
    """
    found = []
    for given, value in settings.items():
        for name, values, risk in _others():
            if name != given.lower():
                continue
            known = normalise(name, value).strip() or _EMPTY
            if any(known != other[1:] if other.startswith("!") else known == other for other in values):
                found.append((name, f"{name}={value or _EMPTY}: {risk}"))
    return found


@functools.cache
def _others() -> tuple[tuple[str, tuple[str, ...], str], ...]:
    with _OTHERS.open(newline="", encoding="utf-8") as file:
        return tuple(
            (row["name"], tuple(row["values"].split("|")), row["risk"]) for row in csv.DictReader(file)
        )


@functools.cache
def about() -> Mapping[str, About]:
    """Name -> what is known, for the settings that bear on the write path."""
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return {row["name"]: _read(row) for row in csv.DictReader(file)}


def _read(row: Mapping[str, str]) -> About:
    other, _, value = row["only_with"].partition("=")
    return About(
        name=row["name"],
        durability=DurabilityClass(row["durability_class"]),
        risky_values=tuple(row["risky_values"].split("|")) if row["risky_values"] else (),
        only_with=(other, value) if other else None,
        risk=row["risk"],
        tradeoff=row["tradeoff"],
        evidence=row["evidence"],
        doc=row["doc"],
    )

"""What platforms refuse, from ``rules.csv``: a dated table with sources, whose rules are

fixed    nobody can set it there
only     these values alone (``a|b``)
not      any value but these
min, max numbers in this range
boolean  on and off alone: any other value but off is written as on, which is the value in the table
static   a change waits for a reboot there, though PostgreSQL itself needs none
allow    somebody sets it there
rest     nothing but what has a row with allow is known to be settable there; other settings may be
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from walproof.platforms.platform import Refusal
from walproof.settings.catalogue import Catalogue
from walproof.settings.change import Change
from walproof.settings.value import Setting, canonical, parse

_TABLE = Path(__file__).with_name("rules.csv")


@dataclass(frozen=True, slots=True)
class PlatformRule:
    """One line of the table."""

    setting: str
    """A name, or a pattern with ``*``."""
    rule: str
    value: str
    reason: str
    source: str
    looked_up: str
    """ISO date."""
    refused_example: str
    """A value, or ``name=value``, that the rule refuses; empty where the catalogue refuses it already."""
    versions: str = ""
    """Major versions that the rule is for, as ``13-17`` or ``18``; empty for all."""

    @property
    def cited(self) -> str:
        """Source and date."""
        return f"{self.source} ({self.looked_up})"

    def is_for(self, version_num: int) -> bool:
        """Whether the rule is for servers of this version."""
        if not self.versions:
            return True
        least, _, most = self.versions.partition("-")
        return int(least) <= version_num // 10_000 <= int(most or least)


def refuse_by_rules(platform: str, change: Change, version_num: int) -> Refusal | None:
    """The first rule of the platform that refuses a change. Raises SettingError for a wrong value."""
    setting = Catalogue.for_version(version_num).get(change.name)
    rules = [rule for rule in rules_of(platform) if rule.is_for(version_num)]
    allowed = {rule.setting for rule in rules if rule.rule == "allow"}
    for rule in rules:
        if not fnmatchcase(setting.name, rule.setting):
            continue
        is_unlisted = rule.rule == "rest" and setting.name not in allowed
        if is_unlisted or _refuses(rule, setting, change.value):
            return Refusal(change, rule.reason, rule.cited, is_unlisted)
    return None


def boolean_rule(platform: str, name: str, version_num: int) -> PlatformRule | None:
    """The rule by which a setting takes on and off alone there; None if it takes what the server takes."""
    for rule in rules_of(platform):
        if rule.rule == "boolean" and rule.setting == name and rule.is_for(version_num):
            return rule
    return None


def is_static(platform: str, name: str, version_num: int) -> bool:
    """Whether the platform changes a setting at a reboot alone that PostgreSQL changes at once."""
    return any(
        rule.rule == "static" and rule.setting == name and rule.is_for(version_num)
        for rule in rules_of(platform)
    )


def written_otherwise(platform: str, change: Change, version_num: int) -> PlatformRule | None:
    """The rule by which lines for the platform give the setting another value; None if they give this one.

    Raises SettingError for a wrong value.
    """
    rule = boolean_rule(platform, change.name, version_num)
    if rule is None:
        return None
    setting = Catalogue.for_version(version_num).get(change.name)
    if "on" not in setting.values:  # a boolean in this version
        return None
    same = {canonical(setting, value) for value in ("off", "on", rule.value)}
    return None if canonical(setting, change.value) in same else rule


def _refuses(rule: PlatformRule, setting: Setting, value: str) -> bool:
    match rule.rule:
        case "fixed":
            return True
        case "only" | "not":
            listed = canonical(setting, value) in {
                canonical(setting, choice) for choice in rule.value.split("|")
            }
            return listed is (rule.rule == "not")
        case "min" | "max":
            given, bound = parse(setting, value), parse(setting, rule.value)
            assert not isinstance(given, str)
            assert not isinstance(bound, str)
            return given < bound if rule.rule == "min" else given > bound
        case _:
            return False


def rules_of(platform: str) -> tuple[PlatformRule, ...]:
    """The rules of one platform, in the table's order."""
    return _rules().get(platform, ())


@functools.cache
def _rules() -> Mapping[str, tuple[PlatformRule, ...]]:
    found: dict[str, list[PlatformRule]] = {}
    with _TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row.pop("platform"), []).append(PlatformRule(**row))
    return {name: tuple(rules) for name, rules in found.items()}

"""Configurations that are tried first: the user's own, and pgtune's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from walproof.facts.tuning import Candidate, Factor
from walproof.settings.catalogue import Catalogue
from walproof.settings.tuning import movables
from walproof.settings.usable import Takes, usable


@dataclass(frozen=True, slots=True)
class OwnConf:
    """The user's postgresql.conf, as far as a throw-away server can have it."""

    moved: Mapping[str, str]
    """Settings that the tuning may move; they form a start."""
    kept: Mapping[str, str]
    """Other settings, which every configuration has."""
    left_out: tuple[str, ...]
    """Sentences about lines that no throw-away server can have."""


def own_conf(conf: Mapping[str, str], version_num: int, takes: Takes) -> OwnConf:
    """Sort the lines of the conf by what becomes of them."""
    found = usable(conf, version_num, takes)
    moved = {name: value for name, value in found.settings.items() if name in movables()}
    kept = {name: value for name, value in found.settings.items() if name not in moved}
    return OwnConf(moved, kept, tuple(f"{name}: {reason}" for name, reason in found.left_out.items()))


def as_start(conf: Mapping[str, str], factors: tuple[Factor, ...], version_num: int) -> Candidate:
    """The lines of a conf that set a factor to something else than its default."""
    catalogue = Catalogue.for_version(version_num)
    found = {}
    for factor in factors:
        value = conf.get(factor.setting)
        if value is None:
            continue
        normal = catalogue.normalise(factor.setting, value)
        if normal == catalogue.normalise(factor.setting, factor.default):
            continue
        same = [c for c in factor.choices if catalogue.normalise(factor.setting, c) == normal]
        found[factor.setting] = same[0] if same else value
    return Candidate.of(found)

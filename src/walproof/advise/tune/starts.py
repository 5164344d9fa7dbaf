"""Configurations that are tried first: the user's own, and pgtune's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from walproof.advise.tune.space import Bounds, RefusedThere, without_line
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
    by_sql: frozenset[str] = frozenset()
    """Names that ALTER SYSTEM has set on the user's server."""
    is_archiving: bool = False
    """Whether it has an archiver."""
    not_here: Mapping[str, str] = field(default_factory=dict)
    """Settings that the tuning might move, with a value that no server here takes."""

    def replaced(self, keep: Mapping[str, str], version_num: int) -> dict[str, str]:
        """What a configuration without a line for it has instead of each moved setting, where that differs.

        ``keep``: settings that every configuration has.
        """
        catalogue = Catalogue.for_version(version_num)
        instead = {name: keep.get(name) or without_line(name, catalogue) for name in self.moved}
        return {
            name: value
            for name, value in instead.items()
            if catalogue.normalise(name, value) != catalogue.normalise(name, self.moved[name])
        }


def own_conf(
    conf: Mapping[str, str],
    version_num: int,
    takes: Takes,
    only: Collection[str] | None = None,
    refused_there: RefusedThere = lambda _name, _value: None,
) -> OwnConf:
    """Sort the lines of the conf by what becomes of them. ``only``: the only settings that may move.

    A line that the platform takes from nobody stays as it is: the user's server has it, and keeps it.
    """
    found = usable(conf, version_num, takes)
    may_move = movables() if only is None else only
    moved = {
        name: value
        for name, value in found.settings.items()
        if name in may_move and refused_there(name, value) is None
    }
    kept = {name: value for name, value in found.settings.items() if name not in moved}
    left_out = tuple(f"{name}: {reason}" for name, reason in found.left_out.items())
    not_here = {name: conf[name] for name in found.refused if name in may_move}
    return OwnConf(moved, kept, left_out, not_here=not_here)


def with_unsearched_kept(
    own: OwnConf, searched: Collection[str], bounds: Bounds, only: Collection[str] | None = None
) -> OwnConf:
    """The conf with lines that no search moves among the kept: nothing is known against them.

    So is a synchronous_commit that is about standbys, which no throw-away server has, unless ``only`` names
    it. Lines that break a promise, or that this machine cannot try, are not kept. ``searched``: names of the
    factors; ``bounds``: with the conf's other lines. Raises SettingError.
    """
    catalogue = Catalogue.for_version(bounds.version_num)
    kept = {}
    for name, value in own.moved.items():
        normal = catalogue.normalise(name, value)
        is_default = normal == catalogue.normalise(name, without_line(name, catalogue))
        if name in bounds.keep or is_default or bounds.refusal(name, value) is not None:
            continue
        is_of_standbys = name == "synchronous_commit" and normal not in ("on", "off")
        if name not in searched or (is_of_standbys and only is None):
            kept[name] = value
    moved = {name: value for name, value in own.moved.items() if name not in kept}
    return replace(own, moved=moved, kept={**own.kept, **kept})


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

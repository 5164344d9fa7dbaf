"""The search space: which settings may move on this server and machine, and why others may not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from walproof.advise.tune.memory import allowed_bytes, memory_of
from walproof.analysis.server_limits import ServerLimits, WalKeepers
from walproof.analysis.tuning.space import number_of
from walproof.errors import SettingError
from walproof.facts.tuning import Factor, Limit, Promises, Scale
from walproof.sentences import say_count
from walproof.settings.catalogue import Catalogue
from walproof.settings.designs import designs
from walproof.settings.risk import durability_class
from walproof.settings.tuning import Movable, movables
from walproof.settings.usable import Takes
from walproof.settings.value import parse
from walproof.units import format_bytes


def usable_wal_bytes(
    promises: Promises, keep: Mapping[str, str], catalogue: Catalogue, *, is_archiving: bool = False
) -> int | None:
    """The most that pg_wal and max_wal_size may take of the promised room; None where none is promised.

    ``keep``: settings of every configuration, of which wal_keep_size needs room beside; ``is_archiving``:
    whether the user's server has an archiver, which may be late. Raises SettingError.
    """
    kept_mb = int(parse(catalogue.get("wal_keep_size"), keep.get("wal_keep_size", "0")))
    keepers = WalKeepers(kept_bytes=kept_mb << 20, is_shared=is_archiving)
    return ServerLimits(wal_disk_bytes=promises.wal_disk_bytes, keepers=keepers).usable_wal_bytes


@dataclass(frozen=True, slots=True)
class Capacity:
    """Memory and disk of a machine, on which ranges depend."""

    memory_bytes: int
    disk_bytes: int
    """Free space where the servers run."""


@dataclass(frozen=True, slots=True)
class NotMoved:
    """A setting, or a value of a setting, that is not searched."""

    setting: str
    value: str | None
    """None: the setting does not move at all."""
    limit: Limit | None
    """The limit that rules it out; None if it is left out for another reason."""
    reason: str


RefusedThere = Callable[[str, str], str | None]
"""(name, value) -> why a platform does not take the line; None if it does."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a server of the tuning can have, as far as that is known before the load is recorded."""

    version_num: int
    machine: Capacity
    promises: Promises
    clients: int
    takes: Takes
    keep: Mapping[str, str]
    """Settings that every configuration has."""
    refused_there: RefusedThere = lambda _name, _value: None
    """Why the platform that the lines are for does not take a line."""
    is_archiving: bool = False
    """Whether the user's server has an archiver, for which pg_wal may have to keep WAL."""
    not_here: Mapping[str, str] = field(default_factory=dict)
    """Settings of the user's server with a value that no server here takes. What another value gives beside
    that one cannot be measured."""

    @property
    def usable_wal_bytes(self) -> int | None:
        """See ``usable_wal_bytes``."""
        catalogue = Catalogue.for_version(self.version_num)
        return usable_wal_bytes(self.promises, self.keep, catalogue, is_archiving=self.is_archiving)

    def refusal(self, name: str, value: str) -> NotMoved | None:
        """Why no configuration may have the line; None if some may. Raises SettingError."""
        found = durability_class({name: value})
        if found.rank > self.promises.may_lose.rank:
            return NotMoved(name, value, Limit.MAY_LOSE, f"with it a crash {found.value}")
        reason = self.refused_there(name, value)
        if reason is not None:
            return NotMoved(name, value, Limit.PLATFORM, reason)
        catalogue = Catalogue.for_version(self.version_num)
        if name in ("max_wal_size", "min_wal_size"):
            size = int(parse(catalogue.get(name), value)) << 20
            usable, free = self.usable_wal_bytes, self.machine.disk_bytes
            if usable is not None and size > usable:
                reason = f"it may take {format_bytes(usable)} of the room for pg_wal"
                return NotMoved(name, value, Limit.WAL_DISK, reason)
            if size > free // 2:
                reason = f"it cannot be tried: the disk here has {format_bytes(free)} free"
                return NotMoved(name, value, None, reason)
        if name in ("shared_buffers", "wal_buffers"):
            needed = memory_of({**self.keep, name: value}, catalogue, self.clients)
            allowed = allowed_bytes(self.promises, self.machine.memory_bytes)
            if needed > allowed:
                reason = (
                    f"with it a server takes {format_bytes(needed)}, and may take {format_bytes(allowed)}"
                )
                return NotMoved(name, value, Limit.MEMORY, reason)
        if not self.takes(name, value):
            return NotMoved(name, value, Limit.REFUSED, "this build of PostgreSQL does not take it")
        return None

    def is_too_large_here(self, name: str, value: str) -> bool:
        """Whether it is this machine that cannot try the line, and no promise that rules it out. Raises
        SettingError."""
        found = self.refusal(name, value)
        if found is None:
            return False
        return found.limit is None or (found.limit is Limit.MEMORY and self.promises.memory_bytes is None)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The settings that are searched, and those that are not."""

    factors: tuple[Factor, ...]
    not_moved: tuple[NotMoved, ...]


def search_space(bounds: Bounds, *, only: Collection[str] | None = None, toggles: bool = True) -> SearchSpace:
    """The settings that may move. ``only``, if given, names the candidates. ``toggles``: whether settings may
    change on a running server: not at an offered rate, where what a slice owes of it would be paid in the
    next, nor where something is measured that slices do not have.

    Raises SettingError for a name in ``only`` that no tuning moves or that is kept as well.
    """
    _check_only(bounds.version_num, only, bounds.keep)
    catalogue = Catalogue.for_version(bounds.version_num)
    kept = {name.lower(): value for name, value in bounds.keep.items()}
    factors: dict[str, Factor] = {}
    left: list[NotMoved] = []
    for name, row in movables().items():
        if name not in catalogue.settings:
            left.append(NotMoved(name, None, None, f"PostgreSQL {catalogue.version} does not have it"))
        elif name in kept:
            left.append(NotMoved(name, None, None, f"it stays {kept[name]}"))
        elif only is not None and name not in only:
            continue
        elif name in bounds.not_here:
            reason = f"your server has {bounds.not_here[name]}, which this build of PostgreSQL does not take"
            left.append(NotMoved(name, None, None, reason))
        elif bounds.clients < row.clients_least:
            clients = say_count(bounds.clients, "client")
            reason = f"it does nothing with {clients}: it needs at least {row.clients_least}"
            left.append(NotMoved(name, None, None, reason))
        else:
            factor = _factor(row, catalogue, bounds, left)
            if factor is not None:
                factors[name] = factor if toggles else replace(factor, design="fresh")
    for name, factor in list(factors.items()):
        unmet = [need for need in factor.needs if not _may_be(*need, factors, kept, catalogue)]
        left += [
            NotMoved(name, None, None, f"it does nothing without {other}={value}") for other, value in unmet
        ]
        if unmet:
            del factors[name]
        else:
            # What is kept has what is needed of it in every configuration.
            needs = tuple(need for need in factor.needs if need[0] not in kept)
            factors[name] = replace(factor, needs=needs)
    for name, factor in list(factors.items()):
        capped = _capped(factor, factors, kept, catalogue)
        left += [unmoved for _, unmoved in capped]
        choices = tuple(choice for choice in factor.choices if choice not in dict(capped))
        if len(choices) < 2:
            del factors[name]
        else:
            factors[name] = replace(factor, choices=choices)
    if not factors:
        raise SettingError(
            "no setting is left that may move",
            detail="\n".join(
                f"{unmoved.setting}{'' if unmoved.value is None else f' = {unmoved.value}'}: {unmoved.reason}"
                for unmoved in left
            ),
            hint="Promise less (--may-lose, --wal-disk, --memory)."
            if any(unmoved.limit is not None for unmoved in left)
            else "Keep fewer settings, or allow more with --only.",
        )
    return SearchSpace(tuple(factors.values()), tuple(left))


def _check_only(version_num: int, only: Collection[str] | None, keep: Mapping[str, str]) -> None:
    catalogue = Catalogue.for_version(version_num)
    for name in only or ():
        if name not in movables():
            catalogue.get(name)
            raise SettingError(
                f'no tuning moves "{name}"',
                detail=f"A tuning may move: {', '.join(movables())}.",
                hint=f"--keep {name}=VALUE gives it a value in every configuration.",
            )
        if name in {kept.lower() for kept in keep}:
            raise SettingError(f'"{name}" is both in --only and kept', hint="Leave out one of them.")


def _factor(row: Movable, catalogue: Catalogue, bounds: Bounds, left: list[NotMoved]) -> Factor | None:
    default = without_line(row.name, catalogue)
    choices: list[str] = []
    refusals: list[NotMoved] = []
    for value in row.values_of(bounds.machine.memory_bytes):
        if value == "on" and "pglz" in catalogue.get(row.name).values:
            continue  # since 15 methods have names; which one "on" is depends on version and build
        try:
            catalogue.check(row.name, value)
        except SettingError:
            continue
        same = catalogue.normalise(row.name, value) == catalogue.normalise(row.name, default)
        if not same and catalogue.normalise(row.name, value) in {
            catalogue.normalise(row.name, choice) for choice in choices
        }:
            continue
        refused = None if same else bounds.refusal(row.name, value)
        if refused is not None:
            refusals.append(refused)
        else:
            choices.append(default if same else value)
    if default not in choices:
        choices.insert(0, default)
    if len(choices) < 2:
        left += _in_one(refusals)
        return None
    left += refusals
    known = designs().get(row.name)
    return Factor(
        setting=row.name,
        choices=tuple(choices),
        scale=None if row.scale is None else Scale(row.scale),
        default=default,
        design="toggled" if known is not None and known.is_toggled else "fresh",
        needs=row.needs,
        capped_by=row.capped_by,
    )


def _in_one(refusals: list[NotMoved]) -> list[NotMoved]:
    """One line for a setting that the platform does not take at all."""
    reasons = {(refused.limit, refused.reason) for refused in refusals}
    if len(reasons) == 1 and refusals[0].limit is Limit.PLATFORM:
        return [replace(refusals[0], value=None)]
    return refusals


def without_line(name: str, catalogue: Catalogue) -> str:
    """The value of a movable setting without a line, spelled as in the table if the table lists it."""
    row = movables()[name]
    setting = catalogue.get(row.name)
    if not setting.boot or row.name in ("shared_buffers", "wal_sync_method", "wal_buffers"):
        return row.default  # decided by initdb, the platform, or from other settings
    boot = parse(setting, setting.boot)
    for value in row.values:
        try:
            if parse(setting, value) == boot:
                return value
        except SettingError:
            continue
    return row.default


def _capped(
    factor: Factor, factors: Mapping[str, Factor], kept: Mapping[str, str], catalogue: Catalogue
) -> list[tuple[str, NotMoved]]:
    """Choices above all that the setting which caps the factor may have, each with the reason."""
    cap = factor.capped_by
    if cap is None:
        return []
    values = factors[cap].choices if cap in factors else (kept.get(cap, catalogue.get(cap).boot),)
    most = max(values, key=lambda value: number_of(cap, value))
    return [
        (choice, NotMoved(factor.setting, choice, None, f"it acts up to {cap}, which is {most} at most"))
        for choice in factor.choices
        if choice != factor.default and number_of(factor.setting, choice) > number_of(cap, most)
    ]


def _may_be(
    name: str, value: str, factors: Mapping[str, Factor], kept: Mapping[str, str], catalogue: Catalogue
) -> bool:
    """Whether some configuration of the space has that value."""
    if name in kept:
        normal = catalogue.normalise(name, kept[name])
        # What is about standbys waits for the flush here, too.
        waits = name == "synchronous_commit" and value == "on" and normal != "off"
        return waits or normal == catalogue.normalise(name, value)
    if name in factors:
        return value in factors[name].choices
    boot = catalogue.get(name).boot
    return catalogue.normalise(name, boot) == catalogue.normalise(name, value)

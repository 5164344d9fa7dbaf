"""Can the promises be kept, given the settings that every configuration has? Asked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from walproof.advise.tune.memory import allowed_bytes, memory_of
from walproof.advise.tune.space import Bounds, usable_wal_bytes, without_line
from walproof.analysis.server_limits import ALONE, SHARED
from walproof.cli.promises import CLASSES
from walproof.errors import SettingError
from walproof.facts.tuning import Candidate
from walproof.settings.catalogue import Catalogue
from walproof.settings.risk import risk_of
from walproof.settings.tuning import movables
from walproof.settings.value import parse
from walproof.units import format_bytes

_OF_PG_WAL = ("max_wal_size", "wal_keep_size")
"""Sizes that pg_wal reaches sooner or later."""


def require_kept(bounds: Bounds, sources: Mapping[str, Mapping[str, str]]) -> None:
    """Raise SettingError for a kept setting that breaks a promise: no configuration could keep that one.

    ``sources``: where kept settings are from (``--keep``) -> those settings; a later source counts.
    """
    _require_class(bounds, sources)
    _require_disk(bounds, sources)
    _require_memory(bounds, sources)


def require_possible(bounds: Bounds, only: Collection[str] | None, starts: Sequence[Candidate]) -> None:
    """Raise SettingError for a promise of memory or disk that no value of any setting that may move keeps.

    ``only``, if given, names the settings that may move.
    """
    catalogue = Catalogue.for_version(bounds.version_num)

    def values(name: str) -> list[str]:
        if name in bounds.keep:
            return [bounds.keep[name]]
        # Not what the search has left of them: that is without those that break the promise.
        may_move = only is None or name in only
        moved = movables()[name].values_of(bounds.machine.memory_bytes) if may_move else ()
        return [without_line(name, catalogue), *moved, *(s.conf[name] for s in starts if name in s.conf)]

    memory = min(
        memory_of({"shared_buffers": buffers, "wal_buffers": of_wal}, catalogue, bounds.clients)
        for buffers in values("shared_buffers")
        for of_wal in values("wal_buffers")
    )
    allowed = allowed_bytes(bounds.promises, bounds.machine.memory_bytes)
    if memory > allowed:
        raise SettingError(
            f"no configuration keeps memory within {format_bytes(allowed)}",
            detail=f"The least that a server takes, sessions included, is {format_bytes(memory)}.",
            hint="Allow more with --memory, or give the load fewer clients.",
        )
    disk, usable = bounds.promises.wal_disk_bytes, bounds.usable_wal_bytes
    size = min(int(parse(catalogue.get("max_wal_size"), value)) << 20 for value in values("max_wal_size"))
    if disk is not None and usable is not None and size > usable:
        kept = int(parse(catalogue.get("wal_keep_size"), bounds.keep.get("wal_keep_size", "0"))) << 20
        share = SHARED if bounds.is_archiving else ALONE
        least = max(float(size / share), float(size + kept))
        beside = [f"wal_keep_size keeps {format_bytes(kept)}"] * (kept > 0)
        beside += ["your server's archiver may keep WAL"] * bounds.is_archiving
        raise SettingError(
            f"no configuration keeps --wal-disk {format_bytes(disk)}",
            detail=f"pg_wal grows to {format_bytes(size)}, the smallest max_wal_size that may be tried, and "
            f"may take {format_bytes(usable)} of that room"
            + (f": {' and '.join(beside)} beside it." if beside else "."),
            hint=f"Give it room: --wal-disk {math.ceil(least / 2**20)}MB or more.",
        )


def _require_class(bounds: Bounds, sources: Mapping[str, Mapping[str, str]]) -> None:
    allowed = bounds.promises.may_lose
    words = {found: word for word, found in CLASSES.items()}
    for name, found, sentence in risk_of(bounds.keep):
        if found.rank > allowed.rank:
            raise SettingError(
                f"{_said(name, bounds, sources)} breaks --may-lose {words[allowed]}",
                detail=f"{sentence}.",
                hint=f"Leave it out, or promise less with --may-lose {words[found]}.",
            )


def _require_disk(bounds: Bounds, sources: Mapping[str, Mapping[str, str]]) -> None:
    disk = bounds.promises.wal_disk_bytes
    catalogue = Catalogue.for_version(bounds.version_num)
    for name in _OF_PG_WAL:
        # Nothing but the setting itself has to be kept beside wal_keep_size here.
        beside = {} if name == "wal_keep_size" else bounds.keep
        usable = usable_wal_bytes(bounds.promises, beside, catalogue, is_archiving=bounds.is_archiving)
        if disk is None or usable is None or name not in bounds.keep:
            continue
        size = int(parse(catalogue.get(name), bounds.keep[name])) << 20
        if size > usable:
            raise SettingError(
                f"{_said(name, bounds, sources)} breaks --wal-disk {format_bytes(disk)}",
                detail=f"pg_wal grows to {format_bytes(size)} with it, and may take {format_bytes(usable)} "
                "of that room.",
                hint="Keep a smaller one, or give --wal-disk more room.",
            )


def _require_memory(bounds: Bounds, sources: Mapping[str, Mapping[str, str]]) -> None:
    buffers = [name for name in ("shared_buffers", "wal_buffers") if name in bounds.keep]
    needed = memory_of(bounds.keep, Catalogue.for_version(bounds.version_num), bounds.clients)
    allowed = allowed_bytes(bounds.promises, bounds.machine.memory_bytes)
    if not buffers or needed <= allowed:
        return
    kept = " and ".join(_said(name, bounds, sources) for name in buffers)
    is_given = bounds.promises.memory_bytes is not None
    of_what = f"--memory {format_bytes(allowed)}" if is_given else "the memory of this machine"
    raise SettingError(
        f"{kept} {'breaks' if len(buffers) == 1 else 'break'} {of_what}",
        detail=f"A server takes {format_bytes(needed)} with it, sessions included, and may take "
        f"{format_bytes(allowed)}{'' if is_given else ', unless --memory says more'}.",
        hint="Keep less, or allow more with --memory.",
    )


def _said(name: str, bounds: Bounds, sources: Mapping[str, Mapping[str, str]]) -> str:
    """``--keep fsync=off``, with the source whose value counts."""
    source = [each for each, settings in sources.items() if name in {key.lower() for key in settings}][-1]
    return f"{source} {name}={bounds.keep[name]}"

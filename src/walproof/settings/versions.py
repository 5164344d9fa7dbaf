"""Differences between servers of several versions before anything is set, as sentences for reports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from walproof.settings.catalogue import Catalogue
from walproof.settings.minors import major_minor
from walproof.settings.risk import about
from walproof.settings.value import Context

_TOLD = frozenset({"jit"})
"""Settings that are named in addition to those of the write path."""
_BY_INITDB = frozenset({"shared_buffers"})
"""Settings for which initdb writes its own value, whatever the default is."""
_COMPRESSION = "wal_compression"
_BY_BUILD = 190000
_METHODS = ("zstd", "lz4", "pglz")
"""What wal_compression=on means from 19 on: the first of these that the build has."""


def changed_defaults(versions: Iterable[str], given: Collection[str]) -> str | None:
    """A sentence on defaults of the write path that ``versions`` do not share; None if they share all.

    ``given``: settings that the study gives every server, whatever the default.
    """
    majors = sorted({major_minor(version)[0] for version in versions})
    parts = []
    for name in sorted((about().keys() | _TOLD) - _BY_INITDB):
        values = {major: _default(major, name) for major in majors}
        there = {major: value for major, value in values.items() if value is not None}
        if name not in given and len(set(there.values())) > 1:
            parts.append(f"{name} ({', '.join(f'{major}: {value}' for major, value in there.items())})")
    if len(majors) > 1 and majors[0] < 18 <= majors[-1] and "data_checksums" not in given:
        parts.append("data checksums (initdb makes them from 18 on)")
    return f"Defaults that differ between these versions: {'; '.join(parts)}." if parts else None


def meaning_of_on(builds: Mapping[str, Collection[str]]) -> str | None:
    """A sentence on what wal_compression=on means in each build; None if it means the same in all.

    ``builds``: version -> the methods that its build has.
    """
    meanings = {version: _meaning(major_minor(version)[0], methods) for version, methods in builds.items()}
    if len(set(meanings.values())) < 2:
        return None
    listed = ", ".join(f"{meaning} in {version}" for version, meaning in meanings.items())
    return f"wal_compression=on is {listed}: what it means is up to the build from 19 on."


def name_compression(
    settings: Mapping[str, str], version_num: int, takes: Callable[[str, str], bool]
) -> dict[str, str]:
    """``settings``, with the method's name where the build decides what wal_compression=on means.

    ``takes(name, value)``: whether the build's server takes such a setting. Raises SettingError.
    """
    value = settings.get(_COMPRESSION)
    if version_num < _BY_BUILD or value is None:
        return dict(settings)
    if Catalogue.for_version(version_num).normalise(_COMPRESSION, value) != "on":
        return dict(settings)
    methods = [method for method in _METHODS if takes(_COMPRESSION, method)]
    return {**settings, _COMPRESSION: _meaning(version_num // 10000, methods)}


def _meaning(major: int, methods: Collection[str]) -> str:
    return "pglz" if major < 19 else next((method for method in _METHODS if method in methods), "pglz")


def _default(major: int, name: str) -> str | None:
    """The default; None if the version has no such setting, or initdb or the build decides."""
    setting = Catalogue.for_version(major * 10000).settings.get(name)
    if setting is None or setting.context is Context.INTERNAL or setting.boot == "":
        return None
    return Catalogue.for_version(major * 10000).normalise(name, setting.boot)

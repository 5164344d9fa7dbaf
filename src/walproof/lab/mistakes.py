"""Mistakes of a study file that its tables do not show by themselves: names that nothing has, files that are
not there, settings that a server does not take.

They are looked for in what was typed, not in the study that is made of it, so that a file whose tables have
mistakes, too, is told of all at once. What is not of the right type here, the tables complain of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from walproof.errors import InstallError, SettingError, StudyError, WalproofError
from walproof.facts import Install
from walproof.lab.asked import text_of
from walproof.lab.kinds.registry import KINDS
from walproof.lab.studyfile import value_text
from walproof.lab.variants import in_one_line
from walproof.postgres import install as installs
from walproof.settings.catalogue import Catalogue
from walproof.tomlfile import Mistake, Place


def mistakes_in(data: Mapping[str, Any], folder: Path, pg: Sequence[str] | None) -> list[Mistake]:
    """The mistakes in what was typed. ``folder`` has the study's files; ``pg`` are installs that were typed
    in place of the study's own; None: no server is asked for, and settings are not looked at."""
    found = [*_of_names(data), *_of_files(data, folder), *_of_conditions(data)]
    return found if pg is None else [*found, *_of_settings(data, _installs(pg or data.get("pg")))]


def _of_names(data: Mapping[str, Any]) -> Iterator[Mistake]:
    variants, workloads = _tables(data, "variant"), _tables(data, "workload")
    yield from _twice(("variant",), "variant", variants)
    yield from _twice(("workload",), "workload", workloads)
    for at, workload in workloads:
        yield from _twice(("workload", at, "statement"), "statement", _tables(workload, "statement"))
    # The cells of a factorial design have names that nobody typed.
    if variants and "factors" not in data:
        yield from _unknown(data, "baseline", "variant", variants)
    yield from _unknown(data, "against", "workload", workloads)
    reference = data.get("reference")
    figures = _tables(reference, "figure") if isinstance(reference, Mapping) else []
    for at, figure in figures:
        place = ("reference", "figure", at)
        if variants and "factors" not in data:
            yield from _unknown(figure, "variant", "variant", variants, place)
        yield from _unknown(figure, "workload", "workload", workloads, place)


def _twice(place: Place, noun: str, tables: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[Mistake]:
    seen = set()
    for at, table in tables:
        name = table.get("name")
        if not isinstance(name, str):
            continue
        if name in seen:
            yield (*place, at, "name"), f'another {noun} is called "{name}", too: give each its own name'
        seen.add(name)


def _unknown(
    data: Mapping[str, Any],
    key: str,
    noun: str,
    tables: Sequence[tuple[int, Mapping[str, Any]]],
    place: Place = (),
) -> Iterator[Mistake]:
    name = data.get(key)
    names = dict.fromkeys(str(table["name"]) for _, table in tables if "name" in table)
    if isinstance(name, str) and name not in names:
        yield (*place, key), f'no {noun} is called "{name}"; there are {", ".join(names)}'


def _of_files(data: Mapping[str, Any], folder: Path) -> Iterator[Mistake]:
    for at, workload in _tables(data, "workload"):
        yield from _unreadable(workload, "setup", ("workload", at), folder)
        for number, script in _tables(workload, "script"):
            yield from _unreadable(script, "file", ("workload", at, "script", number), folder, must=True)
    load = data.get("load")
    if isinstance(load, Mapping):
        yield from _unreadable(load, "ddl", ("load",), folder)


def _unreadable(
    table: Mapping[str, Any], key: str, place: Place, folder: Path, *, must: bool = False
) -> Iterator[Mistake]:
    text = table.get(key)
    if not isinstance(text, str):
        return
    try:
        text_of(text, folder, "script" if must else key, must=must)
    except StudyError as error:
        yield (*place, key), error.message


def _installs(pg: object) -> list[Install]:
    """The installs that are named, or the one that is found; none if one is not there, which is told where
    they are chosen."""
    specs = [pg] if isinstance(pg, str) else pg if isinstance(pg, Sequence) else []
    try:
        return installs.label_all([installs.find(str(spec)) for spec in specs] or [installs.find(None)])
    except InstallError:
        return []


def _conditions(data: Mapping[str, Any]) -> dict[str, Callable[[str], object]]:
    """Name -> what reads its values, for the kinds whose tables the file has."""
    kinds = [kind for kind in KINDS if any(table in data for table in kind.tables)]
    return {name: read for kind in kinds for name, read in kind.conditions_among_settings.items()}


def _of_conditions(data: Mapping[str, Any]) -> Iterator[Mistake]:
    conditions = _conditions(data)
    for place, name, value in _settings(data):
        if name not in conditions:
            continue
        try:
            conditions[name](value_text(value))
        except ValueError:
            continue
        except WalproofError as error:
            yield place, in_one_line(error)


def _of_settings(data: Mapping[str, Any], chosen: Sequence[Install]) -> Iterator[Mistake]:
    conditions = _conditions(data)
    for place, name, value in _settings(data):
        if name in conditions:
            continue
        try:
            text = value_text(value)
        except ValueError:
            continue
        for install in chosen:
            try:
                Catalogue.for_version(install.version_num).check(name, text)
            except SettingError as error:
                by = f"PostgreSQL {install.label}: " if len(chosen) > 1 else ""
                yield place, f"{by}{in_one_line(error)}"
                break


def _settings(data: Mapping[str, Any]) -> Iterator[tuple[Place, str, Any]]:
    """Every setting: its place, its name, a value."""
    sets: list[tuple[Place, Any]] = [(("base",), data.get("base"))]
    # Of an optional variant they are a reason to leave it out.
    sets += [
        (("variant", at, "settings"), variant.get("settings"))
        for at, variant in _tables(data, "variant")
        if variant.get("optional") is not True
    ]
    for place, settings in sets:
        if isinstance(settings, Mapping):
            for name, value in settings.items():
                yield (*place, name), name, value
    factors = data.get("factors")
    if isinstance(factors, Mapping):
        for name, levels in factors.items():
            for at, level in enumerate(levels if isinstance(levels, list) else []):
                yield ("factors", name, at), name, level


def _tables(data: Mapping[str, Any], key: str) -> list[tuple[int, Mapping[str, Any]]]:
    """The tables of a list, each with its index."""
    listed = data.get(key)
    if not isinstance(listed, list):
        return []
    return [(at, table) for at, table in enumerate(listed) if isinstance(table, Mapping)]

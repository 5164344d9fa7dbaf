"""Whole configurations that are compared: postgresql.conf files of somebody's servers.

What all of them set alike is had by every server; the rest of each is a variant, so that what a file leaves
out is left out on its server, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from walproof.errors import SettingError, StudyError
from walproof.facts import Install
from walproof.postgres.build import accepts
from walproof.sentences import say_list
from walproof.settings.catalogue import normalise
from walproof.settings.server_conf import files_of
from walproof.settings.usable import usable


@dataclass(frozen=True, slots=True)
class Configurations:
    """Files, read for servers of some installs."""

    base: Mapping[str, str]
    """What all files set alike."""
    own: Mapping[str, Mapping[str, str]]
    """Name of each file -> what it alone sets, or sets otherwise than another."""
    notes: tuple[str, ...]
    """Sentences about lines that are not measured."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files; the others are compared with the first."""
        return tuple(self.own)

    def under(self, typed: Mapping[str, str]) -> Configurations:
        """These, where every server has what was typed, whatever the files say; what it replaces is noted."""
        names = {name.lower() for name in typed}
        kept: dict[str, Mapping[str, str]] = {}
        notes = list(self.notes)
        for file, lines in self.own.items():
            kept[file] = {name: value for name, value in lines.items() if name.lower() not in names}
            notes += [
                f"{file}: {name} = {value} is replaced by --base."
                for name, value in lines.items()
                if name not in kept[file]
            ]
        notes += [
            f"{name} = {value} of {say_list(self.names)} is replaced by --base."
            for name, value in self.base.items()
            if name.lower() in names
        ]
        base = {name: value for name, value in self.base.items() if name.lower() not in names}
        return replace(self, base=base, own=kept, notes=tuple(notes))

    def require_differences(self) -> None:
        """Refuse what would be measured against itself. Raises StudyError."""
        first, *others = self.names
        for name in others:
            if _same(self.own[name], self.own[first]):
                raise StudyError(
                    f'"{first}" and "{name}" set the same',
                    detail="\n".join(self.notes) or "They say the same in other words or another order.",
                )


def read_configurations(
    files: Sequence[Path], chosen: Sequence[Install], *, is_judged: bool = False
) -> Configurations:
    """Read the files for these installs. Raises SettingError where no install would start with a file;
    StudyError for a file that is named twice.

    A line that only some of the installs refuse is left out, and noted. ``is_judged``: it is an error, too:
    a gate says nothing of a file that some server would not start with.
    """
    read: dict[str, Mapping[str, str]] = {}
    notes: list[str] = []
    unusable: dict[Path, _Lines] = {}
    for name, file in zip(_names(files), files, strict=True):
        found = files_of(file)
        lines = _sorted(found.settings, chosen)
        if lines.refused and (is_judged or set(lines.refused) == {install.label for install in chosen}):
            unusable[file] = lines
        read[name] = lines.usable
        notes += lines.notes(name)
        if found.counted is not None:
            notes.append(f"{name}: what ALTER SYSTEM has set counts last ({found.counted}).")
        notes += [f"{name}: {sentence}." for sentence in found.missing]
    if unusable:
        raise _refusal(unusable)
    base = _alike(read)
    own = {
        name: {key: value for key, value in lines.items() if key not in base} for name, lines in read.items()
    }
    return Configurations(base, own, tuple(notes))


def _names(files: Sequence[Path]) -> tuple[str, ...]:
    """As short as tells them apart: ``postgresql.conf``, ``base/postgresql.conf``, ``base/…/postgresql.conf``
    where the folders below are the same."""
    paths = [file.absolute() for file in files]
    if len(set(paths)) < len(paths):
        raise StudyError("a file is named twice", detail=f"Given: {', '.join(map(str, files))}.")
    shared = min(len(path.parts) for path in paths)
    differ = next((at for at in range(shared) if len({path.parts[at] for path in paths}) > 1), shared - 1)
    for names in (
        # What the shell makes of <(git show main:postgresql.conf) has a number for a name.
        tuple(
            f"configuration {at}" if path.is_fifo() else path.name for at, path in enumerate(paths, start=1)
        ),
        tuple(_shortened(path.parts[differ:]) for path in paths),
    ):
        if len(set(names)) == len(names):
            return names
    return tuple(map(str, paths))


def _shortened(parts: Sequence[str]) -> str:
    return "/".join(parts if len(parts) < 3 else (parts[0], "…", parts[-1]))


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a file, sorted by what servers of the installs do with them."""

    typed: Mapping[str, str]
    usable: Mapping[str, str]
    """Those that servers of all installs can have."""
    not_its_own: tuple[str, ...]
    """Names of those that no throw-away server has."""
    refused: Mapping[str, Mapping[str, SettingError]]
    """Label of each install that would not start with the file -> the lines that it refuses, and why."""

    @property
    def errors(self) -> Mapping[str, SettingError]:
        """Each line that is refused, with the first install's reason."""
        found: dict[str, SettingError] = {}
        for refused in self.refused.values():
            found = {**refused, **found}
        return found

    def notes(self, file: str) -> list[str]:
        """Sentences about lines that are not measured."""
        found = []
        for name, error in self.errors.items():
            by = say_list([label for label, refused in self.refused.items() if name in refused])
            found.append(
                f"left out: {file}, {name} = {self.typed[name]}: PostgreSQL {by} would not start with this "
                f"file ({error.message})."
            )
        return (
            [*found, f"Not measured of {file}: {', '.join(self.not_its_own)}."] if self.not_its_own else found
        )


def _sorted(lines: Mapping[str, str], chosen: Sequence[Install]) -> _Lines:
    by_install = {
        install.label: usable(lines, install.version_num, partial(accepts, install)) for install in chosen
    }
    everywhere = {
        name: value
        for name, value in lines.items()
        if all(name in found.settings for found in by_install.values())
    }
    refused = {label: found.refused for label, found in by_install.items() if found.refused}
    not_its_own = tuple(
        name
        for name in lines
        if any(name in found.left_out and name not in found.refused for found in by_install.values())
    )
    return _Lines(lines, everywhere, not_its_own, refused)


def _refusal(unusable: Mapping[Path, _Lines]) -> SettingError:
    """The error of files that no server would start with; the first line has the hint."""
    file, lines = next(iter(unusable.items()))
    name, first = next(iter(lines.errors.items()))
    details = [error.message for error in lines.errors.values()]
    for other, others in list(unusable.items())[1:]:
        details += [f'"{other}": {error.message}' for error in others.errors.values()]
    return SettingError(
        f'"{file}" has a line that PostgreSQL refuses: {name} = {lines.typed[name]}',
        detail="\n".join(filter(None, (*details, first.detail))),
        hint=first.hint or "Mend the line, or leave it out.",
    )


def _alike(read: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    first, *others = read.values()
    return {
        name: value
        for name, value in first.items()
        if all(name in lines and _equal(name, value, lines[name]) for lines in others)
    }


def _same(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    return ours.keys() == theirs.keys() and all(_equal(name, ours[name], theirs[name]) for name in ours)


def _equal(name: str, ours: str, theirs: str) -> bool:
    return normalise(name, ours) == normalise(name, theirs)

"""Whole configurations that are compared: postgresql.conf files of somebody's servers.

What all of them set alike is had by every server; the rest of each is a variant, so that what a file leaves
out is left out on its server, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from walproof.errors import SettingError, StudyError
from walproof.facts import Install
from walproof.postgres.build import accepts
from walproof.settings.catalogue import normalise
from walproof.settings.server_conf import files_of
from walproof.settings.usable import NOT_ITS_OWN, usable


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
    """Read the files for these installs. Raises SettingError; StudyError for a file that is named twice.

    ``is_judged``: a line that PostgreSQL does not know or take is an error instead of a note: no server
    would start with the file that is said to hold.
    """
    names = _names(files)
    read: dict[str, Mapping[str, str]] = {}
    notes: list[str] = []
    for name, file in zip(names, files, strict=True):
        found = files_of(file)
        read[name], left_out, refused = _usable(found.settings, chosen)
        if is_judged and refused:
            raise _refused(file, found.settings, refused)
        notes += _notes(name, left_out)
        if found.counted is not None:
            notes.append(f"{name}: what ALTER SYSTEM has set counts last ({found.counted}).")
        notes += [f"{name}: {sentence}." for sentence in found.missing]
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


def _usable(
    lines: Mapping[str, str], chosen: Sequence[Install]
) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, SettingError]]:
    """The lines that servers of all installs can have, why not the others, and the errors among these."""
    left_out: dict[str, str] = {}
    refused: dict[str, SettingError] = {}
    for install in chosen:
        found = usable(lines, install.version_num, partial(accepts, install))
        lines = found.settings
        left_out |= found.left_out
        refused |= found.refused
    return lines, left_out, refused


def _refused(file: Path, lines: Mapping[str, str], refused: Mapping[str, SettingError]) -> SettingError:
    """The error of a file that no server would start with; the first line has the hint."""
    name, first = next(iter(refused.items()))
    return SettingError(
        f'"{file}" has a line that PostgreSQL refuses: {name} = {lines[name]}',
        detail="\n".join(filter(None, (*(error.message for error in refused.values()), first.detail))),
        hint=first.hint or "Mend the line, or leave it out.",
    )


def _notes(name: str, left_out: Mapping[str, str]) -> list[str]:
    usual = [setting for setting, reason in left_out.items() if reason == NOT_ITS_OWN]
    notes = [f"{name}, {setting}: {reason}." for setting, reason in left_out.items() if setting not in usual]
    return [*notes, f"Not measured of {name}: {', '.join(usual)}."] if usual else notes


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

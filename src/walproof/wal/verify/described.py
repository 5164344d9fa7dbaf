"""The base backups of one archive: those that count, what their labels add, and why others do not count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from walproof.wal.places.opened import call
from walproof.wal.verify.backups import (
    UNKNOWN,
    ArchivedBackup,
    BrokenBackup,
    LabelledBackup,
    NoBackup,
    read_label,
    with_end,
    with_label,
)
from walproof.wal.verify.layouts.archive import Archive
from walproof.wal.verify.problems import Problem, ProblemSeverity
from walproof.wal.verify.reading import ArchiveReading


@dataclass(frozen=True, slots=True)
class DescribedBackups:
    """What is known about an archive's backups before its WAL is looked at."""

    backups: tuple[ArchivedBackup, ...]
    """In order of place."""
    complete: tuple[ArchivedBackup, ...]
    """Those of them that lack no backup which they build on."""
    problems: tuple[Problem, ...]


def describe(archive: Archive, reading: ArchiveReading) -> DescribedBackups:
    """Backups with what their labels add, and what is wrong with them. If no backup was found, those that
    only left their label in the archive are taken: they are elsewhere."""
    problems: list[Problem] = []
    labels = list(_labels(archive, problems))
    backups: list[ArchivedBackup] = []
    for found in archive.backups:
        backup = with_end(found, labels) if isinstance(found, LabelledBackup) else found
        if isinstance(backup, BrokenBackup):
            problems.append(Problem("backup unreadable", backup.reason, backup.path))
        elif isinstance(backup, NoBackup):
            problems.append(Problem(backup.kind, backup.reason, backup.path))
        elif backup.complaint is not None:
            message = f"backup {backup.name}: {backup.complaint}"
            problems.append(Problem("backup unreadable", message, backup.path, lsn=backup.start))
        elif _is_of_another(backup, reading):
            message = (
                f"backup {backup.name} is of system {backup.system_identifier}, and the archive is of system "
                f"{reading.reference.system_identifier}: it is not counted"
            )
            problems.append(Problem("other cluster", message, backup.path))
        else:
            backups.append(with_label(backup, labels))
    is_at_fault = any(problem.severity is ProblemSeverity.error for problem in problems)
    if archive.backups_in and not backups and not is_at_fault:
        where = " and ".join(archive.backups_in)
        problems.append(Problem("no backup", f"there is no base backup in {where}"))
    if not backups and all(isinstance(backup, NoBackup | LabelledBackup) for backup in archive.backups):
        ordered = _ordered(_named(labels).values())
        return DescribedBackups(ordered, ordered, tuple(problems))
    backups = list(dict.fromkeys(backups))
    complete = _complete(backups)
    problems += _parentless(backups, complete)
    named = _named(backups)
    return DescribedBackups(
        _ordered(named.values()), _ordered(named[backup] for backup in complete), tuple(problems)
    )


def _labels(archive: Archive, problems: list[Problem]) -> Iterator[ArchivedBackup]:
    seen = set()
    for file in archive.listing.labels:
        label = call(archive.places, read_label, file)
        if isinstance(label, ArchivedBackup):
            # The server has the last one in its pg_wal, too.
            place = (label.timeline, label.start, label.stop)
            if place not in seen:
                yield label
            seen.add(place)
        elif isinstance(label, BrokenBackup):
            problems.append(Problem("backup unreadable", f"label of a backup: {label.reason}", label.path))


def _named(backups: Sequence[ArchivedBackup]) -> dict[ArchivedBackup, ArchivedBackup]:
    """Each backup under a name that no other has."""
    return {backup: replace(backup, name=_full_name(backup, backups)) for backup in backups}


def _full_name(backup: ArchivedBackup, backups: Sequence[ArchivedBackup]) -> str:
    """Its name; where others have the same, as much of its path as tells them apart."""
    same = [PurePath(other.path).parts for other in backups if other.name == backup.name]
    if len(same) == 1:
        return backup.name
    own = PurePath(backup.path).parts
    tails = (own[-count:] for count in range(1, len(own) + 1))
    alone = (tail for tail in tails if sum(parts[-len(tail) :] == tail for parts in same) == 1)
    return str(PurePath(*next(alone, own)))


def _ordered(backups: Iterable[ArchivedBackup]) -> tuple[ArchivedBackup, ...]:
    return tuple(sorted(backups, key=lambda backup: (backup.stop, backup.name)))


def _is_of_another(backup: ArchivedBackup, reading: ArchiveReading) -> bool:
    """Whether it is a backup of an earlier cluster at this place, as before an upgrade."""
    identifier = reading.reference.system_identifier
    return None not in (identifier, backup.system_identifier) and identifier != backup.system_identifier


def _complete(backups: Sequence[ArchivedBackup]) -> list[ArchivedBackup]:
    """The backups whose whole line of ancestors is there."""
    complete = list(backups)
    while True:
        there = {identity for backup in complete for identity in backup.identities}
        left = [backup for backup in complete if there.issuperset(backup.needs)]
        if len(left) == len(complete):
            return complete
        complete = left


def _parentless(backups: Sequence[ArchivedBackup], complete: Sequence[ArchivedBackup]) -> Iterator[Problem]:
    """The problem of each backup that lacks one which it builds on."""
    there = {identity for backup in backups for identity in backup.identities}
    usable = {identity for backup in complete for identity in backup.identities}
    for backup in backups:
        lacking = next((parent for parent in backup.needs if parent not in usable), None)
        if lacking is not None:
            why = ", which lacks its own" if lacking in there else ", which is not there"
            yield Problem(
                "backup unusable",
                f"backup {backup.name} is incremental and builds on "
                f"{lacking}{'' if lacking == UNKNOWN else why}",
                backup.path, timeline=backup.timeline, lsn=backup.start, end_lsn=backup.stop,
            )  # fmt: skip

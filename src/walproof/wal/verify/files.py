"""What is wrong with a file by itself: which system it belongs to, where it belongs, whether its bytes are in
order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from walproof.units import Lsn
from walproof.wal.verify.facts import Fault, FileFacts
from walproof.wal.verify.names import WalFile
from walproof.wal.verify.problems import Problem

_OF_FILE = {
    "truncated": "truncated",
    "too long": "too long",
    "unpack": "unpack",
    "unreadable": "unreadable",
    "encrypted": "encrypted",
}
"""Cause of a fault -> kind of problem."""


@dataclass(frozen=True, slots=True)
class ExpectedSystem:
    """The system and version whose WAL an archive should hold."""

    system_identifier: int | None
    version: int | None


def file_problems(file: WalFile, facts: FileFacts, start: Lsn, reference: ExpectedSystem) -> list[Problem]:
    """Everything that is wrong, or only the worst if it explains the rest. ``start``: where the segment
    begins."""
    foreign = _foreign(file, facts, start, reference)
    if foreign is not None:
        return [foreign]
    of_file = [_problem(file, _OF_FILE[fault.cause], fault) for fault in facts.faults if fault.is_of_file]
    if of_file:
        return of_file
    if not facts.stretches and facts.is_clean_end and not file.is_partial:
        return [_at(file, "empty", "the file holds zeros, and no WAL", start)]
    found = [damage(file, fault) for fault in facts.faults]
    if not file.is_partial and file.sha1 and facts.sha1 and file.sha1 != facts.sha1:
        message = "the segment's SHA-1 is not that in the file's name"
        found.append(_at(file, "checksum", message, start, expected=file.sha1, got=facts.sha1))
    return found


def _foreign(file: WalFile, facts: FileFacts, start: Lsn, reference: ExpectedSystem) -> Problem | None:
    """The problem that the file holds other WAL."""
    expected, got = reference.system_identifier, facts.system_identifier
    if expected is not None and got is not None and expected != got:
        message = f"WAL file is from different database system: system identifier is {got}"
        return _at(file, "other system", message, start, expected=str(expected), got=str(got))
    if None not in (facts.version, reference.version) and facts.version != reference.version:
        message = f"the segment was written by PostgreSQL {facts.version}"
        expected_version, got_version = f"PostgreSQL {reference.version}", f"PostgreSQL {facts.version}"
        return _at(file, "other version", message, start, expected=expected_version, got=got_version)
    if facts.address is not None and not facts.stretches:
        message = f"the file holds WAL from {facts.address} on"
        return _at(file, "misplaced", message, start, expected=str(start), got=str(facts.address))
    return None


def damage(file: WalFile, fault: Fault) -> Problem:
    """The problem that records or pages are not in order."""
    return _problem(file, "damaged", fault)


def _problem(file: WalFile, kind: str, fault: Fault) -> Problem:
    return Problem(
        kind,
        fault.message,
        file.path,
        file.name,
        timeline=file.timeline,
        lsn=fault.lsn,
        end_lsn=fault.resumes,
        offset=fault.offset,
        cause=fault.cause if kind == "damaged" else None,
    )


def _at(
    file: WalFile, kind: str, message: str, lsn: Lsn, *, expected: str | None = None, got: str | None = None
) -> Problem:
    return Problem(
        kind, message, file.path, file.name, timeline=file.timeline, lsn=lsn, expected=expected, got=got
    )


def condensed(problems: list[Problem]) -> Iterator[Problem]:
    """All problems, but only one for all encrypted files, and none about a checksum if damage explains it."""
    encrypted = [problem for problem in problems if problem.kind == "encrypted"]
    damaged = {problem.path for problem in problems if problem.kind == "damaged"}
    for problem in problems:
        if problem.kind != "encrypted" and not (problem.kind == "checksum" and problem.path in damaged):
            yield problem
    if encrypted:
        first, last = encrypted[0], encrypted[-1]
        yield Problem(
            "encrypted",
            first.message,
            first.path,
            first.segment,
            last.segment,
            len(encrypted),
            first.timeline,
        )

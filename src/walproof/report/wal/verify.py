"""Verified archives for people: the verdict, what can be restored, what is wrong and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from walproof.report.blocks import Column, Section, Table, text_cells
from walproof.report.plaintext import one_line
from walproof.report.wal.verify_verdict import moment, verdict
from walproof.sentences import say_count
from walproof.units import format_bytes
from walproof.wal.verify.problems import KINDS, Problem, ProblemSeverity
from walproof.wal.verify.verify import Verification, VerifiedArchive

if TYPE_CHECKING:
    from rich.console import Console

_WINDOWS_MOST = 30
_PROBLEMS_MOST = 10
"""Most problems shown of one kind; --json has all."""


def print_verification(found: Verification, console: Console) -> None:
    """Print all archives, those that are not whole first."""
    from rich.text import Text

    from walproof.report.terminal import print_sections

    def line(text: str, style: str = "") -> None:
        indent = text[: len(text) - len(text.lstrip())]
        console.print(Text(indent + one_line(text), style=style), soft_wrap=True)

    named = Counter((archive.layout, archive.name) for archive in found.archives)
    for archive in sorted(found.archives, key=lambda archive: archive.is_whole):
        line(verdict(archive), "bold green" if archive.is_whole else "bold red")
        line(dateline(archive, with_path=named[archive.layout, archive.name] > 1), "dim")
        console.print()
        print_sections(tuple(_sections(archive)), console)
        for text, style in problem_lines(archive.problems):
            line(text, style)
        if archive.problems:
            console.print()


def dateline(archive: VerifiedArchive, *, with_path: bool = False) -> str:
    """What it is, and what was done. ``with_path``: another archive has the same name."""
    read = f"{say_count(archive.read_files, 'file')} ({format_bytes(archive.read_bytes)}) read"
    parts = [
        f"{archive.layout} {archive.name}" + (f" ({archive.path})" if with_path else ""),
        f"PostgreSQL {archive.version}" if archive.version else "PostgreSQL of an unknown version",
        f"system identifier {archive.system_identifier or 'not known'}",
        f"segments of {format_bytes(archive.segment_size)}",
        f"{archive.first_segment} to {archive.last_segment}" if archive.first_segment else "no whole segment",
        read,
    ]
    for count, what in (
        (archive.kept_files, "verified before"),
        (archive.skipped_files, "not looked into"),
        (archive.partial_files, "partial"),
        (archive.prepared_files, "prepared for later use"),
    ):
        if count:
            parts.append(f"{count:,} {what}")
    return " · ".join(parts)


def _sections(archive: VerifiedArchive) -> Iterator[Section]:
    if archive.windows:
        yield Section("windows", _heading(archive), (_windows(archive),))
    elif archive.ranges:
        yield Section("ranges", "WAL without a break", (_ranges(archive),))


def _windows(archive: VerifiedArchive) -> Table:
    columns = (
        Column("backup", whole_most=44), Column("timeline", numeric=True), Column("from LSN"),
        Column("from time (UTC)"), Column("to LSN"), Column("before time (UTC)"),
        Column("ended by", whole_most=30),
    )  # fmt: skip
    shown = archive.windows[-_WINDOWS_MOST:]
    rows = tuple(
        text_cells(
            [
                f"{window.backup.name} ({window.backup.tool})", str(window.timeline), str(window.start),
                moment(window.start_time)[:19], str(window.end), moment(window.end_time)[:19],
                _ended_by(window.ending.reason),
            ]
        )
        for window in shown
    )  # fmt: skip
    left = len(archive.windows) - len(shown)
    notes = [f"The {left} oldest are left out; --json has all."] if left else []
    notes += [
        f"The partial segment {window.partial[0]} goes on to {window.partial[1]}, once it is renamed to its "
        "plain name."
        for window in shown[-1:]
        if window.partial is not None
    ]
    return Table(_heading(archive), columns, rows, " ".join(notes) or None)


def _heading(archive: VerifiedArchive) -> str:
    is_seen = any(window.backup.tool != "label" for window in archive.windows)
    return "What can be restored" if is_seen else "What can be restored, if the backups are kept"


def _ended_by(reason: str) -> str:
    return reason if reason == "newest segment" else f"problem: {reason}"


def _ranges(archive: VerifiedArchive) -> Table:
    columns = (
        Column("timeline", numeric=True), Column("from LSN"), Column("to LSN"),
        Column("last transaction", whole_most=32), Column("ended by", whole_most=30),
    )  # fmt: skip
    rows = tuple(
        text_cells(
            [
                str(range_.timeline), str(range_.start), str(range_.end), moment(range_.end_time),
                _ended_by(range_.ending.reason),
            ]
        )
        for range_ in archive.ranges[-_WINDOWS_MOST:]
    )  # fmt: skip
    return Table("WAL without a break", columns, rows)


def problem_lines(problems: Sequence[Problem]) -> Iterator[tuple[str, str]]:
    """(line, style): by severity and kind, each with its places, then what it means and what to do."""
    order = list(KINDS)
    ranked = sorted(
        problems, key=lambda problem: (problem.severity is ProblemSeverity.note, order.index(problem.kind))
    )
    for kind, several in groupby(ranked, key=lambda problem: problem.kind):
        group, about = list(several), KINDS[kind]
        is_note = about.severity is ProblemSeverity.note
        style = "dim" if is_note else "red"
        for problem in group[:_PROBLEMS_MOST]:
            yield f"{about.severity.value}: {kind}: {problem.message}", style
            for text in _facts(problem):
                yield f"    {text}", "dim" if is_note else ""
        if len(group) > _PROBLEMS_MOST:
            yield f"    and {len(group) - _PROBLEMS_MOST:,} more of this kind; --json has all", style
        yield f"    {about.meaning}", "dim" if is_note else ""
        # What has to be done at one of the places comes before what would do at another.
        advice = next((one.advice for one in group if one.later_backup is None), group[0].advice)
        if advice:
            yield f"    -> {advice}", ""


def _facts(problem: Problem) -> Iterator[str]:
    if problem.path is not None:
        yield f"file {problem.path}"
    if problem.lsn is not None:
        end = f" to {problem.end_lsn}" if problem.end_lsn is not None else ""
        offset = f", byte {problem.offset:,} of the segment" if problem.offset else ""
        yield f"at {problem.lsn}{end}{offset}"
    if problem.expected is not None:
        yield f"expected {problem.expected}, got {problem.got}"
    if problem.later_backup is not None:
        of_backup = problem.kind == "backup unusable"
        whose = ", and does not need it" if of_backup else ": only older backups need this WAL"
        yield f"backup {problem.later_backup} begins after it{whose}"
    if problem.command is not None:
        yield f"-> {problem.command}"

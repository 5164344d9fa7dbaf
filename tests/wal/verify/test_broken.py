"""Broken archives: each fault in each layout is named with its kind and place, and none beside it.

Where restores end then is compared with the records themselves.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.wal.verify.conftest import Layer
from tests.wal.verify.faults import FAULTS, Fault
from tests.wal.verify.source import MB, Source, segment_lsn
from walproof.report.wal.verify import problem_lines
from walproof.units import Lsn
from walproof.wal.segment import segment_name
from walproof.wal.verify.verify import VerifiedArchive, verify

PLACES = (
    ("folder", ""), ("folder", "xz"), ("pgBackRest", "lz4"), ("pgBackRest", ""), ("WAL-G", "br"),
    ("WAL-G", "lzma"), ("Barman", "gz"), ("Barman", "bz2"),
)  # fmt: skip
"""Layout and compression: every fault in the four layouts, plain or compressed in turn."""
CASES = [
    (fault, *PLACES[2 * layout + (number + layout) % 2])
    for number, fault in enumerate(FAULTS)
    for layout in range(4)
]


def only_archive(path: Path) -> VerifiedArchive:
    """The archive below a folder."""
    (archive,) = verify([path]).archives
    return archive


def furthest(archive: VerifiedArchive, source: Source) -> Lsn:
    """Where restores from the second backup end; 0 where there are none."""
    second = source.backups[1]
    return max(
        (window.end for window in archive.windows if window.backup.start == second.start), default=Lsn(0)
    )


@pytest.mark.parametrize(
    ("layout", "ending"), [*PLACES, ("pgBackRest", "zst"), ("WAL-G", "zst"), ("folder", "gz")]
)
def test_a_whole_archive_has_no_problem(source: Source, layer: Layer, layout: str, ending: str) -> None:
    archive = only_archive(layer(layout, ending).root)
    assert archive.problems == ()
    assert archive.layout == layout
    assert (archive.system_identifier, archive.version) == (source.system_identifier, source.version)
    assert len(archive.backups) == 2
    assert archive.timelines == (1, 2)
    assert [(window.timeline, window.start, window.end) for window in archive.windows] == [
        (2, backup.stop, source.ends[-1]) for backup in source.backups
    ]
    assert all(window.last_record == source.starts[-1] for window in archive.windows)


@pytest.mark.parametrize(
    ("fault", "layout", "ending"), CASES, ids=[f"{case[0].__name__}-{case[1]}-{case[2]}" for case in CASES]
)
def test_the_fault_is_named(source: Source, layer: Layer, fault: Fault, layout: str, ending: str) -> None:
    laid = layer(layout, ending)
    expected = fault(laid)
    archive = only_archive(laid.root)
    problems = list(archive.problems)
    assert sorted(candidate.kind for candidate in problems) == sorted(
        filter(None, (expected.kind, *expected.others))
    )
    assert archive.is_whole is not any(problems)
    for problem in problems:
        if problem.kind == expected.kind:
            assert expected.segment in (None, problem.segment), problem
            assert expected.lsn in (None, problem.lsn), problem
            assert problem.segments == expected.segments, problem
            assert problem.cause == expected.cause, problem
    if expected.kind != "backup unreadable" and expected.kind != "switch point":
        end = source.ends[-1] if expected.end is None else expected.end
        assert furthest(archive, source) == end


def test_another_history_by_itself_is_whole(source: Source, layer: Layer) -> None:
    """A server that went on without a new timeline archived a chain like any other."""
    laid = layer("folder", "")
    for name in (*source.names(2), "00000002.history"):
        laid.lose(name)
    for name, data in source.other.items():
        laid.put(name, data)
    archive = only_archive(laid.root)
    assert archive.problems == ()
    assert furthest(archive, source) == segment_lsn(max(source.other)) + MB


def said(archive: VerifiedArchive) -> str:
    return "\n".join(line for line, _ in problem_lines(archive.problems))


@pytest.mark.parametrize("layout", ["folder", "pgBackRest", "WAL-G", "Barman"])
def test_a_fault_before_a_usable_backup_needs_no_new_one(source: Source, layer: Layer, layout: str) -> None:
    """What is after the gap can be restored from the second backup; the exit status stays."""
    laid = layer(layout, "")
    first, second = source.backups
    between = [
        name for name in source.names(1) if first.stop + MB < segment_lsn(name) < second.start - 2 * MB
    ]
    laid.lose(between[0])
    laid.change(between[3], laid.source.segments[between[3]][: MB // 2])
    archive = only_archive(laid.root)
    assert not archive.is_whole
    named = {backup.start: backup.name for backup in archive.backups}
    assert {problem.kind for problem in archive.problems} >= {"missing", "truncated"}
    assert {problem.later_backup for problem in archive.problems} == {named[second.start]}
    assert f"backup {named[second.start]} begins after it: only older backups need this WAL" in said(archive)
    assert "new base backup" not in said(archive)


def test_a_fault_after_the_last_backup_needs_a_new_one(source: Source, layer: Layer) -> None:
    laid = layer("folder", "")
    first, second = (segment_lsn(name) for name in (source.names(1)[9], source.names(1)[-3]))
    assert source.backups[0].stop < first < source.backups[1].start < second
    for name in (source.names(1)[9], source.names(1)[-3]):
        laid.lose(name)
    archive = only_archive(laid.root)
    assert [problem.later_backup for problem in archive.problems] == [archive.backups[1].name, None]
    assert said(archive).count("take a new base backup now") == 1


def test_a_backup_that_lacks_its_wal_needs_no_successor_where_it_has_one(
    source: Source, layer: Layer
) -> None:
    for broken, is_needed in ((source.backups[0], False), (source.backups[1], True)):
        laid = layer("folder", "")
        laid.lose(segment_name(broken.start, 1, MB))
        archive = only_archive(laid.root)
        assert {problem.kind for problem in archive.problems} == {"missing", "backup unusable"}
        assert ("new base backup" in said(archive).lower()) is is_needed


def test_a_label_alone_is_no_backup_to_rely_on(source: Source, layer: Layer) -> None:
    laid = layer("folder", "")
    shutil.rmtree(laid.root / "backups")
    laid.lose(source.names(1)[9])
    archive = only_archive(laid.root)
    assert {backup.tool for backup in archive.backups} == {"label"}
    assert [problem.later_backup for problem in archive.problems if problem.kind == "missing"] == [None]


def test_there_are_enough() -> None:
    assert len(CASES) >= 40
    assert len({ending for _, _, ending in CASES}) >= 5

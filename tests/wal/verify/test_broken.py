"""Broken archives: each fault in each layout is named with its kind and place, and none beside it.

Where restores end then is compared with the records themselves.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wal.verify.conftest import Layer
from tests.wal.verify.faults import FAULTS, Fault
from tests.wal.verify.source import MB, Source, segment_lsn
from walproof.units import Lsn
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


def test_there_are_enough() -> None:
    assert len(CASES) >= 40
    assert len({ending for _, _, ending in CASES}) >= 5

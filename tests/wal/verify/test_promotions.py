"""Several promotions, seen by the names of files alone: where the way to the newest timeline leads."""

from __future__ import annotations

from pathlib import Path

from tests.wal.verify.source import MB
from walproof.units import Lsn
from walproof.wal.segment import segment_name
from walproof.wal.verify.verify import VerifiedArchive, verify

_LABEL = """START WAL LOCATION: 0/300028 (file 000000010000000000000003)
STOP WAL LOCATION: 0/300100 (file 000000010000000000000003)
START TIMELINE: 1
"""


def _found(folder: Path, segments: dict[int, range], histories: dict[str, str]) -> VerifiedArchive:
    """What is said of an archive with these segments of each timeline; the next one of each is partial. Files
    are not looked into. A backup begins on timeline 1."""
    for timeline, numbers in segments.items():
        names = [segment_name(Lsn(number * MB), timeline, MB) for number in (*numbers, numbers.stop)]
        for name in (*names[:-1], f"{names[-1]}.partial"):
            with (folder / name).open("wb") as stream:
                stream.truncate(MB)
    for name, text in histories.items():
        (folder / name).write_text(text)
    (folder / "000000010000000000000003.00000028.backup").write_text(_LABEL)
    (found,) = verify([folder], since=Lsn(100 * MB)).archives
    return found


def test_two_promotions_within_one_segment(tmp_path: Path) -> None:
    """Timeline 3 has the only whole file of the segment, with the records of all three timelines."""
    found = _found(
        tmp_path,
        {1: range(2, 5), 2: range(5, 5), 3: range(5, 7)},
        {
            "00000002.history": "1\t0/540000\tno recovery target specified\n",
            "00000003.history": "1\t0/540000\tno recovery target specified\n"
            "2\t0/580000\tno recovery target specified\n",
        },
    )
    assert found.problems == ()
    assert [(window.timeline, window.end) for window in found.windows] == [(3, 7 * MB)]


def test_a_later_history_names_what_a_lost_one_did(tmp_path: Path) -> None:
    """A server that restores to timeline 3 reads that timeline's history alone. The lost one is a problem all
    the same: ``latest`` stops before it."""
    histories = {
        "00000003.history": "1\t0/540000\tno recovery target specified\n"
        "2\t0/740000\tno recovery target specified\n"
    }
    found = _found(tmp_path, {1: range(2, 5), 2: range(5, 7), 3: range(7, 9)}, histories)
    assert [(problem.kind, problem.timeline) for problem in found.problems] == [("history missing", 2)]
    assert [(window.timeline, window.end) for window in found.windows] == [(3, 9 * MB)]
    assert [run.follows_parent for run in found.ranges] == [False, True, True]

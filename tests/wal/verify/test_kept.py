"""Kept results: what was verified is not read again, unless it changed or that is asked for."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.wal.verify import faults
from tests.wal.verify.conftest import Layer
from tests.wal.verify.source import segment_lsn
from walproof import _native
from walproof.errors import WalError
from walproof.report.wal.verify_verdict import verdict
from walproof.wal.verify import reading
from walproof.wal.verify.problems import ProblemSeverity
from walproof.wal.verify.verify import VerifiedArchive, verify


def _verify(root: Path, kept: Path, *, again: bool = False) -> VerifiedArchive:
    (archive,) = verify([root], kept=kept, again=again).archives
    return archive


def test_the_second_run_reads_nothing_and_says_the_same(layer: Layer, tmp_path: Path) -> None:
    laid, kept = layer("pgBackRest", "lz4"), tmp_path / "kept"
    expected = faults.changed_record(laid)
    first, second = _verify(laid.root, kept), _verify(laid.root, kept)
    assert (first.read_files, first.kept_files) == (first.files, 0)
    assert (second.read_files, second.read_bytes, second.kept_files) == (0, 0, first.files)
    assert [problem.kind for problem in first.problems] == [expected.kind]
    assert (second.problems, second.windows, second.ranges) == (first.problems, first.windows, first.ranges)
    third = _verify(laid.root, kept, again=True)
    assert (third.read_files, third.problems) == (first.files, first.problems)


def test_what_changed_is_read_and_edges_to_what_was_kept_are_compared(layer: Layer, tmp_path: Path) -> None:
    laid, kept = layer("folder", ""), tmp_path / "kept"
    assert _verify(laid.root, kept).problems == ()
    expected = faults.changed_over_the_edge(laid)
    assert expected.segment is not None
    found = _verify(laid.root, kept)
    assert found.read_files <= 2, "the changed segment alone"
    assert [(problem.kind, problem.lsn) for problem in found.problems] == [("damaged", expected.lsn)]


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_line_that_is_damaged_is_not_believed(layer: Layer, tmp_path: Path, damage: str) -> None:
    laid, kept = layer("folder", ""), tmp_path / "kept"
    whole = _verify(laid.root, kept)
    text = kept.read_bytes()
    kept.write_bytes(text[:-100] if damage == "cut" else text.replace(b'"faults":[]', b'"faults":[ ]', 1))
    found = _verify(laid.root, kept)
    assert (found.read_files, found.kept_files) == (1, whole.files - 1)
    assert _verify(laid.root, kept).read_files == 0, "and it is whole again"


def test_a_run_that_was_killed_is_taken_up(layer: Layer, tmp_path: Path) -> None:
    """Lines are added while a run goes on; the one that is killed leaves the file as it is then."""
    laid, kept = layer("folder", ""), tmp_path / "kept"
    whole = _verify(laid.root, kept)
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:10]) + lines[10][:50])
    found = _verify(laid.root, kept)
    assert (found.kept_files, found.read_files) == (9, whole.files - 9)


def test_two_runs_at_once_and_other_files(layer: Layer, tmp_path: Path) -> None:
    laid, kept = layer("folder", ""), tmp_path / "kept"
    _verify(laid.root, kept)
    with kept.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(WalError, match="are in use"):
            _verify(laid.root, kept)
    notes = tmp_path / "notes.txt"
    notes.write_text("not mine\n")
    with pytest.raises(WalError, match="holds no kept results"):
        _verify(laid.root, notes)
    assert notes.read_text() == "not mine\n"


def test_since_looks_into_newer_segments_alone(layer: Layer) -> None:
    laid = layer("folder", "")
    names = laid.source.names(1)
    faults.changed_record(laid)
    newest = laid.source.names(2)[0]
    (found,) = verify([laid.root], since=segment_lsn(newest)).archives
    assert found.problems == ()
    assert found.skipped_files == len(names)
    assert [window.end for window in found.windows] == [laid.source.ends[-1]] * 2
    assert all(window.unread_segments > 0 for window in found.windows)
    (by_name,) = verify([laid.root], since=newest).archives
    assert by_name.skipped_files == found.skipped_files
    laid.lose(names[4])
    (counted,) = verify([laid.root], since=newest).archives
    assert [problem.kind for problem in counted.problems] == ["missing"], (
        "what is missing is seen without reading"
    )
    for file in laid.root.iterdir():
        if file.is_file():
            os.utime(file, (1e9, 1e9))
    (by_time,) = verify([laid.root], since=1.5e9).archives
    assert by_time.read_files == 0


def _after_each_read(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Carry out a change of a file after each batch was read, and before it is looked at."""
    read = _native.wal_verify

    def read_and_change(*arguments: Any) -> Any:
        found = read(*arguments)
        change()
        return found

    monkeypatch.setattr(reading, "wal_verify", read_and_change)


def test_a_file_that_was_copied_meanwhile_is_read_again(
    layer: Layer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid, kept = layer("folder", ""), tmp_path / "kept"
    name = laid.source.names(1)[4]
    whole = laid.files[name].read_bytes()
    laid.change(name, whole[: len(whole) // 2])
    _after_each_read(monkeypatch, lambda: laid.change(name, whole))
    found = _verify(laid.root, kept)
    assert (found.problems, found.skipped_files, found.read_files) == ((), 0, found.files)
    monkeypatch.undo()
    assert _verify(laid.root, kept).read_files == 1, (
        "the copy that was read is the last but one: all else is kept"
    )


def test_a_file_that_changes_all_the_time_is_a_note_and_no_gap(
    layer: Layer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid, kept = layer("folder", ""), tmp_path / "kept"
    name = laid.source.names(1)[4]
    file, whole = laid.files[name], laid.files[name].read_bytes()
    sizes = iter(range(1000, 9000, 1000))
    laid.change(name, whole[:500])
    _after_each_read(monkeypatch, lambda: laid.change(name, whole[: next(sizes)]))
    found = _verify(laid.root, kept)
    assert [(problem.kind, problem.path, problem.severity) for problem in found.problems] == [
        ("changing", str(file), ProblemSeverity.note)
    ]
    assert (found.skipped_files, found.is_whole) == (1, True)
    assert verdict(found).endswith("; not checked: 1 file")
    monkeypatch.undo()
    assert [problem.kind for problem in _verify(laid.root, kept).problems] == ["truncated"], "it was not kept"


def test_a_file_that_goes_while_it_is_read_is_left_out(
    layer: Layer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid = layer("folder", "")
    name = laid.source.names(1)[0]
    file = laid.change(name, laid.files[name].read_bytes()[:1000])
    _after_each_read(monkeypatch, lambda: file.unlink(missing_ok=True))
    found = _verify(laid.root, tmp_path / "kept")
    assert found.problems == ()
    assert found.first_segment == laid.source.names(1)[1]

"""A timeline that branched off and was abandoned, as after a test restore with the server's archive_command:
the server's own timeline is lower, and goes on."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.wal.verify.conftest import Layer
from tests.wal.verify.layouts import Laid
from tests.wal.verify.source import MB, segment_lsn
from walproof.report.wal.verify_prometheus import verification_prometheus
from walproof.report.wal.verify_verdict import spans, verdict
from walproof.units import Lsn
from walproof.wal.verify.verify import verify


def _forked(layer: Layer, layout: str = "folder") -> Laid:
    """Timeline 1 with what it wrote after timeline 2 had left it, and the first records of timeline 2."""
    laid = layer(layout, "")
    source = laid.source
    first, *later = source.names(2)
    for name in later:
        laid.lose(name)
    begun = [end for end in source.ends if end > source.switch][2]
    kept = begun - segment_lsn(first)
    laid.change(first, source.segments[first][:kept] + bytes(MB - kept))
    for name, data in source.other.items():
        laid.put(name, data)
    return laid


def _last_lsn(root: Path) -> int:
    metrics = verification_prometheus(verify([root]))
    found = re.search(r"^walproof_archive_restore_last_lsn_bytes\{.*\} (\d+)$", metrics, re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_the_timeline_that_goes_on_is_said(layer: Layer) -> None:
    laid = _forked(layer)
    (found,) = verify([laid.root]).archives
    assert found.is_whole
    end = Lsn(segment_lsn(max(laid.source.other)) + MB)
    assert [spans(found, line)[-1].end == end for line in (2, 1)] == [False, True]
    said = verdict(found)
    assert said.startswith("whole: you can restore to any moment from ")
    assert re.search(
        rf"\({spans(found, 2)[-1].end}\); timeline 1 goes on to .* \({end}\); "
        "recovery_target_timeline = latest leads to timeline 2$",
        said,
    )
    assert _last_lsn(laid.root) == end


def test_what_it_lacks_is_lost(layer: Layer) -> None:
    """The newest timeline is whole, and the moments that are lost are of the other."""
    laid = _forked(layer)
    lost, *_, last = sorted(laid.source.other)[1:]
    laid.lose(lost)
    (found,) = verify([laid.root]).archives
    end = Lsn(segment_lsn(last) + MB)
    said = verdict(found)
    assert said.startswith("broken, 1 problem: no restore to moments after ")
    assert f" of timeline 1 (the WAL goes on to {end}); you can restore " in said
    assert _last_lsn(laid.root) <= segment_lsn(lost)


def test_a_backup_after_the_fork_is_of_its_own_timeline(layer: Layer) -> None:
    """Between the end of timeline 2 and that backup nothing is lost: timeline 1 leads there."""
    laid = _forked(layer, "WAL-G")
    lost = laid.source.names(1)[2]
    laid.lose(lost)
    before = verify([laid.root]).archives[0]
    sentinel = laid.files["manifest 2"]
    start = segment_lsn(max(laid.source.other)) + 40
    name = f"base_{max(laid.source.other)}"
    (sentinel.parent / name).mkdir()
    data = {**json.loads(sentinel.read_text()), "LSN": start, "FinishLSN": start + 1000}
    (sentinel.parent / f"{name}_backup_stop_sentinel.json").write_text(json.dumps(data))
    (after,) = verify([laid.root]).archives
    assert [window.timeline for window in after.windows if window.backup.name == name] == [1]
    assert spans(after, 2) == spans(before, 2)
    assert verdict(after) == verdict(before)


def test_the_timeline_of_the_servers_pg_wal_counts(layer: Layer, tmp_path: Path) -> None:
    laid = _forked(layer)
    wal = tmp_path / "pg_wal"
    (wal / "archive_status").mkdir(parents=True)
    last = max(laid.source.other)
    laid.lose(last)
    (wal / last).write_bytes(laid.source.other[last])
    (found,) = verify([laid.root, wal]).archives
    assert found.live_timeline == 1
    end = segment_lsn(last) + MB
    said = verdict(found)
    assert f"({Lsn(end)}); recovery_target_timeline = 1 leads to timeline 1, latest to timeline 2" in said


def test_latest_ends_where_a_history_is_missing(layer: Layer) -> None:
    """And the restore takes the number of the timeline whose history is missing."""
    laid = layer("folder", "")
    laid.lose("00000002.history")
    (found,) = verify([laid.root]).archives
    assert {window.timeline for window in found.windows} == {1}
    said = verdict(found)
    assert "latest" not in said
    assert said.endswith("; a restore there begins timeline 2, of which there is WAL already")


def test_a_timeline_that_was_left_behind_has_moments_of_its_own(layer: Layer) -> None:
    """An old primary wrote on for a while: the newest timeline went further, and is what counts; it does not
    lead to the moments that the other one alone has."""
    laid = layer("folder", "")
    for name, data in laid.source.other.items():
        laid.put(name, data)
    (found,) = verify([laid.root]).archives
    assert {window.timeline for window in found.windows} == {1, 2}
    end = Lsn(segment_lsn(max(laid.source.other)) + MB)
    assert f"({laid.source.ends[-1]}); timeline 1 parts from it at " in verdict(found)
    assert verdict(found).endswith(f"({end})")
    assert ", and recovery_target_timeline = 1 leads on to " in verdict(found)


def _cut_before_the_fork(laid: Laid) -> Lsn:
    """The older timeline's last segment as after a crash of the archive's machine: its size is right, and
    zeros stand in place of its last record. Returns that place."""
    source, name = laid.source, laid.source.names(1)[-1]
    place = source.record_at(Lsn(segment_lsn(name) + MB - 1))
    kept = place - segment_lsn(name)
    laid.change(name, source.segments[name][:kept] + bytes(MB - kept))
    return place


def test_the_last_segment_before_a_fork_has_to_be_full(layer: Layer) -> None:
    laid = layer("folder", "")
    place = _cut_before_the_fork(laid)
    (found,) = verify([laid.root]).archives
    assert [(problem.kind, problem.lsn) for problem in found.problems] == [("damaged", place)]
    assert not found.is_whole
    assert {(window.timeline, window.end) for window in found.windows} == {
        (1, laid.source.end_before(place))
    }  # fmt: skip
    said = verdict(found)
    assert said.startswith("broken, 1 problem: no restore to moments after ")
    assert f"(the WAL goes on to {laid.source.ends[-1]}); you can" in said


def test_a_fork_counts_where_only_a_grandchild_has_segments(layer: Layer) -> None:
    laid = layer("folder", "")
    _cut_before_the_fork(laid)
    source, first = laid.source, laid.source.names(2)[0]
    for name in source.names(2):
        laid.lose(name)
    laid.put(f"00000003{first[8:]}", source.segments[first])
    left = Lsn(segment_lsn(first) + MB - 8192)
    history = f"1\t{source.switch}\tno recovery target specified\n2\t{left}\tno recovery target specified\n"
    (laid.root / "00000003.history").write_text(history)
    (found,) = verify([laid.root]).archives
    kinds = [problem.kind for problem in found.problems]
    assert "damaged" in kinds
    assert "unfinished" not in kinds


def _backup_after_the_fork(laid: Laid) -> tuple[str, Lsn]:
    """A third backup, on timeline 2: the segment that it begins in, and where it ends."""

    def middle(name: str) -> Lsn:
        return laid.source.record_at(Lsn(segment_lsn(name) + MB // 2))

    newer = next(name for name in laid.source.names(2)[1:] if middle(name) > segment_lsn(name))
    sentinel = laid.files["manifest 2"]
    start, name = middle(newer), f"base_{newer}"
    data = {**json.loads(sentinel.read_text()), "LSN": start, "FinishLSN": start + 1000}
    (sentinel.parent / name).mkdir()
    (sentinel.parent / f"{name}_backup_stop_sentinel.json").write_text(json.dumps(data))
    return newer, Lsn(start + 1000)


def test_retention_over_a_fork_loses_nothing(layer: Layer) -> None:
    """Of a backup before the fork only its own WAL is kept, and the next backup began after the fork."""
    laid = layer("WAL-G", "")
    source, first = laid.source, laid.source.backups[0]
    newer, _ = _backup_after_the_fork(laid)
    laid.lose("manifest 2")
    older = [name for name in source.names(1) if segment_lsn(name) >= first.stop]
    for lost in (*older, *(name for name in source.names(2) if name < newer)):
        laid.lose(lost)
    (found,) = verify([laid.root]).archives
    assert [(problem.kind, problem.timeline) for problem in found.problems] == [
        ("expired", 1),
        ("expired", 2),
    ]
    assert found.is_whole
    assert {window.timeline for window in found.windows} == {1, 2}
    # Where something else is kept in between, retention did not do it.
    laid.put(older[-3], source.segments[older[-3]])
    (found,) = verify([laid.root]).archives
    assert [problem.kind for problem in found.problems] == ["missing"] * 3


def test_another_branch_fills_no_gap(layer: Layer) -> None:
    """The older timeline goes on past the fork. What the newer one lacks there is lost all the same."""
    laid = layer("WAL-G", "")
    source = laid.source
    for name, data in source.other.items():
        laid.put(name, data)
    newer, stop = _backup_after_the_fork(laid)
    assert stop < segment_lsn(max(source.other))
    for lost in [name for name in source.names(2) if name < newer]:
        laid.lose(lost)
    (found,) = verify([laid.root]).archives
    first, second = spans(found, 2)
    assert (first.end, first.end_time, second.start) == (source.switch, None, stop)
    said = verdict(found)
    assert said.startswith(f"broken, 1 problem: no restore to moments between {source.switch} and ")
    assert f"; timeline 1 parts from it at {source.switch}, and " in said

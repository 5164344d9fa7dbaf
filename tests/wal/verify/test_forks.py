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

"""A backup of a standby that followed a promotion while the backup was taken: it begins on one timeline and
ends on the next."""

from __future__ import annotations

import json
import shutil

from tests.wal.verify.conftest import Layer
from tests.wal.verify.source import segment_lsn
from tests.wal.verify.test_hostile import with_checksum
from walproof.report.wal.verify_verdict import verdict
from walproof.wal.verify.verify import verify


def test_a_backup_may_end_on_a_later_timeline(layer: Layer) -> None:
    laid = layer("folder", "")
    source, path = laid.source, laid.files["manifest 2"]
    shutil.rmtree(laid.root / "backups" / "backup1")
    begun = source.backups[1]
    stop = [end for end in source.ends if end > source.switch][20]
    ranges = [
        {"Timeline": 2, "Start-LSN": str(source.switch), "End-LSN": str(stop)},
        {"Timeline": 1, "Start-LSN": str(begun.start), "End-LSN": str(source.switch)},
    ]
    data = json.loads(path.read_text())
    laid.write(path, with_checksum({**data, "Files": [], "WAL-Ranges": ranges}).encode())
    (found,) = verify([laid.root]).archives
    assert found.problems == ()
    assert [(window.timeline, window.start, window.end) for window in found.windows] == [
        (2, stop, source.ends[-1])
    ]
    assert verdict(found).startswith("whole: you can restore to any moment from ")
    # The WAL of the later timeline is needed, too.
    first = source.names(2)[0]
    assert segment_lsn(first) < stop
    laid.lose(first)
    (found,) = verify([laid.root]).archives
    assert {problem.kind for problem in found.problems} == {"missing", "backup unusable"}

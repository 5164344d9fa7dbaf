"""Golden WAL as each tool keeps it, without a server: with base backups, a history, a label, and damage."""

from __future__ import annotations

from pathlib import Path

from tests.wal.verify.layouts import Laid, lay
from tests.wal.verify.source import Source
from walproof.units import Lsn
from walproof.wal import records, stats
from walproof.wal.verify.backups import ArchivedBackup

_LABEL = """START WAL LOCATION: {start} (file {name})
STOP WAL LOCATION: {stop} (file {name})
START TIMELINE: 1
STOP TIME: 2026-11-23 16:20:01 UTC
LABEL: nightly
"""


def golden_source(golden: Path) -> Source:
    """What ``tests.wal.verify.layouts`` makes archives of."""
    whole = stats(golden)
    found = list(records(golden))
    segments = {file.name: file.read_bytes() for file in sorted(golden.iterdir()) if len(file.name) == 24}
    size = whole.segment_size
    second = next(number for number, record in enumerate(found) if record.lsn // size > found[0].lsn // size)
    places = [found[10].lsn, found[200].end, found[second + 10].lsn, found[second + 40].end]
    backups = [
        ArchivedBackup(
            f"backup{number}", "golden", str(golden), 1, start, stop, 1_795_452_001.0 + number,
            whole.system_identifier, whole.version,
        )
        for number, (start, stop) in enumerate((places[:2], places[2:]), start=1)
    ]  # fmt: skip
    first = min(segments)
    label = _LABEL.format(start=places[0], stop=places[1], name=first)
    return Source(
        golden, golden, whole.version, whole.system_identifier, backups, Lsn(0), segments,
        {"00000002.history": f"1\t{found[700].end}\tno reason\n".encode()},
        {f"{first}.00000028.backup": label.encode()}, {}, {},
        [record.lsn for record in found], [record.end for record in found],
    )  # fmt: skip


def laid_golden(golden: Path, layout: str, ending: str, root: Path) -> Laid:
    """An archive in a folder. A record in the second segment is damaged."""
    source = golden_source(golden)
    if layout == "folder":
        source.backups.clear()
    laid = lay(source, layout, ending, root)
    name = sorted(source.segments)[1]
    data = bytearray(source.segments[name])
    data[20 * 8192 + 4000] ^= 1
    laid.change(name, bytes(data))
    return laid

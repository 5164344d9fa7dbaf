"""What pg_waldump prints, as values to compare with, and the same values from walproof."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from walproof._native import WalRecords
from walproof.units import Lsn
from walproof.wal import WalStats

Image = tuple[int, int, int, str | None, bool]
"""Length, hole offset, hole length, compression, applied."""
Block = tuple[int, int, int, int, str, int, Image | None]
"""Id, tablespace, database, relation, fork, block number, image."""
Record = tuple[Lsn, Lsn, str, int, int, int, list[Block]]
"""LSN, previous LSN, resource manager and operation, length, image bytes, transaction, blocks."""
Statistics = dict[str, tuple[int, int, int]]
"""``Heap/INSERT`` -> records, record bytes, image bytes."""

_FORKS = ("main", "fsm", "vm", "init")
_STATS_ROW = re.compile(
    r"^(\S+/\S.*?)\s+(\d+) \(.*?\)\s+(\d+) \(.*?\)\s+(\d+) \(.*?\)\s+(\d+) \(.*?\)$", re.MULTILINE
)
_RECORD = re.compile(
    r"rmgr: (?P<rmgr>\S+)\s+len \(rec/tot\):\s+(?P<length>\d+)/\s*(?P<total>\d+), tx:\s+(?P<xid>\d+), "
    r"lsn: (?P<lsn>\S+), prev (?P<prev>\S+), desc: (?P<operation>UNKNOWN \(\w+\)|\S+) "
)
_BLOCK = re.compile(
    r"^\tblkref #(?P<id>\d+): rel (?P<spc>\d+)/(?P<db>\d+)/(?P<rel>\d+) fork (?P<fork>\w+) blk (?P<block>\d+)"
    r"(?: \(FPW(?P<verify> for WAL verification)?\); hole: offset: (?P<hole_offset>\d+), "
    r"length: (?P<hole>\d+)(?:, compression saved: (?P<saved>\d+)(?:, method: (?P<method>\w+))?)?)?$"
)
_ERROR = re.compile(r"(?:fatal|error): (?P<text>.*)")


@dataclass(frozen=True)
class Oracle:
    """A pg_waldump, and the WAL that it is asked about."""

    command: Sequence[str]
    wal: Path
    knows_names: bool = True
    """False for one of another version, whose names of operations say nothing."""

    def records(self, start: Lsn, end: Lsn, timeline: int = 1) -> Iterator[Record]:
        """Every record, as it prints them: memory does not grow with the WAL."""
        command = [*self._base(start, timeline), "-e", str(end), "--bkp-details"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            record: list[str] = []
            for line in process.stdout:
                if line.startswith("rmgr: "):
                    if record:
                        yield _record(record)
                    record = []
                record.append(line)
            if record:
                yield _record(record)
            complaint = process.stderr.read()
        assert process.returncode == 0, complaint

    def statistics(
        self, start: Lsn, end: Lsn | None = None, timeline: int = 1
    ) -> tuple[Statistics, str | None]:
        """Totals by operation, and what it complained of in the end."""
        text, complaint = self.statistics_text(start, end, timeline)
        return statistics(text), complaint

    def statistics_text(
        self, start: Lsn, end: Lsn | None = None, timeline: int = 1
    ) -> tuple[str, str | None]:
        """The same as it prints them."""
        command = [*self._base(start, timeline), "--stats=record", *(["-e", str(end)] if end else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
        assert done.returncode in (0, 1), f"{' '.join(command)}: exit {done.returncode}"
        complaint = _ERROR.search(done.stderr)
        return done.stdout, complaint and complaint["text"]

    def _base(self, start: Lsn, timeline: int) -> list[str]:
        return [*self.command, "-p", str(self.wal), "-t", str(timeline), "-s", str(start)]


def statistics(text: str) -> Statistics:
    """From the text of ``--stats=record``."""
    return {row[0]: (int(row[1]), int(row[2]), int(row[3])) for row in _STATS_ROW.findall(text)}


def own_statistics(wal: WalStats) -> Statistics:
    """The same from walproof."""
    return {
        f"{name}/{operation}": (totals.records, totals.record_bytes, totals.image_bytes)
        for name, rmgr in wal.rmgrs.items()
        for operation, totals in rmgr.operations.items()
    }


def own_records(wal: Path, start: Lsn, end: Lsn, timeline: int | None = None) -> Iterator[Record]:
    """The records from walproof, some thousands of them in memory."""
    reader = WalRecords([str(wal)], start, end, timeline, allow_gaps=False)
    while rows := reader.rows(4096):
        for (lsn, prev, _), operation, total, _, xid, _, _, blocks in rows:
            yield (
                Lsn(lsn),
                Lsn(prev),
                operation,
                total,
                sum(image[0] for *_, image in blocks if image),
                xid,
                [(*place[:4], _FORKS[place[4]], place[5], image) for place, *_, image in blocks],
            )


def _record(lines: list[str]) -> Record:
    head = _RECORD.match(lines[0])
    assert head is not None, lines
    return (
        Lsn.parse(head["lsn"]),
        Lsn.parse(head["prev"]),
        f"{head['rmgr']}/{head['operation']}",
        int(head["total"]),
        int(head["total"]) - int(head["length"]),
        int(head["xid"]),
        # What describes the record may go on over several lines; blocks begin with a tab.
        [_block(line) for line in lines[1:] if line.startswith("\tblkref")],
    )


def _block(line: str) -> Block:
    match = _BLOCK.match(line)
    assert match is not None, line
    image: Image | None = None
    if match["hole"] is not None:
        hole = int(match["hole"])
        saved = int(match["saved"] or 0)
        method = match["method"] or (None if match["saved"] is None else "pglz")  # the only one before 15
        image = (8192 - hole - saved, int(match["hole_offset"]), hole, method, match["verify"] is None)
    return (
        int(match["id"]), int(match["spc"]), int(match["db"]), int(match["rel"]), match["fork"],
        int(match["block"]), image,
    )  # fmt: skip

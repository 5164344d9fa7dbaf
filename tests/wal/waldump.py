"""What pg_waldump printed, as values to compare with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from walproof._native import WalRecords
from walproof.units import Lsn
from walproof.wal import WalStats

Image = tuple[int, int, int, str | None, bool]
"""Length, hole offset, hole length, compression, applied."""
Block = tuple[int, int, int, int, str, int, Image | None]
"""Id, tablespace, database, relation, fork, block number, image."""
Record = tuple[Lsn, Lsn, str, int, int, int, list[Block]]
"""LSN, previous LSN, resource manager and operation, length, image bytes, transaction, blocks."""

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
    r"length: (?P<hole>\d+)(?:, compression saved: (?P<saved>\d+)(?:, method: (?P<method>\w+))?)?)?$",
    re.MULTILINE,
)


def statistics(text: str) -> dict[str, tuple[int, int, int]]:
    """``Heap/INSERT`` -> records, record bytes, image bytes, from the text of ``--stats=record``."""
    return {row[0]: (int(row[1]), int(row[2]), int(row[3])) for row in _STATS_ROW.findall(text)}


def own_statistics(wal: WalStats) -> dict[str, tuple[int, int, int]]:
    """The same from walproof."""
    return {
        f"{name}/{operation}": (totals.records, totals.record_bytes, totals.image_bytes)
        for name, rmgr in wal.rmgrs.items()
        for operation, totals in rmgr.operations.items()
    }


def records(text: str) -> list[Record]:
    """Every record in the text of ``--bkp-details``."""
    return [record_of(part) for part in re.split(r"^(?=rmgr: )", text, flags=re.MULTILINE) if part.strip()]


def own_records(path: str, start: Lsn, end: Lsn) -> list[Record]:
    """The same from walproof."""
    return list(rows_of(path, start, end))


def rows_of(path: str, start: Lsn, end: Lsn) -> Iterator[Record]:
    """The same one by one, with a few thousand of them in memory."""
    reader = WalRecords([path], start, end, None, allow_gaps=False)
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


def record_of(text: str) -> Record:
    """One record, from its lines."""
    head = _RECORD.match(text)
    assert head is not None, text
    return (
        Lsn.parse(head["lsn"]),
        Lsn.parse(head["prev"]),
        f"{head['rmgr']}/{head['operation']}",
        int(head["total"]),
        int(head["total"]) - int(head["length"]),
        int(head["xid"]),
        [_block(match) for match in _BLOCK.finditer(text)],
    )


def _block(match: re.Match[str]) -> Block:
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

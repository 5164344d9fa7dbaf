"""Makes WAL again from what a server tells about its records: rows of pg_walinspect become segments.

Each record is in its place, with its length, blocks, and its images' lengths and holes; contents are zeros
(crates/walproof-wal, ``told``). Of the main data the server tells only redo points, times of commits, and
counts of pruning and of inserts of many rows. It does not tell which files a transaction dropped, or when a
checkpoint began: the time of the last commit before its redo point stands in for that."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from walproof._native import WalRebuilder
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.segment import segment_holding

if TYPE_CHECKING:
    from walproof._native import _Image as ImageRow
    from walproof._native import _ToldBlock as BlockRow
    from walproof._native import _ToldRecord as RecordRow

DESCRIBED = ("XLOG/CHECKPOINT_ONLINE", "XLOG/CHECKPOINT_SHUTDOWN", "Transaction/COMMIT", "Transaction/ABORT",
             "Transaction/COMMIT_PREPARED", "Transaction/ABORT_PREPARED", "Heap2/MULTI_INSERT",
             "Heap2/MULTI_INSERT+INIT", "Heap2/PRUNE", "Heap2/PRUNE_ON_ACCESS", "Heap2/PRUNE_VACUUM_SCAN",
             "Heap2/PRUNE_VACUUM_CLEANUP")  # fmt: skip
"""Operations whose description is used."""
_BLOCK_BYTES = 8192
_FORKS = {"main": 0, "fsm": 1, "vm": 2, "init": 3}
_POSTGRES_EPOCH_S = 946_684_800
_BLOCK = re.compile(
    r"blkref #(\d+): rel (\d+)/(\d+)/(\d+) fork (\w+) blk (\d+)"
    r"(?: \(FPW(?P<checks> for WAL verification)?\); hole: offset: (?P<at>\d+), length: (?P<hole>\d+)"
    r"(?:, compression saved: (?P<saved>\d+), method: (?P<method>\w+))?)?"
)
"""XLogRecGetBlockRefInfo, src/backend/access/rmgrdesc/xlogdesc.c: the same in 15 to 18."""
_CHECKPOINT = re.compile(r"redo ([0-9A-F]+/[0-9A-F]+); tli (\d+); prev tli (\d+); fpw (true|false)")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00")
_INSERTED = re.compile(r"(?:(\d+) tuples flags 0x|ntuples: (\d+), flags: 0x)([0-9a-fA-F]{2})")
_COUNT = re.compile(r"(nplans|nredirected|ndead|nunused):? (\d+)")
_PRUNE_BITS = {"nplans": 0x10, "nredirected": 0x20, "ndead": 0x40, "nunused": 0x80}


@dataclass(frozen=True, slots=True)
class ToldRecord:
    """A row of pg_get_wal_records_info."""

    lsn: int
    end: int
    prev: int
    xid: int
    rmgr: str
    operation: str
    length: int
    main_length: int
    image_length: int
    description: str
    """The description, if the operation is one of `DESCRIBED`, with times in UTC."""
    blocks: str


class ToldWal:
    """Makes WAL from rows that come in order."""

    def __init__(
        self, version: int, system_identifier: int, timeline: int, segment_bytes: int, start: Lsn
    ) -> None:
        """WAL of a major version, from the segment that holds ``start`` on."""
        self._version = version
        self._maker = WalRebuilder(
            version, system_identifier % 2**64, timeline, segment_bytes, segment_holding(start, segment_bytes)
        )
        self._times: list[tuple[int, int]] = []
        """Where the commits were whose times began a new second."""
        self.first: Lsn | None = None
        """The first record."""
        self.position = start
        """End of the last record."""
        self.records = 0

    def push(self, rows: Sequence[ToldRecord], data: Mapping[int, Sequence[int]], at_s: float) -> bytes:
        """The WAL that these rows describe. ``data`` has, by location, the bytes of each block's data for
        records with several blocks; of records that are not in it only the sum is known. ``at_s`` is the Unix
        time when the server was asked. Raises WalError if rows do not follow from each other."""
        if not self._times and rows:
            self._times.append((rows[0].lsn, int(at_s)))
        made = self._maker.push([self._row(row, data.get(row.lsn)) for row in rows])
        if rows:
            if self.first is None:
                self.first = Lsn(rows[0].lsn)
            self.position = Lsn(rows[-1].end)
            self.records += len(rows)
        return made

    def _row(self, told: ToldRecord, data: Sequence[int] | None) -> RecordRow:
        return (
            (told.lsn, told.prev), told.xid, (told.rmgr, told.operation), (told.length, told.main_length),
            _blocks(told, data), self._main_data(told),
        )  # fmt: skip

    def _main_data(self, told: ToldRecord) -> bytes:
        """The beginning of the main data, as far as the description tells it."""
        if not told.description:
            return b""
        if told.rmgr == "XLOG":
            return self._checkpoint(told.description)
        if told.rmgr == "Transaction":
            found = _TIME.search(told.description)
            if found is None:
                return b""
            at = datetime.fromisoformat(found[0])
            if int(at.timestamp()) != self._times[-1][1]:
                self._times.append((told.lsn, int(at.timestamp())))
            since = round((at.timestamp() - _POSTGRES_EPOCH_S) * 1e6)
            return struct.pack("<q", since)
        if found := _INSERTED.search(told.description):
            return struct.pack("<BxH", int(found[3], 16), int(found[1] or found[2]))
        return self._pruning(told)

    def _checkpoint(self, description: str) -> bytes:
        found = _CHECKPOINT.search(description)
        if found is None:
            return b""
        redo = int(Lsn.parse(found[1]))
        begun = struct.pack("<QIIB", redo, int(found[2]), int(found[3]), found[4] == "true")
        at_s = self._times[max(0, bisect_right(self._times, redo, key=lambda time: time[0]) - 1)][1]
        # CheckPoint of src/include/catalog/pg_control.h: the time stands at 64, from 19 on at 72.
        return begun.ljust(64 if self._version < 19 else 72, b"\0") + struct.pack("<q", at_s)

    def _pruning(self, told: ToldRecord) -> bytes:
        counts = {name: int(number) for name, number in _COUNT.findall(told.description)}
        if self._version < 17:
            return struct.pack("<IHH", 0, counts.get("nredirected", 0), counts.get("ndead", 0))
        flags = sum(bit for name, bit in _PRUNE_BITS.items() if counts.get(name))
        return struct.pack("<xB", flags) if self._version < 19 else struct.pack("<H", flags)


def _blocks(told: ToldRecord, data: Sequence[int] | None) -> list[BlockRow]:
    found = [_block(match) for match in _BLOCK.finditer(told.blocks)]
    images = sum(image[0] for *_, image, _ in found if image is not None)
    if len(found) != told.blocks.count("blkref #") or images != told.image_length:
        raise WalError(
            f"the blocks of the record at {Lsn(told.lsn)} are told in a form that is not known",
            detail=told.blocks[:200],
        )
    if data is None or len(data) != len(found):
        return found
    return [(*block[:4], length) for block, length in zip(found, data, strict=True)]


def _block(match: re.Match[str]) -> BlockRow:
    number, tablespace, database, relation = (int(match[group]) for group in (1, 2, 3, 4))
    image: ImageRow | None = None
    if match["at"] is not None:
        hole = int(match["hole"])
        length = _BLOCK_BYTES - hole - int(match["saved"] or 0)
        image = (length, int(match["at"]), hole, match["method"], match["checks"] is None)
    fork = _FORKS.get(match[5], 0)
    return number, (tablespace, database, relation, fork), int(match[6]), image, None

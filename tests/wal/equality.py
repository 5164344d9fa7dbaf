"""Two readers of the same WAL, record for record, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tests.wal.waldump import Oracle, Record, Statistics, own_records, own_statistics
from walproof.units import Lsn
from walproof.wal import WalSummary, summarise

_AT_ONCE = 20_000
_SHOWN = 5
"""Differences kept; all are counted."""
_HEADER_AND_PADDING = 40
"""The header of a page may stand between the last record and the location of the next."""

_SNAPSHOT_BYTES_MIN = 50
"""A record of running transactions when there are none."""


@dataclass
class Comparison:
    """What comparing has shown so far."""

    records: int = 0
    blocks: int = 0
    images: int = 0
    differences: int = 0
    shown: list[str] = field(default_factory=list)
    """The first differences, for people."""
    operations: Counter[str] = field(default_factory=Counter)
    """Operation, as walproof names it -> records."""

    def __iadd__(self, other: Comparison) -> Comparison:
        self.records += other.records
        self.blocks += other.blocks
        self.images += other.images
        self.differences += other.differences
        self.shown = (self.shown + other.shown)[:_SHOWN]
        self.operations += other.operations
        return self

    def differ(self, what: str) -> None:
        """Counts a difference."""
        self.differences += 1
        if len(self.shown) < _SHOWN:
            self.shown.append(what)


def compare(oracle: Oracle, wal: Path, start: Lsn, end: Lsn, timeline: int = 1) -> Comparison:
    """Every record between two locations, then the totals of the whole in one pass.

    The oracle may read another folder than ``wal`` with the same records in it.
    """
    found = Comparison()
    for expected, following in _pieces(oracle.records(start, end, timeline)):
        actual = own_records(wal, expected[0][0], following or end, timeline)
        found.operations.update(record[2] for record in actual)
        if not oracle.knows_names:
            expected, actual = _without_names(expected), _without_names(actual)
        _compare_piece(found, expected, actual)
    summary = summarise(wal, start, end, timeline=timeline)
    totals, _ = oracle.statistics(start, end, timeline)
    own = own_statistics(summary)
    if not oracle.knows_names:
        totals, own = _by_rmgr(totals), _by_rmgr(own)
    for operation in sorted(totals.keys() | own.keys()):
        if totals.get(operation) != own.get(operation):
            found.differ(f"{operation}: totals {own.get(operation)}, expected {totals.get(operation)}")
    if summary.totals.records != found.records:
        found.differ(f"{summary.totals.records} records in one pass, {found.records} in pieces")
    return found


def account(summary: WalSummary, end: Lsn) -> Comparison:
    """Whether every byte up to ``end`` is accounted for."""
    found = Comparison()
    if summary.accounting.total_bytes != summary.end - summary.start:
        found.differ(f"{summary.accounting} is not {summary.end - summary.start} bytes")
    if summary.accounting.record_bytes != summary.totals.combined_bytes:
        found.differ(
            f"{summary.accounting.record_bytes} record bytes, {summary.totals.combined_bytes} counted"
        )
    if not 0 <= end - summary.end <= _HEADER_AND_PADDING:
        found.differ(f"read to {summary.end} instead of {end}")
    return found


def compare_counts(major: int, summary: WalSummary, records: int, images: int, wal_bytes: int) -> Comparison:
    """The totals against what pg_stat_wal counted meanwhile.

    In 14 that lacks what the background writer writes, which is a snapshot of running transactions every 15
    seconds: the other processes report their WAL, that one only from 15 on.
    """
    found = Comparison()
    own = (summary.totals.records, summary.images.count, summary.totals.combined_bytes)
    unreported = (own[0] - records, own[1] - images, own[2] - wal_bytes)
    if major == 14 and "Standby" in summary.rmgrs:
        snapshots = summary.rmgrs["Standby"].operations["RUNNING_XACTS"]
        count, _, length = unreported
        fits = count * _SNAPSHOT_BYTES_MIN <= length <= snapshots.record_bytes
        if 0 < count <= snapshots.records and unreported[1] == 0 and fits:
            return found
    if unreported != (0, 0, 0):
        found.differ(f"records, images, bytes {own}, pg_stat_wal {(records, images, wal_bytes)}")
    return found


def _pieces(records: Iterator[Record]) -> Iterator[tuple[list[Record], Lsn | None]]:
    """Some thousands of records at a time, and where the record behind them begins."""
    piece = list(islice(records, _AT_ONCE))
    while piece:
        following = list(islice(records, _AT_ONCE))
        yield piece, following[0][0] if following else None
        piece = following


def _compare_piece(found: Comparison, expected: list[Record], actual: list[Record]) -> None:
    found.records += len(expected)
    for record in expected:
        found.blocks += len(record[6])
        found.images += sum(block[6] is not None for block in record[6])
    if actual == expected:
        return
    by_lsn = {record[0]: record for record in actual}
    for record in expected:
        own = by_lsn.pop(record[0], None)
        if own != record:
            found.differ(f"{own}, expected {record}")
    for own in by_lsn.values():
        found.differ(f"{own}, expected nothing there")


def _without_names(records: list[Record]) -> list[Record]:
    return [(*record[:2], record[2].partition("/")[0], *record[3:]) for record in records]


def _by_rmgr(statistics: Statistics) -> Statistics:
    sums: Statistics = {}
    for operation, columns in statistics.items():
        rmgr = operation.partition("/")[0]
        records, record_bytes, image_bytes = sums.get(rmgr, (0, 0, 0))
        sums[rmgr] = (records + columns[0], record_bytes + columns[1], image_bytes + columns[2])
    return sums

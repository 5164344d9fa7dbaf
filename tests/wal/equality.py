"""Two readers of the same WAL, record for record, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.wal.waldump import Oracle, Record, Statistics, own_records, own_statistics
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import WalStats, stats

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
    """Every record between two locations, then the totals, read by one thread and by several.

    The oracle may read another folder than ``wal`` with the same records in it.
    """
    found = Comparison()
    try:
        actual = own_records(wal, start, end, timeline)
        _compare_records(found, oracle.records(start, end, timeline), actual, oracle.knows_names)
    except WalError as error:
        found.differ(f"{error.message} ({error.detail})")
    totals, _ = oracle.statistics(start, end, timeline)
    for threads in (1, 3):
        ours = own_statistics(stats(wal, start=start, end=end, timeline=timeline, threads=threads))
        expected = totals
        if not oracle.knows_names:
            expected, ours = _by_rmgr(expected), _by_rmgr(ours)
        for operation in sorted(expected.keys() | ours.keys()):
            if expected.get(operation) != ours.get(operation):
                found.differ(
                    f"{operation}: totals {ours.get(operation)} with {threads} threads,"
                    f" expected {expected.get(operation)}"
                )
    return found


def account(summary: WalStats, end: Lsn) -> Comparison:
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


def compare_counts(major: int, summary: WalStats, records: int, images: int, wal_bytes: int) -> Comparison:
    """The totals against what pg_stat_wal counted meanwhile.

    In 14 that lacks what the background writer writes, which is a snapshot of running transactions every 15
    seconds: the other processes report their WAL, that one only from 15 on.
    """
    found = Comparison()
    ours = (summary.totals.records, summary.images.count, summary.totals.combined_bytes)
    unreported = (ours[0] - records, ours[1] - images, ours[2] - wal_bytes)
    if major == 14 and "Standby" in summary.rmgrs:
        snapshots = summary.rmgrs["Standby"].operations["RUNNING_XACTS"]
        count, _, length = unreported
        fits = count * _SNAPSHOT_BYTES_MIN <= length <= snapshots.record_bytes
        if 0 < count <= snapshots.records and unreported[1] == 0 and fits:
            return found
    if unreported != (0, 0, 0):
        found.differ(f"records, images, bytes {ours}, pg_stat_wal {(records, images, wal_bytes)}")
    return found


def _compare_records(
    found: Comparison, expected: Iterator[Record], actual: Iterator[Record], has_names: bool
) -> None:
    """One by one; a record that one of the two lacks is passed over and the rest still compared."""
    theirs, ours = next(expected, None), next(actual, None)
    while theirs is not None or ours is not None:
        if ours is None or (theirs is not None and theirs[0] < ours[0]):
            found.differ(f"nothing, expected {theirs}")
            theirs = next(expected, None)
            continue
        found.operations[ours[2]] += 1
        if theirs is None or ours[0] < theirs[0]:
            found.differ(f"{ours}, expected nothing there")
            ours = next(actual, None)
            continue
        found.records += 1
        found.blocks += len(ours[6])
        found.images += sum(block[6] is not None for block in ours[6])
        if ours != theirs and (has_names or _without_name(ours) != _without_name(theirs)):
            found.differ(f"{ours}, expected {theirs}")
        theirs, ours = next(expected, None), next(actual, None)


def _without_name(record: Record) -> Record:
    return (*record[:2], record[2].partition("/")[0], *record[3:])


def _by_rmgr(statistics: Statistics) -> Statistics:
    sums: Statistics = {}
    for operation, columns in statistics.items():
        rmgr = operation.partition("/")[0]
        records, record_bytes, image_bytes = sums.get(rmgr, (0, 0, 0))
        sums[rmgr] = (records + columns[0], record_bytes + columns[1], image_bytes + columns[2])
    return sums

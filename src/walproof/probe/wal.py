"""How much WAL was generated in the window, and how often it was flushed.

Bytes are the distance between two WAL locations, which means the same in every version. Counts need more
care: backends report to pg_stat_wal only every second and when they exit (PGSTAT_MIN_INTERVAL in pgstat.c;
every 0.5 s through the statistics collector of 14), so a window that opens on a running load finds up to a
second of older activity reported inside it: 5 % too much in 10 s. Therefore

- records and full-page images are counted in the WAL itself, unless there is too much of it or it has been
  recycled meanwhile; then they come from pg_stat_wal,
- what pg_stat_wal and pg_stat_io report is scaled by the share of the reported WAL that lies in the window.
  For a load from a standstill that share is 1. For a window inside a load the scaled counts are estimates,
  good to a few per cent over 5 s: in 18 the reports of WAL and of its flushes are not equally late.

Version 13 has no pg_stat_wal: when its WAL cannot be counted it has bytes alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from walproof.errors import ProbeError, WalError, one_line
from walproof.probe.connection import connect
from walproof.probe.processes import is_running
from walproof.probe.protocol import Observation, Subject
from walproof.probe.slices import read_edge
from walproof.units import Lsn, format_bytes
from walproof.wal import stats

COUNT_MAX_BYTES = 4 * 1024**3
"""More WAL than this is not read to count its records, which would take seconds."""
REPORT_WAIT_S = 2.0
"""How long `WalProbe.stop` waits until the sessions of a finished load have reported and left."""
_COLLECTOR_S = 0.6
"""How far the statistics file of 14 may lag behind its collector (PGSTAT_STAT_INTERVAL, 0.5 s), and some
more."""

_PAGE, _PAGE_HEADER = 8192, 24
_ALIGNMENT_LOSS = 3.5
"""Records start at multiples of 8 (MAXALIGN): 3.5 bytes are lost to that on average."""


@dataclass(frozen=True, slots=True)
class RecordCount:
    """What lies between two WAL locations."""

    records: int
    fpi: int
    fpi_bytes: int
    level_changes: int = 0
    """How often logical decoding was switched on or off (from 19, without a restart)."""


@dataclass(frozen=True, slots=True)
class WalCounters:
    """The server's own counters. None if the version or a setting keeps none."""

    records: int
    fpi: int
    bytes: int
    buffers_full: int
    flushes: int
    sync_ms: float | None
    fpi_bytes: int | None = None
    """From 19."""


class WalProbe:
    """Metrics: ``wal_bytes`` (distance of insert locations), ``wal_records``, ``wal_fpi`` (full-page
    images), ``wal_fpi_bytes`` and ``wal_fpi_share`` (of ``wal_bytes``), ``wal_flushes`` (fsync and the like;
    with an open_* wal_sync_method every write is one),
    ``wal_buffers_full``, ``wal_bytes_stat`` (record bytes as pg_stat_wal reports them, unscaled),
    ``wal_sync_ms_avg`` (only with track_wal_io_timing), ``wal_level_changes`` (of effective_wal_level,
    where there were some) and ``wal_since_redo_bytes_start``: how far the WAL was from the last redo point
    when the window opened, which tells where in a checkpoint cycle it lies.
    """

    def __init__(self) -> None:
        self._subject: Subject | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self._opened_at = 0.0
        self._start_lsn = Lsn(0)
        self._start: WalCounters | None = None
        self._since_redo = 0.0

    def start(self, subject: Subject) -> None:
        """Take the first reading. Raises ProbeError."""
        self._subject = subject
        self._connection = connect(subject.conninfo)
        try:
            redo = self._one("SELECT redo_lsn::text AS redo FROM pg_control_checkpoint()")
            if subject.version_num >= 150000:
                self._connection.execute("SET stats_fetch_consistency = none")
            self._start = self._read()
            # Last, and together with the clock, so that the transactions after it are known.
            edge = read_edge(self._connection)
            self._opened_at, self._start_lsn = edge.at, Lsn(edge.lsn)
        except psycopg.Error as error:
            self.abandon()
            raise ProbeError("could not read the WAL location", detail=one_line(error)) from error
        self._since_redo = float(self._start_lsn - Lsn.parse(redo["redo"]))

    def stop(self) -> Observation:
        """Read the location at once, then wait up to REPORT_WAIT_S for the load's sessions to report."""
        subject, connection = self._subject, self._connection
        if subject is None or connection is None:
            return Observation(warnings=("WAL was not observed",))
        try:
            end_lsn = self._insert_lsn()
            reported = self._wait_for_reports(subject)
            end = self._read()
            if end_lsn - self._start_lsn <= COUNT_MAX_BYTES:
                self._flush_to(end_lsn)
        except psycopg.Error as error:
            return Observation(warnings=(f"WAL was not observed to the end: {one_line(error)}",))
        finally:
            self.abandon()
        distance = end_lsn - self._start_lsn
        metrics = {
            "wal_bytes": float(distance),
            "wal_since_redo_bytes_start": self._since_redo,
        }
        warnings: list[str] = []
        count: RecordCount | None = None
        try:
            count = count_records(subject, self._start_lsn, end_lsn)
        except ProbeError as error:
            warnings.append(f"{error.message}: {error.detail}")
        if count is not None:
            metrics |= {
                "wal_records": float(count.records),
                "wal_fpi": float(count.fpi),
                "wal_fpi_bytes": float(count.fpi_bytes),
            }
            if count.level_changes:
                metrics["wal_level_changes"] = float(count.level_changes)
        if self._start is not None and end is not None:
            if not reported and count is None:
                warnings.append("sessions were still at work: WAL counts may be up to a second behind")
            metrics |= scale_counters(self._start, end, distance, count) | metrics
        elif count is None:
            warnings.append(
                "WAL records and full-page images were not counted, and PostgreSQL 13 has no pg_stat_wal"
            )
        if distance > 0 and "wal_fpi_bytes" in metrics:
            metrics["wal_fpi_share"] = metrics["wal_fpi_bytes"] / distance
        return Observation(metrics, warnings=tuple(warnings), opened_at=self._opened_at)

    def abandon(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _one(self, query: str) -> dict[str, Any]:
        assert self._connection is not None
        with self._connection.cursor(row_factory=dict_row) as cursor:
            row = cursor.execute(query).fetchone()
        assert row is not None
        return row

    def _insert_lsn(self) -> Lsn:
        return Lsn.parse(self._one("SELECT pg_current_wal_insert_lsn()::text AS lsn")["lsn"])

    def _flush_to(self, lsn: Lsn) -> None:
        """Bring the WAL into its files, where it can be counted: insertion runs ahead of writing."""
        assert self._connection is not None
        flushed = self._one("SELECT pg_current_wal_flush_lsn()::text AS lsn")
        if Lsn.parse(flushed["lsn"]) < lsn:
            # The commit of a transaction that wrote WAL flushes all WAL before it; a message is the smallest
            # write.
            self._connection.execute("SET synchronous_commit = local")
            self._connection.execute("SELECT pg_logical_emit_message(true, 'walproof', '')")

    def _read(self) -> WalCounters | None:
        assert self._subject is not None
        if self._subject.version_num < 140000:
            return None
        wal = self._one("SELECT * FROM pg_stat_wal")
        setting = self._one(
            "SELECT current_setting('wal_sync_method') LIKE 'open%' AS writes_flush,"
            " current_setting('fsync')::bool AS fsync, current_setting('track_wal_io_timing')::bool AS timed"
        )
        if self._subject.version_num >= 180000:
            # context 'init' is the creation of segments, which is not a flush that a commit waits for.
            io = self._one(
                "SELECT coalesce(sum(writes), 0) AS writes, coalesce(sum(fsyncs), 0) AS syncs,"
                " coalesce(sum(fsync_time), 0) AS sync_ms"
                " FROM pg_stat_io WHERE object = 'wal' AND context = 'normal'"
            )
            writes, syncs, sync_ms = io["writes"], io["syncs"], io["sync_ms"]
        else:
            writes, syncs, sync_ms = wal["wal_write"], wal["wal_sync"], wal["wal_sync_time"]
        by_write = setting["writes_flush"] and setting["fsync"]
        return WalCounters(
            records=int(wal["wal_records"]),
            fpi=int(wal["wal_fpi"]),
            bytes=int(wal["wal_bytes"]),
            buffers_full=int(wal["wal_buffers_full"]),
            flushes=int(writes if by_write else syncs),
            sync_ms=float(sync_ms) if setting["timed"] and not by_write else None,
            fpi_bytes=int(wal["wal_fpi_bytes"]) if "wal_fpi_bytes" in wal else None,
        )

    def _wait_for_reports(self, subject: Subject) -> bool:
        """Whether every session of the load has left, and thus reported. Does not wait for a load that goes
        on."""
        if subject.version_num < 140000:
            return True
        if is_running(subject.driver_pid):
            return False
        deadline = time.monotonic() + REPORT_WAIT_S
        while self._one(
            "SELECT count(*) AS working FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND application_name = 'pgbench'"
        )["working"]:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        if subject.version_num < 150000:
            time.sleep(_COLLECTOR_S)
        return True


def count_records(subject: Subject, start: Lsn, end: Lsn) -> RecordCount | None:
    """Count the records and images between two locations; None beyond COUNT_MAX_BYTES.

    The WAL must be in its files up to ``end``. Raises ProbeError when it cannot be read, for instance
    because the segments were recycled meanwhile.
    """
    if end - start > COUNT_MAX_BYTES:
        return None
    if end <= start:
        return RecordCount(0, 0, 0)
    try:
        counted = stats(subject.data / "pg_wal", start=start, end=end)
    except WalError as error:
        raise ProbeError(
            f"could not count the WAL records in {format_bytes(end - start)} of WAL",
            detail=error.message,
            hint="WAL that a checkpoint recycles within the window can be kept with wal_keep_size.",
        ) from error
    changes = 0
    if "XLOG" in counted.rmgrs:
        status = counted.rmgrs["XLOG"].operations.get("LOGICAL_DECODING_STATUS_CHANGE")
        changes = status.records if status is not None else 0
    return RecordCount(counted.totals.records, counted.images.count, counted.images.bytes, changes)


def scale_counters(
    start: WalCounters, end: WalCounters, distance: int, count: RecordCount | None
) -> dict[str, float]:
    """Metrics from the growth of the server's counters, scaled to a window with ``distance`` bytes of WAL.

    ``count`` is what that WAL holds, where it was counted. ``wal_bytes_stat`` is not scaled, and neither is
    an average."""
    records, size = end.records - start.records, end.bytes - start.bytes
    share = 1.0
    if count is not None and records > 0:
        share = count.records / records
    elif size > 0:
        # Reported bytes are those of records; on disk, alignment and page headers are added.
        on_disk = (size + _ALIGNMENT_LOSS * records) * _PAGE / (_PAGE - _PAGE_HEADER)
        share = min(1.0, distance / on_disk)
    flushes = end.flushes - start.flushes
    metrics = {
        "wal_records": records * share,
        "wal_fpi": (end.fpi - start.fpi) * share,
        "wal_flushes": flushes * share,
        "wal_buffers_full": (end.buffers_full - start.buffers_full) * share,
        "wal_bytes_stat": float(size),
    }
    if start.fpi_bytes is not None and end.fpi_bytes is not None:
        metrics["wal_fpi_bytes"] = (end.fpi_bytes - start.fpi_bytes) * share
    if start.sync_ms is not None and end.sync_ms is not None and flushes > 0:
        metrics["wal_sync_ms_avg"] = (end.sync_ms - start.sync_ms) / flushes
    return metrics

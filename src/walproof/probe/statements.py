"""What each of a list of SQL statements writes to the WAL, counted by every method that the server offers.
The server is quiet except for the session that runs the statements, so what stands in the WAL between two
locations belongs to that statement; what other processes wrote meanwhile is told apart by its records.

    method        what it counts                                              since
    lsn           distance of pg_current_wal_insert_lsn()                     -
    decoded       records between those locations, read from the WAL itself   -
    statements    pg_stat_statements, executor and utility only               13, with contrib
    stat          pg_stat_wal, all processes                                  14
    backend       pg_stat_get_backend_wal(), the session                      18
    explain       EXPLAIN (ANALYZE, WAL), under which the statement is run    13

Sources: pgss_store and pgWalUsage (contrib/pg_stat_statements, src/backend/executor/instrument.c) count what
XLogInsertRecord (src/backend/access/transam/xlog.c) inserted between the start and the end of the executor
or of a utility command: record bytes, without padding and page headers, and without what commits write
afterwards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import WalproofError, WorkloadError, one_line
from walproof.facts import Statement
from walproof.probe.connection import connect
from walproof.units import Lsn
from walproof.wal import stats

_QUIET_S = 0.25
"""How long the insert location must not change: longer than wal_writer_delay."""
_PATIENCE_S = 20.0
_STATS_DELAY_S = 1.2
"""Sessions of 14 report to pg_stat_wal at most once a second (PGSTAT_STAT_INTERVAL)."""
_FORCE_FLUSH = 150000
_STAT_WAL = 140000
_BACKEND_WAL = 180000


@dataclass(frozen=True, slots=True)
class _Counters:
    stat: tuple[int, int, int] | None
    """Records, full-page images and bytes of pg_stat_wal."""
    backend: tuple[int, int, int] | None


class StatementCounter:
    """Runs statements in one session and counts from another. A context manager."""

    def __init__(self, conninfo: str, wal_folder: Path) -> None:
        """Raises ProbeError when the server does not answer."""
        self._wal = wal_folder
        self._worker = connect(conninfo)
        self._observer = connect(conninfo)
        # Whatever the study sets: its commit has to flush what is read then.
        self._observer.execute("SET synchronous_commit = local")
        # A statement that psycopg prepares at its sixth repetition is no longer seen by pg_stat_statements.
        self._worker.prepare_threshold = None
        self._version = self._worker.info.server_version
        row = self._worker.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        self._pid = int(row[0])
        self._has_statements = self._create_statistics()
        # The first look at a view reads catalog pages, which may be pruned then: not within a measurement.
        self._counters()
        self._settle()

    def __enter__(self) -> StatementCounter:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()
        self._observer.close()

    def measure(self, statement: Statement) -> dict[str, float]:
        """Metrics of one statement, their names ending in ``.`` and its name.

        ``wal_bytes_lsn``, ``wal_{records,fpi,bytes}_{decoded,statements,stat,backend,explain}``, the parts
        of the LSN distance (``wal_{padding,page_header,segment_header,switch}_bytes``), and the records and
        bytes of each operation (``wal_operation_{records,bytes}.STATEMENT|Heap/INSERT``).

        Raises WorkloadError.
        """
        for sql in statement.setup:
            self._run(statement.name, sql)
        before = self._counters()
        if self._has_statements:
            self._observer.execute("SELECT pg_stat_statements_reset()")
        start = self._settle()
        explained = self._run_explained(statement) if statement.explain else None
        if explained is None:
            self._run(statement.name, statement.sql)
        end = self._settle()
        after = self._counters()
        metrics = {f"wal_bytes_lsn.{statement.name}": float(end - start)}
        for method, old, new in (
            ("stat", before.stat, after.stat),
            ("backend", before.backend, after.backend),
        ):
            if old is not None and new is not None:
                difference = [b - a for a, b in zip(old, new, strict=True)]
                metrics |= _named(method, statement.name, difference)
        if self._has_statements:
            metrics |= _named("statements", statement.name, self._statements())
        metrics |= self._decoded(statement.name, start, end)
        if explained is not None:
            metrics |= _named("explain", statement.name, explained)
        return metrics

    def _statements(self) -> list[int]:
        """Records, images and bytes that pg_stat_statements counted since it was reset."""
        only = b" WHERE toplevel" if self._version >= _STAT_WAL else b""
        row = self._observer.execute(
            b"SELECT coalesce(sum(wal_records), 0)::bigint, coalesce(sum(wal_fpi), 0)::bigint,"
            b" coalesce(sum(wal_bytes), 0)::bigint FROM pg_stat_statements" + only
        ).fetchone()
        assert row is not None
        return [int(value) for value in row]

    def _create_statistics(self) -> bool:
        try:
            self._worker.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            self._worker.execute("SELECT count(*) FROM pg_stat_statements")
        except psycopg.Error:
            return False  # not built, or not loaded: the report names what is missing
        return True

    def _run(self, name: str, sql: str) -> list[TupleRow]:
        try:
            cursor = self._worker.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise WorkloadError(f'statement "{name}" failed: {one_line(error)}', detail=sql) from error

    def _run_explained(self, statement: Statement) -> list[int]:
        """Run it under EXPLAIN; return records, images and bytes of the executor's own instrumentation."""
        ((said,),) = self._run(statement.name, f"EXPLAIN (ANALYZE, WAL, FORMAT JSON) {statement.sql}")
        top: Mapping[str, int] = (said if isinstance(said, list) else json.loads(said))[0]["Plan"]
        return [top.get(name, 0) for name in ("WAL Records", "WAL FPI", "WAL Bytes")]

    def _counters(self) -> _Counters:
        """The server's counters, with what both sessions have to report."""
        if _STAT_WAL <= self._version < _FORCE_FLUSH:
            time.sleep(_STATS_DELAY_S)
        for session in (self._worker, self._observer):
            # Reported when the next transaction has ended.
            session.execute(
                "SELECT pg_stat_force_next_flush()" if self._version >= _FORCE_FLUSH else "SELECT 1"
            )
            session.execute("SELECT 1")
        stat = backend = None
        if self._version >= _STAT_WAL:
            row = self._observer.execute(
                "SELECT wal_records, wal_fpi, wal_bytes::bigint FROM pg_stat_wal"
            ).fetchone()
            assert row is not None
            stat = (int(row[0]), int(row[1]), int(row[2]))
        if self._version >= _BACKEND_WAL:
            row = self._observer.execute(
                "SELECT wal_records, wal_fpi, wal_bytes::bigint FROM pg_stat_get_backend_wal(%s)",
                (self._pid,),
            ).fetchone()
            assert row is not None
            backend = (int(row[0]), int(row[1]), int(row[2]))
        return _Counters(stat, backend)

    def _settle(self) -> Lsn:
        """The insert location once it has stood still. Raises WorkloadError."""
        deadline = time.monotonic() + _PATIENCE_S
        still_since, last = time.monotonic(), self._insert_lsn()
        while time.monotonic() < deadline:
            time.sleep(0.02)
            now = self._insert_lsn()
            if now != last:
                still_since, last = time.monotonic(), now
            elif time.monotonic() - still_since >= _QUIET_S:
                return now
        raise WorkloadError(
            f"the server did not come to rest within {_PATIENCE_S:.0f} s",
            detail=f"The insert location is {last} and moves on.",
            hint="Turn autovacuum off in the study's base settings.",
        )

    def _insert_lsn(self) -> Lsn:
        row = self._observer.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return Lsn.parse(row[0])

    def _decoded(self, name: str, start: Lsn, end: Lsn) -> dict[str, float]:
        # A commit flushes all that was inserted before it; it comes after what is counted.
        self._observer.execute("SELECT pg_logical_emit_message(true, 'walproof', 'flush')")
        try:
            wal = stats(self._wal, start=start, end=end, threads=1)
        except WalproofError as error:
            raise WorkloadError(f'could not read the WAL of statement "{name}": {error.message}') from error
        totals, parts = wal.totals, wal.accounting
        metrics = _named("decoded", name, [totals.records, totals.image_count, totals.combined_bytes])
        # Up to 40 bytes, the header of a page, may stand between the last record and the insert location.
        rest = (end - start) - parts.total_bytes
        metrics |= {
            f"wal_padding_bytes.{name}": float(parts.padding_bytes),
            f"wal_page_header_bytes.{name}": float(parts.page_header_bytes + rest),
            f"wal_segment_header_bytes.{name}": float(parts.segment_header_bytes),
            f"wal_switch_bytes.{name}": float(parts.switch_bytes),
        }
        for rmgr, manager in wal.rmgrs.items():
            for operation, counts in manager.operations.items():
                key = f"{name}|{rmgr}/{operation}"
                metrics[f"wal_operation_records.{key}"] = float(counts.records)
                metrics[f"wal_operation_bytes.{key}"] = float(counts.combined_bytes)
        return metrics


def _named(method: str, name: str, values: list[int]) -> dict[str, float]:
    quantities = ("records", "fpi", "bytes")
    return {
        f"wal_{quantity}_{method}.{name}": float(value)
        for quantity, value in zip(quantities, values, strict=True)
    }

"""WAL of a server that lets nobody stream it, through the functions of the extension pg_walinspect.

The extension must exist, and its functions must be granted (by membership in pg_read_server_files, or
EXECUTE); walproof never creates it. Nothing retains WAL for it: pieces follow the tip as it is written, and
where the server has removed what comes next, what was read is all that there is.

Every call decodes its piece on the server. So a piece is bounded, and after each piece the session rests for
a multiple of the time it took: reading may fall behind, and takes a share of one core at most."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from walproof.errors import ProbeError, one_line
from walproof.probe.connection import connect_foreign
from walproof.units import Lsn
from walproof.wal.recording import RECORDED_SETTINGS
from walproof.wal.told import DESCRIBED, ToldRecord

PIECE_BYTES = 2 << 20
"""Bytes of WAL that one question asks for."""
PIECE_LEAST_BYTES = 64 << 10
REST = 4.0
"""The rest before the next piece, as a multiple of the time that a piece took: a fifth of a core at most."""
_TIMEOUT = "5s"
"""Time-out of a question; a piece that takes longer is halved."""
_TIMED_OUT = "57014"
_NO_RECORD = "XX000"
"""No whole record is there yet; the functions raise this without a code of its own."""

_RIGHTS = """
    SELECT n.nspname, has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')
    FROM pg_extension e
    JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
    JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
    JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE e.extname = 'pg_walinspect' AND p.proname = %s"""
_AVAILABLE = "SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'pg_walinspect'"
_SERVER = """
    SELECT (SELECT system_identifier FROM pg_control_system()),
           (SELECT timeline_id FROM pg_control_checkpoint()),
           pg_size_bytes(current_setting('wal_segment_size'))"""
_SETTINGS = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s) ORDER BY name"
_TIP = """
    SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint"""
_RECORDS = """
    SELECT (start_lsn - '0/0')::bigint, (end_lsn - '0/0')::bigint, (prev_lsn - '0/0')::bigint,
           xid::text::bigint, resource_manager, record_type, record_length, main_data_length, fpi_length,
           CASE WHEN resource_manager || '/' || record_type = ANY (%s) THEN left(description, 1000) END,
           block_ref
    FROM {}.pg_get_wal_records_info(%s::text::pg_lsn, %s::text::pg_lsn)"""
_DATA = """
    SELECT (start_lsn - '0/0')::bigint, array_agg(block_data_length ORDER BY block_id)
    FROM {}.pg_get_wal_block_info(%s::text::pg_lsn, %s::text::pg_lsn, false)
    GROUP BY 1 HAVING count(*) > 1"""


@dataclass(frozen=True, slots=True)
class InspectedServer:
    """The server whose WAL it is."""

    version_num: int
    system_identifier: int
    timeline: int
    segment_bytes: int
    settings: Mapping[str, str]

    @property
    def major(self) -> int:
        """Major version."""
        return self.version_num // 10000


@dataclass(frozen=True, slots=True)
class Piece:
    """Records that follow the ones before."""

    records: tuple[ToldRecord, ...]
    data: Mapping[int, tuple[int, ...]]
    """For records with several blocks, by location: the bytes of each block's data. Empty in 15."""
    took_s: float
    """Time that the questions took."""


class WalInspector:
    """Context manager: a session that reads the WAL of one server from its tip on. Raises ProbeError."""

    def __init__(self, conninfo: str) -> None:
        """Connect, and check whether it is allowed."""
        self._session = connect_foreign(conninfo)
        try:
            # Times of commits are told in the session's time zone.
            for setting in ("TimeZone = 'UTC'", f"statement_timeout = '{_TIMEOUT}'"):
                self._session.execute(f"SET {setting}".encode())
            self._schema = _schema(self._session)
            self.server = _server(self._session)
            self.began = Lsn(self._tip()[0])
        except psycopg.Error as error:
            self._session.close()
            raise ProbeError("could not ask the server for its WAL", detail=one_line(error)) from error
        except ProbeError:
            self._session.close()
            raise
        self._next = self.began
        self._piece = PIECE_BYTES
        self.spent_s = 0.0
        """Time that all questions have taken so far."""

    def __enter__(self) -> WalInspector:
        return self

    def __exit__(self, *error: object) -> None:
        self._session.close()

    def piece(self, until: Lsn | None = None) -> Piece | None:
        """What comes next, up to ``until`` or the tip; None if nothing whole is there yet.

        Raises ProbeError when the server refuses it, as it does when it has removed that WAL.
        """
        began_s = time.monotonic()
        try:
            while True:
                flushed, _ = self._tip()
                end = min(flushed, self._next + self._piece, *(() if until is None else (until,)))
                if end <= self._next:
                    return None
                try:
                    records, data = self._ask(Lsn(end))
                    break
                except psycopg.Error as error:
                    if error.sqlstate == _NO_RECORD and not self._session.closed:
                        return None
                    if error.sqlstate != _TIMED_OUT or self._piece <= PIECE_LEAST_BYTES:
                        raise
                    self._piece //= 2
        except psycopg.Error as error:
            raise ProbeError("the server no longer tells its WAL", detail=one_line(error)) from error
        finally:
            took_s = time.monotonic() - began_s
            self.spent_s += took_s
        if not records:
            # The record is longer than a piece.
            if flushed - self._next > self._piece:
                self._piece *= 2
            return None
        self._next = Lsn(records[-1].end)
        return Piece(records, data, took_s)

    def tip(self) -> Lsn:
        """How far WAL was inserted. Raises ProbeError."""
        try:
            return Lsn(self._tip()[1])
        except psycopg.Error as error:
            raise ProbeError("the server no longer tells its WAL", detail=one_line(error)) from error

    def _tip(self) -> tuple[int, int]:
        row = self._session.execute(_TIP).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])

    def _ask(self, end: Lsn) -> tuple[tuple[ToldRecord, ...], dict[int, tuple[int, ...]]]:
        span = [str(self._next), str(end)]
        schema = sql.Identifier(self._schema)
        rows = self._session.execute(sql.SQL(_RECORDS).format(schema), [list(DESCRIBED), *span]).fetchall()
        records = tuple(
            ToldRecord(lsn, to, prev, xid, rmgr, name, length, main, images, described or "", blocks or "")
            for lsn, to, prev, xid, rmgr, name, length, main, images, described, blocks in rows
        )
        if self.server.major < 16:
            return records, {}
        lengths = self._session.execute(sql.SQL(_DATA).format(schema), span).fetchall()
        return records, {int(lsn): tuple(data) for lsn, data in lengths}


def _schema(session: psycopg.Connection[TupleRow]) -> str:
    """Where the functions are. Raises ProbeError, which names the right that is missing."""
    major = session.info.server_version // 10000
    if major < 15:
        raise ProbeError("pg_walinspect exists from 15 on")
    recovery = session.execute("SELECT pg_is_in_recovery()").fetchone()
    if recovery is not None and recovery[0]:
        raise ProbeError("the server is a standby")
    for function in ("pg_get_wal_records_info", *(("pg_get_wal_block_info",) if major >= 16 else ())):
        row = session.execute(_RIGHTS, [function]).fetchone()
        if row is None:
            offered = session.execute(_AVAILABLE).fetchone()
            where = "this database" if offered is not None and offered[0] else "this server"
            raise ProbeError(f"pg_walinspect is not in {where}")
        schema, may = row
        if not may:
            raise ProbeError(
                f"pg_walinspect is there, and {function} is not granted",
                hint="Membership in pg_read_server_files grants it, or EXECUTE on the function.",
            )
    return str(schema)


def _server(session: psycopg.Connection[TupleRow]) -> InspectedServer:
    row = session.execute(_SERVER).fetchone()
    assert row is not None
    settings = session.execute(_SETTINGS, [list(RECORDED_SETTINGS)]).fetchall()
    return InspectedServer(
        session.info.server_version, int(row[0]) % 2**64, int(row[1]), int(row[2]),
        {str(name): str(value) for name, value in settings},
    )  # fmt: skip

"""Which indexes a standby reads: statistics are each server's own, so only it can say."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from walproof.errors import ProbeError
from walproof.observe.asking import Asking
from walproof.probe.connection import connect_foreign

_SYSTEM = "SELECT system_identifier::text FROM pg_control_system()"
_SCANS = """
    SELECT quote_ident(schemaname) || '.' || quote_ident(indexrelname), idx_scan
    FROM pg_stat_user_indexes"""


_COUNTED = """
    SELECT extract(epoch FROM now() - greatest(
             coalesce(greatest(d.stats_reset, a.stats_reset), pg_postmaster_start_time()),
             CASE WHEN current_setting('server_version_num')::int < 150000
                  THEN pg_postmaster_start_time() END))
      FROM pg_stat_database d, pg_stat_archiver a WHERE d.datname = current_database()"""
"""Until 14 a standby drops its statistics at each start (pgstat_reset_all in StartupXLOG)."""


def standby_scans(
    conninfo: str, system_identifier: str | None, database: str
) -> tuple[Mapping[str, int], float | None]:
    """(index -> scans since the statistics were reset, for how many seconds they count), of a standby of that
    cluster in that database.

    Raises ProbeError when it cannot be asked, or belongs to a cluster or database other than that."""
    with closing(connect_foreign(conninfo)) as session:
        ask = Asking(session)
        system, named = ask.value("the system identifier", _SYSTEM), session.info.dbname
        if system_identifier is not None and system != system_identifier:
            raise ProbeError(
                "the server that --standby names is not a standby of it",
                detail=f"Its system identifier is {system}, expected {system_identifier}.",
            )
        if named != database:
            raise ProbeError(
                f'--standby names database "{named}", expected "{database}"',
                hint="Statistics of indexes are kept for each database.",
            )
        counted = ask.value("how long they count", _COUNTED)
        rows = ask.rows("scans of indexes", _SCANS)
        if ask.lacks:
            raise ProbeError("scans of a standby's indexes could not be read", detail=ask.lacks[0])
        seconds = None if counted is None else float(str(counted))
        return {str(name): int(scans or 0) for name, scans in rows}, seconds

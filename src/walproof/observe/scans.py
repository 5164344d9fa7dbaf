"""Which indexes a standby reads: statistics are each server's own, so only it can say."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from walproof.errors import ProbeError
from walproof.facts.server import counted_since
from walproof.observe.asking import Asking, number_in
from walproof.observe.server import RESET, STARTED
from walproof.probe.connection import connect_foreign

_SYSTEM = "SELECT system_identifier::text FROM pg_control_system()"
_SCANS = """
    SELECT quote_ident(schemaname) || '.' || quote_ident(indexrelname), idx_scan
    FROM pg_stat_user_indexes"""
_NOW = "SELECT extract(epoch FROM now())"


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
        now = ask.value("its time", _NOW)
        reset = ask.value("when statistics were reset", RESET)
        started = ask.value("when it was started", STARTED)
        version_num = session.info.server_version
        since = counted_since(number_in(started), number_in(reset), version_num, is_in_recovery=True)
        rows = ask.rows("scans of indexes", _SCANS)
        if ask.lacks:
            raise ProbeError("scans of a standby's indexes could not be read", detail=ask.lacks[0])
        counted_s = None if since is None else max(0.0, float(str(now)) - since)
        return {str(name): int(scans or 0) for name, scans in rows}, counted_s

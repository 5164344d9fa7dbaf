"""WAL of servers that crashed and of servers that changed timelines, against pg_waldump."""

from __future__ import annotations

import pytest

from tests import versions
from tests.wal.equality import compare
from tests.wal.restarts import (
    change_settings,
    lose_a_continuation,
    promote,
    switch_timeline,
    timeline_switches,
)
from tests.wal.server import BINDIRS, Server
from tests.wal.waldump import Oracle
from walproof.wal import stats

pytestmark = pytest.mark.live

MB = 1024 * 1024
_VERSIONS = sorted(BINDIRS, key=int)


@pytest.mark.parametrize("version", versions.ends(_VERSIONS))
def test_a_lost_continuation_and_new_timelines(version: str) -> None:
    """A record given up in a crash is passed over; then the newest timeline is followed."""
    with Server(BINDIRS[version], segment_mb=1) as server:
        oracle = Oracle(server.own_waldump, server.wal)
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
            connection.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 500) i")
        start = server.insert_lsn()
        change_settings(server)
        lost = lose_a_continuation(server, MB)
        end = server.insert_lsn()
        found = compare(oracle, server.wal, start, end)
        assert found.shown == []
        assert {"XLOG/OVERWRITE_CONTRECORD", "XLOG/FPW_CHANGE", "XLOG/PARAMETER_CHANGE"} <= set(
            found.operations
        )
        wal = stats(server.wal, start=start, end=end)
        assert wal.accounting.overwritten_bytes == MB - lost % MB
        assert wal.accounting.total_bytes == wal.end - wal.start

        switch_timeline(server)
        promote(server)
        first, second = timeline_switches(server)
        end = server.insert_lsn()
        wal = stats(server.wal, start=start, end=end)
        assert wal.timeline == 3
        assert wal.accounting.total_bytes == wal.end - wal.start
        # pg_waldump does not follow from one timeline to the next: it is asked about each.
        stretches = [(start, first, 1), (first, second, 2), (second, end, 3)]
        comparisons = [compare(oracle, server.wal, *stretch) for stretch in stretches]
        assert [comparison.shown for comparison in comparisons] == [[], [], []]
        assert comparisons[2].operations["XLOG/END_OF_RECOVERY"] == 1
        assert sum(comparison.records for comparison in comparisons) == wal.totals.records
        # The old timeline can still be asked for, and ends before the new one.
        old = stats(server.wal, start=start, timeline=1)
        assert (old.timeline, old.end < wal.end) == (1, True)

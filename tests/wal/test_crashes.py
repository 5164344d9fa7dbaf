"""WAL of servers that crashed and of servers that changed timelines, against pg_waldump."""

from __future__ import annotations

import pytest

from tests.wal.restarts import lose_a_continuation, switch_timeline
from tests.wal.server import BINDIRS, Server
from tests.wal.waldump import own_statistics, statistics
from walproof.wal import summarise

pytestmark = pytest.mark.live

MB = 1024 * 1024


@pytest.mark.parametrize("version", BINDIRS)
def test_a_lost_continuation_and_a_new_timeline(version: str) -> None:
    """A record given up in a crash is passed over; then the newest timeline is followed."""
    with Server(BINDIRS[version], ["--wal-segsize=1"]) as server:
        start = server.insert_lsn()
        lost = lose_a_continuation(server, MB)
        end = server.insert_lsn()
        expected = statistics(server.waldump("-s", str(start), "-e", str(end), "--stats=record"))
        assert "XLOG/OVERWRITE_CONTRECORD" in expected
        wal = summarise(server.wal, start, end)
        assert own_statistics(wal) == expected
        assert wal.accounting.overwritten_bytes == MB - lost % MB
        assert wal.accounting.total_bytes == wal.end - wal.start

        switch_timeline(server)
        end = server.insert_lsn()
        wal = summarise(server.wal, start, end)
        assert wal.timeline == 2
        assert wal.accounting.total_bytes == wal.end - wal.start
        # pg_waldump does not follow from one timeline to the next: it gets the part behind the switch.
        switch = wal.checkpoints[-1].lsn
        expected = statistics(server.waldump("-t", "2", "-s", str(switch), "-e", str(end), "--stats=record"))
        assert own_statistics(summarise(server.wal, switch, end)) == expected
        # The old timeline can still be asked for, and ends before the new one.
        old = summarise(server.wal, start, timeline=1)
        assert (old.timeline, old.end < wal.end) == (1, True)

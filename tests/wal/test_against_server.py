"""The decoder against the server's own count of what it wrote (pg_stat_wal, from 14)."""

from __future__ import annotations

import pytest

from tests import versions
from tests.wal.load import run_load
from tests.wal.server import SERVERS, Server
from walproof.wal import stats

pytestmark = pytest.mark.live
_VERSIONS = sorted(SERVERS, key=int)


@pytest.mark.parametrize("version", versions.ends(_VERSIONS))
def test_the_server_counts_the_same(version: str) -> None:
    with Server(SERVERS[version], segment_mb=1) as server:
        server.insert_lsn()
        start, records, images, wal_bytes = server.quiet_reading()
        run_load(server, 500)
        end, records_after, images_after, bytes_after = server.quiet_reading()
        server.insert_lsn()  # flushes
        wal = stats(server.wal, start=start, end=end)
        assert wal.totals.records == records_after - records
        assert wal.images.count == images_after - images
        assert wal.totals.combined_bytes == bytes_after - wal_bytes

"""What a killed server's WAL says of other settings."""

from __future__ import annotations

import pytest

from walproof.facts import Install
from walproof.lab.recovery.crash import crash_server
from walproof.lab.recovery.trial import predict_variants
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.units import Lsn

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]

SETTINGS = {
    "autovacuum": "off", "checkpoint_timeout": "1h", "wal_keep_size": "1GB",
    # Nobody writes WAL but those who wait for it.
    "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB",
}  # fmt: skip


def test_records_that_were_not_written_are_not_missed(install: Install, workspace: Workspace) -> None:
    folder = workspace.make_folder("killed")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start(SETTINGS)
    try:
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE t (f text)")
            connection.execute("CHECKPOINT")
            start = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            connection.execute("INSERT INTO t SELECT repeat('x', 100) FROM generate_series(1, 1000)")
            connection.execute("SET synchronous_commit = off")
            connection.execute("INSERT INTO t VALUES ('lost')")
            ends = connection.execute(
                "SELECT pg_current_wal_insert_lsn()::text, pg_current_wal_lsn()::text"
            ).fetchone()
            image = crash_server(cluster)
    finally:
        cluster.stop("immediate")
    assert start is not None
    assert ends is not None
    inserted, written = (Lsn.parse(str(end)) for end in ends)
    assert written < inserted
    first = Lsn.parse(str(start[0]))
    found = predict_variants(image.wal, first, {"same": SETTINGS}).metrics
    assert 100_000 < found["recorded_wal_bytes"] <= written - first
    assert found["predicted_recovery_wal_bytes.same"] > 100_000

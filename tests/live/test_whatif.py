"""A prediction is checked by really changing the setting: the same work on servers with other sizes."""

from __future__ import annotations

import pytest

from tests import versions
from tests.wal.server import BINDIRS, Server
from walproof.wal import stats
from walproof.wal.whatif import Target, WhatIf, simulate

pytestmark = pytest.mark.live

WORK = """
DO $$ DECLARE picked int; BEGIN
  PERFORM setseed(0.5);
  FOR n IN 1..40000 LOOP
    picked := 1 + floor(random() * 400000);
    UPDATE t SET v = n WHERE id = picked;
    COMMIT;
    -- A cycle of 32 MB lasts long beside a checkpointer that has to wait for a core.
    IF n % 100 = 0 THEN PERFORM pg_sleep(0.002); END IF;
  END LOOP;
END $$
"""
SIZES_MB = (32, 64, 1024)
_VERSIONS = sorted(BINDIRS, key=int)


def run(version: str, size_mb: int, targets: list[Target]) -> tuple[WhatIf, int]:
    """The work under one max_wal_size; what is predicted from it, and its images."""
    settings = {
        # With a completion target of 0 checkpoints are never late, however fast the work is.
        "max_wal_size": f"{size_mb}MB", "min_wal_size": "2MB", "checkpoint_completion_target": "0",
        "wal_level": "replica", "shared_buffers": "64MB", "synchronous_commit": "on",
    }  # fmt: skip
    with Server(BINDIRS[version], settings, segment_mb=1) as server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int, f text) WITH (fillfactor = 80)")
            connection.execute("INSERT INTO t SELECT n, 0, repeat('x', 60) FROM generate_series(1, 400000) n")
            connection.execute("VACUUM FREEZE t")
            connection.execute("CHECKPOINT")
        start = server.insert_lsn()
        with server.connect() as connection:
            connection.execute(WORK)
        end = server.insert_lsn()
        images = stats(server.wal, start=start, end=end).images.count
        return simulate(server.wal, targets=targets, start=start, end=end), images


@pytest.mark.parametrize("version", versions.newest(_VERSIONS))
def test_changing_max_wal_size_does_what_was_predicted(version: str) -> None:
    targets = [Target(size, None, checkpoint_completion_target=0.0, min_wal_size_mb=2) for size in SIZES_MB]
    measured = [run(version, size, targets) for size in SIZES_MB]
    assert measured[0][0].wal_bytes > 1.2 * measured[2][0].wal_bytes, "the setting makes a difference"
    for found, _ in measured:
        assert found.recorded.agreement.share is None or found.recorded.agreement.share > 0.99
        for outcome, (target, images) in zip(found.outcomes, measured, strict=True):
            assert outcome.wal_bytes == pytest.approx(target.wal_bytes, rel=0.05)
            assert outcome.images == pytest.approx(images, rel=0.06)

"""Every way to send rows, by name. A feed returns when the server has acknowledged all of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from walproof.facts import LoadFeed
from walproof.workload.loading import arrow, copies, many_rows, row_by_row, staging
from walproof.workload.loading.load_target import LoadTarget
from walproof.workload.loading.rows import Rows
from walproof.workload.loading.table import Session


class Feed(Protocol):
    """Sends ``rows`` through ``session``, which is in autocommit mode, a batch at a time (None: all)."""

    def __call__(self, session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
        """Raises psycopg.Error, or WorkloadError for another driver."""


FEEDS: Mapping[LoadFeed, Feed] = MappingProxyType(
    {
        "insert": row_by_row.insert,
        "prepared insert": row_by_row.prepared_insert,
        "pipeline": row_by_row.pipeline,
        "executemany": row_by_row.executemany,
        "values": many_rows.values,
        "unnest": many_rows.unnest,
        "copy rows": copies.copy_rows,
        "copy binary": copies.copy_binary,
        "copy": copies.copy_ready,
        "stage": staging.stage,
        "merge": staging.merge,
        "adbc": arrow.ingest,
    }
)
READY_BYTES: frozenset[LoadFeed] = frozenset({"copy", "stage", "merge"})
"""Feeds that send a file's bytes; the others encode Python values."""

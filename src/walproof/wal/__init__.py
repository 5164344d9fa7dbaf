"""WAL as Python values: totals, records, frames.

    >>> from walproof.wal import stats
    >>> wal = stats("data/pg_wal")  # doctest: +SKIP
    >>> print(wal.totals.combined_bytes, wal.images.count, wal.commits)  # doctest: +SKIP

docs/wal.md has an example that runs.
"""

from walproof.wal.records import BlockRef, Image, Record, frame, lines, records
from walproof.wal.relations import Relation, RelationMap, read_map
from walproof.wal.totals import (
    Accounting,
    Checkpoint,
    CheckpointKind,
    Finish,
    Gap,
    ImageTotals,
    MethodTotals,
    Minute,
    RelationTotals,
    RmgrTotals,
    WalStats,
    WalTotals,
    stats,
)

__all__ = [
    "Accounting",
    "BlockRef",
    "Checkpoint",
    "CheckpointKind",
    "Finish",
    "Gap",
    "Image",
    "ImageTotals",
    "MethodTotals",
    "Minute",
    "Record",
    "Relation",
    "RelationMap",
    "RelationTotals",
    "RmgrTotals",
    "WalStats",
    "WalTotals",
    "frame",
    "lines",
    "read_map",
    "records",
    "stats",
]

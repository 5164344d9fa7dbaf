"""How steeply WAL falls with max_wal_size, between two simulated servers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walproof.analysis.whatif import ServerPrediction


def size_mb(server: ServerPrediction) -> int:
    """The server's max_wal_size; 1 where it has none."""
    return server.target.max_wal_size_mb or 1


def slope(smaller: ServerPrediction, larger: ServerPrediction) -> float | None:
    """Percent by which WAL changes where max_wal_size changes by one percent."""
    small, large = smaller.target.max_wal_size_mb, larger.target.max_wal_size_mb
    if small is None or large is None or small >= large or min(smaller.wal_bytes, larger.wal_bytes) <= 0:
        return None
    return math.log(larger.wal_bytes / smaller.wal_bytes) / math.log(large / small)

"""What may follow the unit in a metric's name."""

from __future__ import annotations

QUALIFIERS = {
    "avg", "stddev", "p50", "p95", "p99", "max", "min",  # a statistic
    "start", "end",  # the place of a reading
    "lsn", "decoded", "statements", "explain", "backend", "stat",  # who counted
    "replayed",
}  # fmt: skip

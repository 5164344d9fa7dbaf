"""The conf that pgtune writes for a mixed or OLTP server: many servers have it, and tunings start from it.

From its rules (github.com/le0pard/pgtune, src/features/configuration/configurationSlice.js, 2026-07-30): web,
OLTP and mixed loads are alike except for max_wal_size, where OLTP's value is taken. Only settings of the
write path and of memory that bears on it are included, no planner settings.
"""

from __future__ import annotations

_MB = 1 << 20
_WAL_BUFFERS_MOST = 16 * _MB


def pgtune_conf(memory_bytes: int, version: int) -> dict[str, str]:
    """pgtune's settings for a machine with that much memory and that major version."""
    buffers = memory_bytes // 4
    wal_buffers = min(_WAL_BUFFERS_MOST, buffers * 3 // 100)
    found = {
        "shared_buffers": f"{max(1, buffers // _MB)}MB",
        "wal_buffers": f"{max(1, wal_buffers // _MB)}MB",
        "min_wal_size": "2GB",
        "max_wal_size": "8GB",
        "checkpoint_completion_target": "0.9",
    }
    if version >= 15:
        found["wal_compression"] = "lz4"
    return found

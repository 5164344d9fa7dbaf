"""What clusters take of a disk, for estimates before a run. Bytes."""

from __future__ import annotations

EMPTY_CLUSTER_BYTES = 40 << 20
SCALE_BYTES = 16 << 20
"""pgbench's tables and indexes grow by 15 to 16 MB with each unit of scale (measured, 13 to 18)."""
SEGMENTS_BYTES = 96 << 20
"""Recycled segments (min_wal_size) that every template keeps."""
SEGMENT_BYTES = 16 << 20
ROW_BYTES, ROW_IMAGE_BYTES, ROW_WAL_BYTES = 160, 60, 300
"""A row of the partitioned tables: with its index entry, as its part of a leaf page, and as WAL without
images (measured on 18)."""

"""What clusters take of a disk, for estimates before a run. Bytes."""

from __future__ import annotations

from collections.abc import Mapping

from walproof.settings.catalogue import Catalogue
from walproof.settings.value import parse

_SHARED_BUFFERS = "128MB"
_BUFFER_BYTES = 8192
BACKEND_BYTES = 8 << 20

EMPTY_CLUSTER_BYTES = 40 << 20
SCALE_BYTES = 16 << 20
"""pgbench's tables and indexes grow by 15 to 16 MB with each unit of scale (measured, 13 to 18)."""
SEGMENTS_BYTES = 96 << 20
"""Recycled segments (min_wal_size) that every template keeps."""
SEGMENT_BYTES = 16 << 20
ROW_BYTES, ROW_IMAGE_BYTES, ROW_WAL_BYTES = 160, 60, 300
"""Bytes of a row of the partitioned tables with its index entry, of its part of a leaf page, and of its WAL
without images (measured on 18)."""


def shared_buffers(version_num: int, settings: Mapping[str, str]) -> int:
    """shared_buffers of a server under ``settings``, in buffers of 8 kB."""
    setting = Catalogue.for_version(version_num).get("shared_buffers")
    return int(parse(setting, settings.get("shared_buffers", _SHARED_BUFFERS)))


def server_bytes(version_num: int, settings: Mapping[str, str], clients: int) -> int:
    """Memory of a server under ``settings`` with so many sessions."""
    return shared_buffers(version_num, settings) * _BUFFER_BYTES + clients * BACKEND_BYTES

"""What clusters take of the disk and of memory, for estimates before a run. Bytes."""

from __future__ import annotations

from collections.abc import Mapping

import psutil

from walproof.facts import Plan
from walproof.settings.catalogue import Catalogue
from walproof.settings.value import parse
from walproof.units import format_bytes

_SHARED_BUFFERS = "128MB"
_BUFFER_BYTES = 8192
BACKEND_BYTES = 8 << 20
_SERVERS_SHARE, _CACHED_SHARE = 0.5, 0.75
"""Shares of the machine's memory that servers which are up at once may take, and that they may take together
with their tables, which the kernel caches for each server by itself."""

EMPTY_CLUSTER_BYTES = 40 << 20
SCALE_BYTES = 16 << 20
"""pgbench's tables and indexes grow by 15 to 16 MB with each unit of scale (measured, 13 to 18)."""
SEGMENTS_BYTES = 96 << 20
"""Recycled segments (min_wal_size) that every template keeps."""
SEGMENT_BYTES = 16 << 20
ROW_BYTES, ROW_IMAGE_BYTES, ROW_WAL_BYTES = 160, 60, 300
"""Bytes of a row of the partitioned tables with its index entry, of its part of a leaf page, and of its WAL
without images (measured on 18)."""
WAL_BYTES_PER_S = 200e6
"""More than a load writes for long."""


def shared_buffers(version_num: int, settings: Mapping[str, str]) -> int:
    """shared_buffers of a server under ``settings``, in buffers of 8 kB."""
    setting = Catalogue.for_version(version_num).get("shared_buffers")
    return int(parse(setting, settings.get("shared_buffers", _SHARED_BUFFERS)))


def server_bytes(version_num: int, settings: Mapping[str, str], clients: int) -> int:
    """Memory of a server under ``settings`` with so many sessions."""
    return shared_buffers(version_num, settings) * _BUFFER_BYTES + clients * BACKEND_BYTES


def at_once_bytes(plan: Plan) -> int:
    """Memory of all servers of ``plan`` that take turns; 0 without such."""
    clients = max(workload.clients for workload in plan.workloads)
    each = sum(
        server_bytes(plan.installs[0].version_num, plan.settings_of(variant), clients)
        for variant in plan.sliced
    )
    # Servers of builds and of versions of a load have the same settings.
    return each * (1 if plan.turning == "variant" else len(plan.turns))


def beyond_memory(servers: int, servers_bytes: int, tables_bytes: int) -> str | None:
    """Why so many servers should not be up at once, with their tables cached; None if they can be.

    This depends on the machine's memory, not on what is free: the same is chosen when a plan is resumed.
    """
    there = psutil.virtual_memory().total
    if servers_bytes <= _SERVERS_SHARE * there and servers_bytes + tables_bytes <= _CACHED_SHARE * there:
        return None
    needed = f"{format_bytes(servers_bytes)} of {format_bytes(there)} of memory"
    return f"{servers} servers at once need {needed}, and {format_bytes(tables_bytes)} to cache tables"

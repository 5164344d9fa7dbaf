"""A healthy server's window, and its neighbours: what tests of rules begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from walproof.advise.server.advice import Found
from walproof.advise.server.case import ServerCase
from walproof.advise.server.rules import RULES
from walproof.facts.server import (
    ServerIndex,
    ServerLook,
    ServerSetting,
    ServerSlot,
    ServerTable,
    ServerWindow,
)
from walproof.settings.catalogue import Catalogue
from walproof.settings.value import parse

DAY_S = 86400.0
_BEGAN_S = 1_795_000_000.0
_SHOWN = {
    "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "synchronous_standby_names": "",
    "wal_writer_delay": "200ms", "data_checksums": "on", "autovacuum": "on", "track_counts": "on",
    "max_wal_size": "8GB", "checkpoint_timeout": "15min", "checkpoint_completion_target": "0.9",
    "wal_compression": "lz4", "wal_buffers": "16MB", "commit_delay": "0", "commit_siblings": "5",
    "max_slot_wal_keep_size": "64GB", "archive_mode": "off", "recovery_prefetch": "try",
    "wal_level": "replica", "max_wal_senders": "10", "log_checkpoints": "on", "wal_segment_size": "16MB",
}  # fmt: skip
_COUNTERS = {
    "checkpoints_timed": 900.0, "checkpoints_requested": 10.0, "checkpoint_write_ms": 1e6, "commits": 1e6,
    "wal_fpi": 1000.0, "wal_bytes": 1e9, "wal_buffers_full": 5.0, "wal_flushes": 3e5,
    "wal_flush_ms": 3e5,
    "checksum_failures": 0.0, "archived": 0.0, "archive_failures": 0.0, "next_xid": 2e9,
}  # fmt: skip
_GROWTH = {
    "checkpoints_timed": 1.0, "commits": 50_000.0, "wal_fpi": 500.0, "wal_bytes": 200e6,
    "wal_flushes": 20_000.0, "wal_flush_ms": 20_000.0, "next_xid": 30_000.0,
}  # fmt: skip


def setting(name: str, value: str, version_num: int = 160014, **other: Any) -> ServerSetting:
    """A setting as pg_settings tells it."""
    definition = Catalogue.for_version(version_num).get(name)
    parsed = parse(definition, value)
    base = (
        None
        if isinstance(parsed, str)
        else ("on" if parsed else "off")
        if isinstance(parsed, bool)
        else f"{parsed}"
    )
    return ServerSetting(
        value, None, base, "configuration file", "sighup", is_pending=other.pop("is_pending", False), **other
    )


def healthy(version: str = "16.14", **changes: Any) -> ServerWindow:
    """Ten minutes of a server at which there is nothing to change."""
    major, minor = (int(part) for part in version.split("."))
    version_num = major * 10000 + minor
    catalogue = Catalogue.for_version(version_num)
    settings = {
        name: setting(name, value, version_num)
        for name, value in _SHOWN.items()
        if name in catalogue.settings and not (name == "wal_compression" and major < 15)
    }
    if major < 15:
        settings["wal_compression"] = setting("wal_compression", "on", version_num)
    first = ServerLook(_BEGAN_S, 10 << 30, 9 << 30, _COUNTERS, 4 << 30, 0)
    grown = {name: count + _GROWTH.get(name, 0.0) for name, count in _COUNTERS.items()}
    last = ServerLook(_BEGAN_S + 600, (10 << 30) + 200_000_000, 9 << 30, grown, 4 << 30, 0)
    window = ServerWindow(
        version=version, version_num=version_num, system_identifier="7", database="shop",
        is_in_recovery=False, settings=settings, looks=(first, last), started_at=_BEGAN_S - 30 * DAY_S,
        reset_at=None,
        slots=(ServerSlot("a", "physical", True, False, 1 << 20, "reserved"),),
        tables=(ServerTable("public.t", 1 << 30, False, 10**6, 10**6, 900_000, 0, 10**6, 100),),
        indexes=(ServerIndex("public.t_pkey", "public.t", 1 << 28, 10**6, True, False, 16400),),
        waits={"IO/WALSync": 10, "running": 190},
    )  # fmt: skip
    return replace(window, **changes)


def with_settings(window: ServerWindow, **values: str) -> ServerWindow:
    """The window of a server with other settings."""
    changed = {name: setting(name, value, window.version_num) for name, value in values.items()}
    return replace(window, settings={**window.settings, **changed})


def with_counters(window: ServerWindow, last: Mapping[str, float]) -> ServerWindow:
    """The window with other counters at its end."""
    first, end = window.looks
    return replace(window, looks=(first, replace(end, counters={**end.counters, **last})))


def found(rule: str, window: ServerWindow, **case: Any) -> Found | None:
    """What one rule finds in a window."""
    return RULES[rule](ServerCase(window, **case))


def with_growth(window: ServerWindow, **grown: float) -> ServerWindow:
    """The window in which other counters grew by so much from 0."""
    first, end = window.looks
    begun = replace(first, counters={**first.counters, **dict.fromkeys(grown, 0.0)})
    return replace(window, looks=(begun, replace(end, counters={**end.counters, **grown})))

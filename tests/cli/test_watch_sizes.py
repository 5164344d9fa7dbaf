"""When simulations of a watched server go on, and when they begin anew."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from walproof.analysis.server_limits import ServerLimits, WalKeepers
from walproof.cli import watch_sizes
from walproof.cli.watch_sizes import WatchedSizes
from walproof.observe.feed import FeedBeginning

SETTINGS = {
    "max_wal_size": "1GB", "min_wal_size": "80MB", "checkpoint_timeout": "5min", "full_page_writes": "on",
    "checkpoint_completion_target": "0.9", "data_checksums": "on", "wal_log_hints": "off",
}  # fmt: skip
BEGINNING = FeedBeginning(180004, 7, 1, 16 << 20, 0, 0, "128MB", 10, True, settings=SETTINGS)


def test_a_stream_that_begins_anew_goes_on_with_them() -> None:
    sizes = WatchedSizes(None, None)
    first = sizes.begin(BEGINNING)
    assert first is not None
    assert {target.max_wal_size_mb for target in first.targets} >= {1024, 4096}
    assert sizes.begin(replace(BEGINNING, start=1 << 24)) is first
    assert sizes.begin(replace(BEGINNING, system_identifier=8)) is not first


def test_another_timeline_and_other_settings_begin_anew() -> None:
    sizes = WatchedSizes(None, None)
    first = sizes.begin(BEGINNING)
    second = sizes.begin(replace(BEGINNING, timeline=2))
    assert second is not first
    # A look says less than the beginning of a stream: what it does not say is as it was.
    assert sizes.now({"max_wal_size": "1GB", "shared_buffers": "1GB"}, None) is None
    assert sizes.rolling is second
    sizes.now({"max_wal_size": "2GB"}, None)
    third = sizes.rolling
    assert third is not None
    assert third is not second
    assert 2048 in {target.max_wal_size_mb for target in third.targets}
    assert not sizes.notes


def test_a_value_that_is_not_known_costs_the_curve_alone() -> None:
    sizes = WatchedSizes(None, None)
    assert sizes.begin(replace(BEGINNING, settings={"max_wal_size": "1MB"})) is None
    assert sizes.now(None, None) is None


def test_what_else_keeps_wal_bounds_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ServerLimits] = []

    def ask(found: object, question: object, limits: ServerLimits, *_: object) -> None:
        asked.append(limits)

    monkeypatch.setattr(watch_sizes, "size_curve", ask)
    sizes = WatchedSizes(None, 30 << 30)
    sizes.begin(BEGINNING)
    rolling = SimpleNamespace(answer=lambda: "found", memory_bytes=0, is_overfull=False)
    monkeypatch.setattr(sizes, "_rolling", rolling)
    keepers = WalKeepers(16 << 30, is_shared=True, is_unlimited=True)
    assert sizes.now(SETTINGS, None, keepers) is None
    assert [limits.keepers for limits in asked] == [keepers]
    assert asked[0].wal_disk_bytes == 30 << 30

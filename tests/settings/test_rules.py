"""How settings act on each other: what comes along, what cannot be, what does nothing."""

from __future__ import annotations

import pytest

from walproof.settings.rules import contradictions, imply, notes


@pytest.mark.parametrize(
    ("settings", "implied"),
    [
        ({}, {}),
        ({"wal_level": "logical"}, {}),
        ({"wal_level": "minimal"}, {"max_wal_senders": "0"}),
        ({"WAL_LEVEL": "Minimal"}, {"max_wal_senders": "0"}),
        ({"wal_level": "minimal", "max_wal_senders": "5"}, {}),
        ({"wal_level": "minimal", "Max_wal_senders": "0"}, {}),
    ],
)
@pytest.mark.parametrize("version_num", [130000, 180000])
def test_what_comes_along(settings: dict[str, str], implied: dict[str, str], version_num: int) -> None:
    assert imply(settings, version_num) == implied


@pytest.mark.parametrize(
    ("version_num", "settings", "words"),
    [
        (180000, {}, []),
        (130000, {"wal_level": "minimal"}, []),
        (180000, {"wal_level": "minimal", "max_wal_senders": "1"}, ["max_wal_senders > 0"]),
        (180000, {"wal_level": "minimal", "archive_mode": "always"}, ["archive_mode"]),
        (180000, {"wal_level": "minimal", "archive_mode": "off"}, []),
        (170000, {"wal_level": "minimal", "summarize_wal": "true"}, ["summarize_wal=on"]),
        (170000, {"wal_level": "logical", "summarize_wal": "on", "archive_mode": "on"}, []),
        (180000, {"max_wal_size": "31MB", "min_wal_size": "2"}, ["min_wal_size=2MB", "max_wal_size=31MB"]),
        (180000, {"max_wal_size": "32MB"}, []),
        (180000, {"superuser_reserved_connections": "100"}, ["100 reserved"]),
        (180000, {"max_connections": "10", "reserved_connections": "7"}, ["10 reserved"]),
        (180000, {"max_connections": "11", "reserved_connections": "7"}, []),
        (130000, {"max_connections": "3"}, ["3 reserved"]),
        (
            180000,
            {"wal_level": "minimal", "max_wal_senders": "1", "archive_mode": "on", "summarize_wal": "on"},
            ["max_wal_senders", "archive_mode", "summarize_wal"],
        ),
    ],
)
def test_what_cannot_be_together(version_num: int, settings: dict[str, str], words: list[str]) -> None:
    found = contradictions(settings, version_num)
    assert len(found) == len(words)
    for sentence, word in zip(found, words, strict=True):
        assert word in sentence


def test_larger_segments_need_more_wal() -> None:
    settings = {"max_wal_size": "100MB"}
    assert contradictions(settings, 180000) == []
    found = contradictions(settings, 180000, wal_segment_bytes=64 * 1024**2)
    assert found == ["max_wal_size=100MB is less than two WAL segments of 64 MB."]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, []),
        ({"synchronous_commit": "remote_apply"}, ["waits for the local flush only"]),
        ({"synchronous_commit": "local", "synchronous_standby_names": "a"}, []),
        ({"synchronous_standby_names": "*"}, ["for ever if there is none; a cancel ends the wait"]),
        ({"commit_delay": "10", "fsync": "off"}, ["with fsync=off"]),
        ({"commit_delay": "10", "synchronous_commit": "off"}, ["with synchronous_commit=off"]),
        ({"commit_delay": "10", "commit_siblings": "2"}, []),
        ({"commit_siblings": "2"}, ["commit_siblings does nothing"]),
        ({"wal_compression": "pglz", "full_page_writes": "no"}, ["wal_compression does almost nothing"]),
        ({"wal_compression": "off", "full_page_writes": "no"}, []),
        ({"wal_sync_method": "fsync", "fsync": "0"}, ["wal_sync_method does nothing"]),
        ({"wal_skip_threshold": "1MB"}, ["unless wal_level=minimal"]),
        ({"wal_skip_threshold": "1MB", "wal_level": "minimal"}, []),
        ({"io_workers": "8", "io_method": "sync"}, ["io_workers does nothing"]),
        ({"io_workers": "8"}, []),
    ],
)
def test_what_does_nothing(settings: dict[str, str], words: list[str]) -> None:
    found = notes(settings, 180000)
    assert len(found) == len(words)
    for sentence, word in zip(found, words, strict=True):
        assert word in sentence


@pytest.mark.parametrize("names", ["", "*"])
def test_nothing_is_said_of_standbys_where_commits_wait_for_one(names: str) -> None:
    """A study of failover names its standby itself: the note led its readers to a setting that hangs."""
    settings = {"synchronous_commit": "remote_apply", "synchronous_standby_names": names}
    assert len(notes(settings, 180000)) == 1
    assert notes(settings, 180000, has_synchronous_standby=True) == []


def test_rules_know_what_a_version_lacks() -> None:
    """PostgreSQL 13 has no summarize_wal, reserved_connections or io_method; wal_compression is a boolean."""
    assert contradictions({"wal_level": "minimal"}, 130000) == []
    assert notes({"wal_compression": "on", "full_page_writes": "off"}, 130000) != []

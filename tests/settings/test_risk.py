"""Which configuration may lose what: every class, and the rules of combination."""

from __future__ import annotations

import itertools

import pytest

from walproof.errors import SettingError
from walproof.settings.catalogue import Catalogue, normalise
from walproof.settings.durability import DurabilityClass
from walproof.settings.risk import about, durability_class, other_risks, risk_of

NONE, LAST, CORRUPT = DurabilityClass.NONE, DurabilityClass.LAST_COMMITS, DurabilityClass.CORRUPT


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, NONE),
        ({"synchronous_commit": "off"}, LAST),
        ({"SYNCHRONOUS_COMMIT": "False"}, LAST),
        ({"synchronous_commit": "local"}, NONE),
        ({"synchronous_commit": "remote_write"}, NONE),
        ({"synchronous_commit": "remote_apply"}, NONE),
        ({"synchronous_commit": "on"}, NONE),
        ({"fsync": "off"}, CORRUPT),
        ({"fsync": "n"}, CORRUPT),
        ({"fsync": "on"}, NONE),
        ({"full_page_writes": "off"}, CORRUPT),
        ({"data_sync_retry": "on"}, CORRUPT),
        ({"ignore_checksum_failure": "on"}, CORRUPT),
        ({"zero_damaged_pages": "on"}, CORRUPT),
        ({"ignore_invalid_pages": "on"}, CORRUPT),
        ({"session_replication_role": "replica"}, CORRUPT),
        ({"session_replication_role": "local"}, NONE),
        ({"wal_writer_delay": "10s"}, NONE),
        ({"wal_writer_flush_after": "1GB", "synchronous_commit": "on"}, NONE),
        ({"wal_writer_delay": "10s", "synchronous_commit": "off"}, LAST),
        ({"wal_level": "minimal", "wal_compression": "lz4", "commit_delay": "100000"}, NONE),
        ({"synchronous_commit": "off", "fsync": "off"}, CORRUPT),
        ({"some_extension.fsync": "off"}, NONE),
    ],
)
def test_class_of_a_configuration(settings: dict[str, str], expected: DurabilityClass) -> None:
    assert durability_class(settings) is expected


def test_the_worst_comes_first_and_each_is_named() -> None:
    found = risk_of({"synchronous_commit": "off", "wal_writer_delay": "1s", "fsync": "off"})
    assert [(name, risk) for name, risk, _ in found] == [
        ("fsync", CORRUPT),
        ("synchronous_commit", LAST),
        ("wal_writer_delay", LAST),
    ]
    assert all(sentence.startswith(f"{name}=") for name, _, sentence in found)


def test_a_configuration_risks_no_less_than_its_parts() -> None:
    settings = [
        ("fsync", "off"),
        ("synchronous_commit", "off"),
        ("wal_writer_delay", "1s"),
        ("autovacuum", "off"),
    ]
    for count in range(len(settings) + 1):
        for chosen in itertools.combinations(settings, count):
            whole = durability_class(dict(chosen))
            for part in chosen:
                assert not whole < durability_class(dict([part]))


def test_a_value_that_cannot_be_read_has_no_class() -> None:
    with pytest.raises(SettingError):
        durability_class({"fsync": "perhaps"})


def test_the_table_speaks_of_settings_that_exist() -> None:
    """Names, risky values and conditions are in the catalogue, in the form that values are compared in."""
    known = Catalogue.for_version(180000).settings.keys() | Catalogue.for_version(190000).settings.keys()
    for name, row in about().items():
        assert name in known
        assert (row.durability is NONE) == (not row.risky_values)
        assert row.doc.startswith("https://www.postgresql.org/docs/")
        for value in row.risky_values:
            assert value == "*" or normalise(name, value) == value
        if row.only_with is not None:
            assert normalise(*row.only_with) == row.only_with[1]
        assert row.risk or row.durability is NONE


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("wal_level", "minimal", "base backup"),
        ("archive_mode", "no", "backup"),
        ("archive_command", "", "pg_wal grows"),
        ("archive_command", "/bin/true", "chain"),
        ("archive_command", "/usr/bin/true", "chain"),
        ("archive_library", "", "pg_wal grows"),
        ("max_slot_wal_keep_size", "1GB", "invalidated"),
        ("max_slot_wal_keep_size", "-1", "without limit"),
        ("idle_replication_slot_timeout", "1d", "invalidated"),
        ("SYNCHRONOUS_COMMIT", "local", "failover"),
        ("synchronous_commit", "off", "failover"),
        ("synchronous_commit", "remote_write", "flushed"),
        ("synchronous_standby_names", "", "failover"),
    ],
)
def test_what_a_failover_a_restore_or_a_slot_may_lose_is_told(name: str, value: str, word: str) -> None:
    ((told, risk),) = other_risks({name: value})
    assert told == name.lower()
    assert word in risk


def test_settings_that_risk_nothing_else_are_not_told() -> None:
    safe = {
        "wal_level": "replica", "archive_mode": "on", "archive_command": "cp %p /a/%f",
        "synchronous_commit": "remote_apply", "synchronous_standby_names": "a",
        "idle_replication_slot_timeout": "0", "fsync": "off", "my.own": "x",
    }  # fmt: skip
    assert other_risks(safe) == []

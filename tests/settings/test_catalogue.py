"""Which settings exist in which version, and what is said about those that do not."""

from __future__ import annotations

import pytest

from walproof.errors import SettingError
from walproof.settings.catalogue import Catalogue, as_shown
from walproof.settings.ownership import OWNED
from walproof.settings.value import Context, parse

VERSIONS = [130007, 140002, 150000, 160014, 170006, 180004, 190000]


def catalogue(major: int) -> Catalogue:
    return Catalogue.for_version(major * 10000)


def refusal(major: int, name: str, value: str) -> SettingError:
    with pytest.raises(SettingError) as caught:
        catalogue(major).check(name, value)
    return caught.value


@pytest.mark.parametrize("version_num", VERSIONS)
def test_known_versions(version_num: int) -> None:
    found = Catalogue.for_version(version_num)
    assert found.version == version_num // 10000
    assert len(found.settings) > 300
    assert {"fsync", "max_wal_size", "synchronous_commit"} <= set(found.settings)


@pytest.mark.parametrize("version_num", VERSIONS)
def test_every_boot_value_is_valid(version_num: int) -> None:
    for setting in Catalogue.for_version(version_num).settings.values():
        if setting.context is not Context.INTERNAL:
            parse(setting, setting.boot)


def test_facts_from_the_release_notes() -> None:
    assert catalogue(13).get("checkpoint_completion_target").boot == "0.5"
    assert catalogue(14).get("checkpoint_completion_target").boot == "0.9"
    assert [catalogue(v).get("wal_compression").vartype for v in (13, 14, 15, 18)] == [
        "bool", "bool", "enum", "enum",
    ]  # fmt: skip
    assert catalogue(15).get("wal_compression").build_values == {"lz4", "zstd"}
    assert catalogue(17).get("autovacuum_max_workers").context is Context.RESTART
    assert catalogue(18).get("autovacuum_max_workers").context is Context.RELOAD
    assert catalogue(18).get("effective_io_concurrency").boot == "16"
    assert catalogue(14).get("log_checkpoints").boot == "off"
    assert catalogue(15).get("log_checkpoints").boot == "on"
    assert [catalogue(v).get("jit").boot for v in (18, 19)] == ["on", "off"]
    assert [catalogue(v).get("default_toast_compression").boot for v in (18, 19)] == ["pglz", "lz4"]
    assert catalogue(19).get("effective_wal_level").context is Context.INTERNAL


def test_what_on_means_is_up_to_the_build_from_19_on() -> None:
    """src/include/access/xlog.h, WAL_COMPRESSION_ON."""
    assert [catalogue(v).normalise("wal_compression", "1") for v in (14, 18, 19)] == ["on", "pglz", "on"]


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("synchronous_commit", "session"),
        ("commit_delay", "session (superuser)"),
        ("fsync", "reload"),
        ("wal_level", "restart"),
        ("wal_segment_size", "initdb or build"),
        ("log_connections", "new connection"),
    ],
)
def test_contexts_in_words(name: str, context: str) -> None:
    assert catalogue(18).get(name).context.value == context


def test_case_of_names_is_ignored() -> None:
    assert catalogue(18).get("DateStyle") is catalogue(18).get("datestyle")


def test_newer_than_the_table_is_judged_by_the_newest() -> None:
    assert catalogue(20).settings == catalogue(19).settings


def test_older_than_the_table() -> None:
    with pytest.raises(SettingError, match="PostgreSQL 12 are not known"):
        catalogue(12)


@pytest.mark.parametrize(
    ("major", "name", "message", "detail", "hint"),
    [
        (18, "max_wal_siz", "unrecognized", None, "Did you mean max_wal_size or"),
        (
            16,
            "sumarize_wal",
            "unrecognized",
            None,
            "The similar summarize_wal exists in PostgreSQL 17 to 19",
        ),
        (18, "xyzzy", "unrecognized", None, None),
        (16, "summarize_wal", "does not exist in PostgreSQL 16", "exists from PostgreSQL 17", None),
        (18, "old_snapshot_threshold", "does not exist in PostgreSQL 18", "until PostgreSQL 16", None),
        (18, "force_parallel_mode", "does not exist", "until PostgreSQL 15", "debug_parallel_query replaced"),
        (18, "checkpoint_segments", "unrecognized", None, "max_wal_size replaced it"),
        (19, "io_workers", "does not exist in PostgreSQL 19", "until PostgreSQL 18", "io_max_workers repl"),
    ],
)
def test_unknown_names(major: int, name: str, message: str, detail: str | None, hint: str | None) -> None:
    error = refusal(major, name, "1")
    assert message in error.message
    assert (error.detail is None) == (detail is None)
    assert (detail or "") in (error.detail or "")
    assert (error.hint is None) == (hint is None)
    assert (hint or "") in (error.hint or "")


@pytest.mark.parametrize(
    ("major", "old", "name", "value"),
    [
        (13, "sort_mem", "work_mem", "8MB"),
        (18, "Vacuum_Mem", "maintenance_work_mem", "8MB"),
        (17, "ssl_ecdh_curve", "ssl_ecdh_curve", "prime256v1"),
        (18, "ssl_ecdh_curve", "ssl_groups", "prime256v1"),
    ],
)
def test_old_names_that_servers_still_take(major: int, old: str, name: str, value: str) -> None:
    """They were refused, and with them a postgresql.conf that starts."""
    catalogue(major).check(old, value)
    assert catalogue(major).get(old).name == name


@pytest.mark.parametrize(
    ("major", "name", "value", "hint"),
    [
        (14, "wal_compression", "lz4", "PostgreSQL 15 and newer take this value."),
        (17, "log_connections", "receipt", "PostgreSQL 18 and newer take this value."),
        (18, "wal_compression", "lz5", "Available values: pglz, on, off, lz4, zstd."),
    ],
)
def test_values_of_other_versions(major: int, name: str, value: str, hint: str) -> None:
    assert hint in (refusal(major, name, value).hint or "")


@pytest.mark.parametrize("name", sorted(OWNED))
def test_settings_of_walproof_itself(name: str) -> None:
    assert catalogue(18).get(name).name == name, "it exists"
    error = refusal(18, name.upper(), "1")
    assert error.message == f'parameter "{name}" is set by walproof itself'
    assert error.detail


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("data_checksums", "--data-checksums"),
        ("wal_segment_size", "--wal-segsize"),
        ("block_size", "built"),
        ("server_version", "built or initialised"),
    ],
)
def test_settings_that_cannot_be_set(name: str, hint: str) -> None:
    error = refusal(18, name, "1")
    assert error.message == f'parameter "{name}" cannot be changed'
    assert hint in (error.hint or "")


def test_settings_of_extensions_pass() -> None:
    for name in ("pg_stat_statements.max", "a.b.c"):
        catalogue(18).check(name, "whatever")


@pytest.mark.parametrize("name", ["a..b", ".a", "a.", "1.a", "a b.c"])
def test_names_that_are_no_names(name: str) -> None:
    assert "unrecognized" in refusal(18, name, "1").message


def test_a_good_configuration_passes() -> None:
    good = {"shared_buffers": "1GB", "wal_compression": "yes", "SYNCHRONOUS_COMMIT": "off"}
    for name, value in good.items():
        catalogue(13).check(name, value)


def test_words_as_show_prints_them() -> None:
    """Code that looks for ``fsync=off`` finds it, however it was typed. What only an extension or another
    version reads stays as it is, and so does a number: SHOW would choose its unit."""
    typed = {
        "FSYNC": "no", "synchronous_commit": "FALSE", "hot_standby": "0", "full_page_writes": "of",
        "wal_level": "hot_standby", "wal_compression": "pglz", "recovery_prefetch": "1",
        "datestyle": "ISO", "max_wal_size": "1024", "io_method": "unheard of", "a.b": "no", "unknown": "no",
    }  # fmt: skip
    assert as_shown(typed) == {
        "fsync": "off", "synchronous_commit": "off", "hot_standby": "off", "full_page_writes": "off",
        "wal_level": "replica", "wal_compression": "pglz", "recovery_prefetch": "on",
        "DateStyle": "ISO", "max_wal_size": "1024", "io_method": "unheard of", "a.b": "no", "unknown": "no",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "names_nothing"),
    [
        ("fsync", "off", True),
        ("max_wal_size", "4GB", True),
        ("wal_sync_method", "open_datasync", True),
        ("datestyle", "iso, mdy", True),
        ("debug_io_direct", "data, wal", True),
        ("debug_io_direct", "wal\narchive_command = 'x'", False),
        ("datestyle", "iso\narchive_command = 'x'", False),
        ("archive_command", "cp %p /tmp/%f", False),
        ("shared_preload_libraries", "", False),
        ("max_wal_size", "1GB\narchive_command = 'x'", False),
        ("unix_socket_permissions", "0777", False),
        ("plpgsql.extra_warnings", "all", False),
        ("absent", "1", False),
    ],
)
def test_which_settings_name_no_program(name: str, value: str, names_nothing: bool) -> None:
    assert catalogue(18).names_nothing(name, value) is names_nothing

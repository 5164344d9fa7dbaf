"""Values are read as PostgreSQL reads them; its own wording where it refuses one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walproof.errors import SettingError
from walproof.settings.catalogue import Catalogue, normalise
from walproof.settings.value import Context, Setting, canonical, parse

PG18 = Catalogue.for_version(180003)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_wal_size", "4GB", 4096),
        ("max_wal_size", "4096", 4096),
        ("max_wal_size", " 4 GB ", 4096),
        ("max_wal_size", "0.5GB", 512),
        ("max_wal_size", "1e3", 1000),
        ("max_wal_size", "0x10", 16),
        ("max_wal_size", "010", 8),
        ("shared_buffers", "128MB", 16384),
        ("wal_buffers", "-1", -1),
        ("checkpoint_timeout", "5min", 300),
        ("checkpoint_timeout", "1h", 3600),
        ("wal_writer_delay", "0.2s", 200),
        ("wal_writer_delay", "1499us", 1),
        ("commit_delay", "100000", 100000),
        ("vacuum_cost_delay", "1500us", 1.5),
        ("checkpoint_completion_target", ".9", 0.9),
        ("fsync", "OFF", False),
        ("fsync", "of", False),
        ("fsync", "y", True),
        ("synchronous_commit", "Remote_Apply", "remote_apply"),
        ("synchronous_commit", "0", "off"),
        ("wal_compression", "on", "pglz"),
        ("wal_level", "hot_standby", "replica"),
        ("archive_command", "cp %p /x/%f", "cp %p /x/%f"),
    ],
)
def test_reads(name: str, text: str, value: object) -> None:
    assert parse(PG18.get(name), text) == value


@pytest.mark.parametrize(
    ("name", "text", "message", "hint"),
    [
        ("fsync", "o", 'parameter "fsync" requires a Boolean value', "Boolean values are"),
        ("fsync", "", 'parameter "fsync" requires a Boolean value', "Boolean values are"),
        ("fsync", "2", 'parameter "fsync" requires a Boolean value', "Boolean values are"),
        ("max_wal_size", "lots", 'invalid value for parameter "max_wal_size": "lots"', None),
        ("max_wal_size", "nan", 'invalid value for parameter "max_wal_size": "nan"', None),
        ("max_wal_size", "4gb", 'invalid value for parameter "max_wal_size": "4gb"', '"kB", "MB"'),
        ("max_wal_size", "4s", 'invalid value for parameter "max_wal_size": "4s"', '"kB", "MB"'),
        ("checkpoint_timeout", "5MB", 'invalid value for parameter "checkpoint_timeout": "5MB"', '"min"'),
        ("commit_delay", "10ms", 'invalid value for parameter "commit_delay": "10ms"', "takes no unit"),
        ("max_wal_size", "1e10", 'invalid value for parameter "max_wal_size": "1e10"', "integer range"),
        ("wal_level", "maximal", 'invalid value for parameter "wal_level": "maximal"', "minimal, replica"),
        ("archive_command", "a\nb", 'invalid value for parameter "archive_command": "a\nb"', "line break"),
        (
            "max_wal_size",
            "1",
            '1 MB is outside the valid range for parameter "max_wal_size" (2 MB .. 2147483647 MB)',
            None,
        ),
        (
            "shared_buffers",
            "8kB",
            '8 kB is outside the valid range for parameter "shared_buffers" (128 kB .. 8589934584 kB)',
            None,
        ),
        (
            "checkpoint_completion_target",
            "1.5",
            '1.5 is outside the valid range for parameter "checkpoint_completion_target" (0 .. 1)',
            None,
        ),
    ],
)
def test_refuses(name: str, text: str, message: str, hint: str | None) -> None:
    with pytest.raises(SettingError) as caught:
        parse(PG18.get(name), text)
    assert caught.value.message == message
    assert (hint is None) == (caught.value.hint is None)
    assert (hint or "") in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("max_wal_size", "4GB", "4096MB"),
        ("max_wal_size", "4194304kB", "4096MB"),
        ("shared_buffers", "1GB", "1048576kB"),
        ("wal_buffers", "-1", "-1"),
        ("fsync", "yes", "on"),
        ("wal_compression", "LZ4", "lz4"),
        ("checkpoint_completion_target", "0.90", "0.9"),
        ("commit_delay", "010", "8"),
        ("pg_stat_statements.max", "As Typed", "As Typed"),
    ],
)
def test_equal_values_have_one_form(name: str, text: str, form: str) -> None:
    assert PG18.normalise(name, text) == form
    assert normalise(name, text) == form


# A grammar close to what is valid finds more than plain text does.
NEARLY = st.builds(
    "".join,
    st.lists(st.sampled_from([*"0123456789.-+ exXinfaNkMGTBsuhdm", "inf", "nan", "e9", "999", "on", "off"])),
)


@given(setting=st.sampled_from(sorted(PG18.settings.values(), key=lambda s: s.name)), text=st.text() | NEARLY)
def test_any_text_is_read_or_refused(setting: Setting, text: str) -> None:
    """No text makes the reader fail in another way; what it accepts is in range and has a stable form."""
    if setting.context is Context.INTERNAL:
        return
    try:
        value = parse(setting, text)
    except SettingError:
        return
    if setting.minimum is not None and setting.maximum is not None:
        assert isinstance(value, (int, float))
        assert setting.minimum <= value <= setting.maximum
    form = canonical(setting, text)
    assert canonical(setting, form) == form

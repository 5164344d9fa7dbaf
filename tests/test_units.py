"""Units: what can be read, what is refused, and that text and value agree."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walproof.errors import UnitError
from walproof.units import (
    Lsn,
    format_bytes,
    format_duration,
    format_utc,
    parse_bytes,
    parse_duration_s,
    parse_moment,
)


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_an_lsn_survives_its_text(value: int) -> None:
    assert Lsn.parse(str(Lsn(value))) == value


@pytest.mark.parametrize(("text", "value"), [("0/0", 0), ("1/0", 2**32), ("16/B374D848", 0x16B374D848)])
def test_lsns_are_read_as_postgresql_writes_them(text: str, value: int) -> None:
    assert Lsn.parse(text) == value
    assert str(Lsn(value)) == text


@pytest.mark.parametrize("text", ["", "0", "/", "0/", "0/123456789", "G/0", "0/0/0", "-1/0"])
def test_what_is_no_lsn_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match="invalid LSN"):
        Lsn.parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("4GB", 4 << 30), ("512 kB", 512 << 10), ("8192", 8192), ("1.5MB", 3 << 19), ("1TB", 1 << 40)],
)
def test_sizes(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["4gb", "4 G", "GB", "", "-1", "1e3"])
def test_what_is_no_size_is_refused_with_the_units(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_bytes(text)
    assert "kB, MB, GB" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("5min", 300), ("200ms", 0.2), ("1h", 3600), ("2d", 172800), ("7", 7), (2.5, 2.5)],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["5m", "s", "", "ten"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match="invalid duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.50 kB"),
        (10 << 20, "10.0 MB"),
        (300 << 30, "300 GB"),
        (2**60, "1048576 TB"),
    ],
)
def test_sizes_are_shown_with_three_digits(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00143, "1.43 ms"),
        (12, "12 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (3599.9, "60 min 00 s"),
        (5e-6, "5 us"),
        (-2, "-2 s"),
        (0.9996, "1 s"),
        (0.9994, "999 ms"),
        (0.0009996, "1 ms"),
    ],
)
def test_durations_are_shown_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_time_is_told_in_utc() -> None:
    assert format_utc(0) == "1970-01-01 00:00 UTC"
    assert format_utc(1_700_000_000.9) == "2023-11-14 22:13 UTC"


def test_a_moment_is_a_time_or_how_long_ago() -> None:
    assert parse_moment("2026-11-24T03:00:00+00:00", 0.0) == 1795489200.0
    assert parse_moment("2026-11-24 03:00+02:00", 0.0) == 1795489200.0 - 7200
    assert parse_moment("26h", 1e6) == 1e6 - 26 * 3600
    noon = datetime(2026, 11, 24, 12).timestamp()
    assert parse_moment("11:30", noon) == noon - 1800
    assert parse_moment("12:30:30", noon) == noon + 1830 - 86400, "the last time that it was half past twelve"
    half_past_midnight = datetime(2026, 11, 28, 0, 30, tzinfo=UTC).timestamp()
    assert parse_moment("23:00-05:00", half_past_midnight) == half_past_midnight - 20.5 * 3600
    assert parse_moment("01:00+10:00", half_past_midnight) == half_past_midnight - 9.5 * 3600
    for text in ("noon", "0001-01-01", "2026-13-01", ""):
        with pytest.raises(UnitError, match="is not a time"):
            parse_moment(text, 0.0)


@pytest.mark.parametrize("text", ["9" * 400, "9999999999d", 10**400, float("nan"), float("-inf")])
def test_no_duration_is_beyond_all_use(text: str | float) -> None:
    with pytest.raises(UnitError, match="invalid duration"):
        parse_duration_s(text)


@pytest.mark.parametrize("text", ["9" * 400, "8388608TB"])
def test_no_size_is_beyond_64_bits(text: str) -> None:
    with pytest.raises(UnitError, match="invalid size"):
        parse_bytes(text)

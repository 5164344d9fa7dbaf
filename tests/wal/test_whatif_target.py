"""What settings make of the server that a what-if asks about."""

from __future__ import annotations

import pytest

from walproof.errors import SettingError
from walproof.wal.whatif_target import methods_of, target_of

SEGMENT = 16 << 20


@pytest.mark.parametrize(("version", "value", "method"), [
    (13, "on", "pglz"), (14, "1", "pglz"), (15, "on", "pglz"), (18, "true", "pglz"), (18, "zstd", "zstd"),
    (19, "pglz", "pglz"), (19, "off", "off"), (19, "LZ4", "lz4"),
])  # fmt: skip
def test_compression_is_a_method(version: int, value: str, method: str) -> None:
    assert target_of(version, SEGMENT, [], {"wal_compression": value}).wal_compression == method


@pytest.mark.parametrize("value", ["on", "true", "1"])
def test_from_19_on_the_build_says_what_on_means(value: str) -> None:
    with pytest.raises(SettingError, match="up to the build from PostgreSQL 19 on") as caught:
        target_of(19, SEGMENT, [], {"wal_compression": value})
    assert "zstd" in (caught.value.detail or "")


@pytest.mark.parametrize("version", range(13, 20))
def test_before_15_there_is_one_method(version: int) -> None:
    assert methods_of(version) == (("off", "pglz") if version < 15 else ("off", "pglz", "lz4", "zstd"))

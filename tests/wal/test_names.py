"""Names of operations: every one that a record could have, as pg_waldump of the same version calls it.

Pages of records that have a header and nothing else, one of each resource manager and operation. pg_waldump
with --stats=record names a record by its header alone.
"""

from __future__ import annotations

import struct
from itertools import product
from pathlib import Path

import pytest

from tests.wal.damage import crc32c
from tests.wal.server import BINDIRS
from tests.wal.waldump import Oracle, own_statistics
from walproof.units import Lsn
from walproof.wal import stats

MB = 1024 * 1024
START = Lsn(MB + 40)
MAGICS = {"15": 0xD110, "16": 0xD113, "18": 0xD118, "19": 0xD122}
RESOURCE_MANAGERS = range(22)
XLOG_SWITCH = (0, 0x40)
"""Ends its segment."""


def segment_of(magic: int, kinds: list[tuple[int, int]]) -> bytes:
    """The first page of segment 1 with a record of each kind, which it has room for, and zeros."""
    page = struct.pack("<HHIQI4xQII", magic, 2, 1, MB, 0, 7, MB, 8192)
    prev = 0
    for rmgr, info in kinds:
        head = struct.pack("<IIQBB2x", 24, 0, prev, info, rmgr)
        prev = MB + len(page)
        page += head + crc32c(head).to_bytes(4, "little")
    assert len(page) <= 8192
    return page.ljust(MB, b"\0")


@pytest.mark.live
@pytest.mark.parametrize("version", BINDIRS)
def test_every_operation_has_the_name_that_pg_waldump_gives_it(version: str, tmp_path: Path) -> None:
    named = 0
    for half in (RESOURCE_MANAGERS[:11], RESOURCE_MANAGERS[11:]):
        kinds = [kind for kind in product(half, range(0, 0x100, 0x10)) if kind != XLOG_SWITCH]
        (tmp_path / "000000010000000000000001").write_bytes(segment_of(MAGICS[version], kinds))
        expected, _ = Oracle([str(BINDIRS[version] / "pg_waldump")], tmp_path).statistics(START)
        assert own_statistics(stats(tmp_path, start=START)) == expected
        # All of Generic's have one name; Transaction has a flag among its bits.
        assert len(expected) >= len(kinds) - 15 - 8
        named += sum("UNKNOWN" not in name for name in expected)
    assert named > 115

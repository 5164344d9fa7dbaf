"""Rows of pg_walinspect become WAL: what each text says, and what is refused. Real servers: tests/live."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.records import records
from walproof.wal.told import ToldRecord, ToldWal

SEGMENT = 1 << 20
START = Lsn(5 * SEGMENT + 8192 * 3 + 24)


def _row(lsn: int, **given: object) -> ToldRecord:
    fields: dict[str, object] = {
        "lsn": lsn, "end": lsn + 32, "prev": lsn - 32, "xid": 7, "rmgr": "XLOG", "operation": "NEXTOID",
        "length": 30, "main_length": 4, "image_length": 0, "description": "", "blocks": "",
    }  # fmt: skip
    return ToldRecord(**{**fields, **given})  # type: ignore[arg-type]


def _folder(tmp_path: Path, *pieces: bytes) -> Path:
    (tmp_path / "000000010000000000000005.partial").write_bytes(b"".join(pieces).ljust(SEGMENT, b"\0"))
    return tmp_path


def _blocks(text: str, length: int, images: int, **given: object) -> ToldRecord:
    return _row(START, rmgr="Heap", operation="UPDATE", blocks=text, length=length, image_length=images,
                main_length=14, end=START + 8 * -(-length // 8), **given)  # fmt: skip


def test_blocks_and_images_of_a_text(tmp_path: Path) -> None:
    text = (
        "blkref #0: rel 1663/5/16385 fork main blk 3 (FPW); hole: offset: 212, length: 6652, compression "
        "saved: 1083, method: pglz blkref #1: rel 1663/5/16385 fork vm blk 9 (FPW for WAL verification); "
        "hole: offset: 24, length: 8000 blkref #2: rel 1664/0/1262 fork main blk 0"
    )
    images = (8192 - 6652 - 1083) + 192
    headers = 24 + (4 + 5 + 2 + 12 + 4) + (4 + 5 + 4) + (4 + 12 + 4) + 2
    for data in ((0, 0, 5), None):
        wal = ToldWal(16, 9, 1, SEGMENT, START)
        made = wal.push(
            [_blocks(text, headers + images + 5 + 14, images)], {} if data is None else {START: data}, 0.0
        )
        (record,) = records(_folder(tmp_path, made), start=wal.first)
        first, second, third = record.blocks
        assert (record.rmgr, record.operation, record.lsn, record.xid) == ("Heap", "UPDATE", START, 7)
        assert (first.relation, first.block, first.fork) == (16385, 3, "main")
        assert first.image is not None
        assert second.image is not None
        assert (first.image.length, first.image.compression, first.image.apply) == (457, "pglz", True)
        assert (second.image.length, second.image.hole_offset, second.image.apply) == (192, 24, False)
        assert (third.tablespace, third.database, third.relation, third.image) == (1664, 0, 1262, None)
        # Of several blocks the sum alone is known in 15; it goes to the first that has no image.
        assert [block.data_length for block in record.blocks] == [0, 0, 5]


def test_commits_and_checkpoints_say_when(tmp_path: Path) -> None:
    commit = _row(START, rmgr="Transaction", operation="COMMIT", length=34, main_length=8, end=START + 40,
                  description="2026-11-24 08:18:37.857676+00; inval msgs: relcache 1")  # fmt: skip
    at = START + 40
    checkpoint = _row(
        at, prev=START, operation="CHECKPOINT_ONLINE", length=114, main_length=88, end=at + 120,
        description=f"redo {Lsn(at)}; tli 1; prev tli 1; fpw true; xid 0:728; oid 24576; multi 1; online",
    )  # fmt: skip
    wal = ToldWal(15, 9, 1, SEGMENT, START)
    found = stats(_folder(tmp_path, wal.push([commit, checkpoint], {}, 0.0)), start=START)
    assert found.commits == 1
    assert found.first_commit_at == pytest.approx(1795508317.857676)
    (made,) = found.checkpoints
    assert (made.redo, made.timeline, made.at) == (at, 1, 1795508317)
    assert (wal.first, wal.position, wal.records) == (START, at + 120, 2)


@pytest.mark.parametrize(
    ("version", "operation", "description", "main_data"),
    [
        (15, "MULTI_INSERT", "93 tuples flags 0x02", struct.pack("<BxH", 2, 93)),
        (16, "MULTI_INSERT+INIT", "ntuples: 93, flags: 0x0a, offsets: [45, 46", struct.pack("<BxH", 10, 93)),
        (15, "PRUNE", "latestRemovedXid 0 nredirected 3 ndead 1", struct.pack("<IHH", 0, 3, 1)),
        (16, "PRUNE", "snapshotConflictHorizon: 0, nredirected: 3, ndead: 1,", struct.pack("<IHH", 0, 3, 1)),
        (18, "PRUNE_ON_ACCESS", ", nplans: 0, nredirected: 0, ndead: 1, nunused: 1", b"\0\xc0"),
        (19, "PRUNE_VACUUM_SCAN", "nplans: 1, nredirected: 2, ndead: 0, nunused: 0", b"\x30\0"),
    ],
)
def test_counts_of_main_data(version: int, operation: str, description: str, main_data: bytes) -> None:
    row = _row(START, rmgr="Heap2", operation=operation, description=description, main_length=8, length=34)
    made = ToldWal(version, 9, 1, SEGMENT, START).push([row], {}, 0.0)
    assert made[-14:-6].startswith(main_data)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (_row(START, length=31), "its parts take 30 bytes, expected 31"),
        (_row(START, operation="NEVER"), "unknown operation XLOG/NEVER"),
        (_blocks("blkref #0: rel 1/2/3 fork main blk 4 (NEW)", 62, 8), "rel 1/2/3"),
        (_blocks("blkref #0: relation 1/2/3", 62, 0), "relation 1/2/3"),
    ],
)
def test_what_cannot_be_is_refused(row: ToldRecord, said: str) -> None:
    with pytest.raises(WalError) as refused:
        ToldWal(16, 9, 1, SEGMENT, START).push([row], {}, 0.0)
    assert said in (refused.value.detail or "")


def test_a_hole_is_refused_and_versions_that_are_not_known() -> None:
    wal = ToldWal(16, 9, 1, SEGMENT, START)
    wal.push([_row(START)], {}, 0.0)
    with pytest.raises(WalError) as refused:
        wal.push([_row(START + 40)], {}, 0.0)
    assert str(Lsn(START + 32)) in (refused.value.detail or "")
    with pytest.raises(WalError):
        ToldWal(12, 9, 1, SEGMENT, START)

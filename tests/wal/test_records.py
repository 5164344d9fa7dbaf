"""Records as values, text and frames: three views of the same WAL."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from tests.golden.unpack import VERSIONS, unpack
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import Record, frame, lines, records, stats
from walproof.wal.filter import RecordFilter


@pytest.mark.parametrize("version", VERSIONS)
def test_values_text_and_frame_agree(version: int, tmp_path: Path) -> None:
    unpack(version, tmp_path)
    totals = stats(tmp_path).totals
    found = list(records(tmp_path))
    assert len(found) == totals.records
    assert sum(record.total_length for record in found) == totals.combined_bytes
    assert sum(record.image_bytes for record in found) == totals.image_bytes
    for before, behind in pairwise(found):
        assert behind.prev == before.lsn
        assert behind.lsn >= before.end

    objects = [json.loads(line) for text in lines(tmp_path, style="json") for line in text.splitlines()]
    assert [(record["lsn"], record["operation"], record["xid"]) for record in objects] == [
        (str(record.lsn), record.operation, record.xid) for record in found
    ]
    assert [len(record["blocks"]) for record in objects] == [len(record.blocks) for record in found]
    assert [record["main_data_length"] for record in objects] == [record.main_data_length for record in found]

    table = frame(tmp_path)
    assert table.height == sum(max(1, len(record.blocks)) for record in found)
    assert table["lsn"].n_unique() == len(found)
    assert table["image_length"].sum() == totals.image_bytes
    by_relation = table.drop_nulls("relation").group_by("relation", "fork").agg(pl.col("block").n_unique())
    distinct = {
        (relation.relation, relation.fork): relation.distinct_blocks for relation in stats(tmp_path).relations
    }
    assert {(row[0], row[1]): row[2] for row in by_relation.rows()} == distinct


def test_lines_are_bounded_and_go_on(tmp_path: Path) -> None:
    unpack(18, tmp_path)
    whole = "".join(lines(tmp_path)).splitlines()
    assert "".join(lines(tmp_path, limit=7)).splitlines() == whole[:7]
    assert len(list(lines(tmp_path, limit=5000))) == 1 + (len(whole) > 4096)


@pytest.mark.parametrize("only", [None, RecordFilter(operations=("Heap",))], ids=["all", "some"])
def test_records_before_damage_come_first(only: RecordFilter | None, tmp_path: Path) -> None:
    facts = unpack(16, tmp_path)
    whole = list(records(tmp_path, start=Lsn.parse(facts["start"]), end=Lsn.parse(facts["end"])))
    damaged = whole[300]
    segment = min(tmp_path.iterdir())
    data = bytearray(segment.read_bytes())
    data[damaged.lsn % (1024 * 1024) + 20] ^= 1
    segment.write_bytes(data)
    seen: list[Record] = []
    with pytest.raises(WalError, match=f"checksum in record at {damaged.lsn}"):
        seen.extend(records(tmp_path, start=whole[0].lsn, end=Lsn.parse(facts["end"]), only=only))
    assert seen == [record for record in whole[:300] if only is None or record.rmgr == "Heap"]

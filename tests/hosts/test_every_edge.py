"""An archive that is cut within every kind of record is read as a whole one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from tests.wal.edges import FIRST_HEADER, MB, lay_over_edges
from walproof.hosts.ranges import SegmentRange, cut, list_archive, merge, read_range, unread, whole
from walproof.report.wal.rows import By, json_text, rows
from walproof.wal import WalStats, records, stats


def texts(wal: WalStats) -> list[str]:
    return [json_text(wal, by, rows(wal, by)) for by in By]


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    golden, folder = tmp_path_factory.mktemp("golden"), tmp_path_factory.mktemp("laid")
    unpack(18, golden)
    return folder, lay_over_edges(golden, folder)


def test_every_kind_of_record_lies_over_an_edge(laid: tuple[Path, dict[str, int]]) -> None:
    folder, edges = laid
    assert len(edges) > 60
    over = {f"{r.rmgr}/{r.operation}": r for r in records(folder) if r.lsn // MB != (r.end - 1) // MB}
    for name, edge in edges.items():
        assert over[name].lsn < edge < over[name].end, name


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_ranges_of_any_number_of_workers_give_the_whole(
    laid: tuple[Path, dict[str, int]], workers: int
) -> None:
    folder, _ = laid
    archive = list_archive([folder], None, None, None)
    assert archive is not None
    outcomes = [read_range(range_) for range_ in cut(archive, workers, None, None, None)]
    assert len(outcomes) >= workers
    assert texts(whole(merge(*outcomes)).stats()) == texts(stats(folder))


def test_each_segment_by_itself_gives_the_whole(laid: tuple[Path, dict[str, int]]) -> None:
    """In whatever groups its neighbours are merged."""
    folder, edges = laid
    archive = list_archive([folder], None, None, None)
    assert archive is not None
    alone = [read_range(range_) for range_ in cut(archive, len(archive.segments), None, None, None)]
    assert len(alone) == len(archive.segments) > len(edges)
    wanted = texts(stats(folder))
    for size in (2, 3, 7):
        groups = [alone[first : first + size] for first in range(0, len(alone), size)]
        assert texts(whole(merge(*(merge(*group) for group in groups))).stats()) == wanted


def test_another_byte_on_either_side_of_an_edge_is_found(laid: tuple[Path, dict[str, int]]) -> None:
    """The control: parts on both sides of an edge do not pass for a whole where the record is damaged."""
    folder, edges = laid
    segments = sorted(folder.iterdir())
    for edge in list(edges.values())[::9]:
        left, right = segments[edge // MB - 2], segments[edge // MB - 1]
        for file, place in ((left, MB - 1), (right, FIRST_HEADER)):
            sound = file.read_bytes()
            file.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
            archive = list_archive([folder], None, None, None)
            assert archive is not None
            outcomes = [read_range(range_) for range_ in cut(archive, 4, None, None, None)]
            assert not merge(*outcomes).is_whole, (file.name, place)
            file.write_bytes(sound)


def test_what_no_host_could_read_is_said_with_the_reason(
    laid: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    """One machine reads it, which may take hours."""
    archive = list_archive([laid[0]], None, None, None)
    assert archive is not None
    first, second, *_ = (read_range(range_) for range_ in cut(archive, 4, None, None, None))
    missing = SegmentRange((str(tmp_path / "000000010000000000000001"),), 1, None, None, None, True)
    none = read_range(missing)
    assert none.reason
    said = "the hosts could not read the archive{} ({}): this machine reads it"
    assert unread(merge(none, first)) == said.format("", none.reason)
    since = f" from {whole(first).end} on"
    assert unread(merge(merge(first, second), none)) == said.format(since, none.reason)
    assert unread(merge(first, second)) is None

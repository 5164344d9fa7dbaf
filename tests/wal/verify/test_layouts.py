"""What is found below a folder: each tool's repository, several clusters, a server's pg_wal, other folders of
backups."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from tests.golden.unpack import VERSIONS, unpack
from tests.wal.verify.conftest import Layer
from tests.wal.verify.source import MB, segment_lsn
from walproof.errors import WalError
from walproof.report.wal.verify import print_verification
from walproof.report.wal.verify_prometheus import verification_prometheus
from walproof.report.wal.verify_verdict import verdict
from walproof.units import Lsn
from walproof.wal.verify.verify import verify


@pytest.mark.parametrize(
    ("layout", "place"),
    [
        ("pgBackRest", "archive/main"), ("pgBackRest", "archive/main/18-1"), ("WAL-G", "wal_005"),
        ("Barman", "main"), ("Barman", "main/wals"),
    ],
)  # fmt: skip
def test_a_part_of_a_repository_leads_to_its_backups(layer: Layer, layout: str, place: str) -> None:
    laid = layer(layout, "gz" if layout == "Barman" else "lz4" if layout == "pgBackRest" else "br")
    (found,) = verify([laid.root / place]).archives
    assert (found.layout, found.problems, len(found.windows)) == (layout, (), 2)


def test_several_repositories_below_one_folder(layer: Layer, tmp_path: Path) -> None:
    for layout, ending in (("pgBackRest", "lz4"), ("Barman", "gz"), ("WAL-G", "br")):
        shutil.copytree(layer(layout, ending).root, tmp_path / layout)
    golden = tmp_path / "golden"
    golden.mkdir()
    unpack(18, golden)
    found = verify([tmp_path]).archives
    assert sorted(archive.layout for archive in found) == ["Barman", "WAL-G", "folder", "pgBackRest"]
    assert all(archive.is_whole for archive in found)


@pytest.mark.parametrize("major", VERSIONS)
def test_golden_wal_of_every_version(tmp_path: Path, major: int) -> None:
    """Without a backup there are ranges; the last segment is being written, and that is no fault."""
    facts = unpack(major, tmp_path)
    (found,) = verify([tmp_path]).archives
    assert (found.version, found.segment_size, found.windows) == (major, MB, ())
    assert [problem.kind for problem in found.problems] == ["unfinished"]
    assert found.is_whole
    (run,) = found.ranges
    assert str(run.end) >= facts["end"]
    assert run.last_record is not None


def test_a_servers_pg_wal(layer: Layer, tmp_path: Path) -> None:
    """The last segment is half full; recycled and empty files wait after it."""
    laid = layer("folder", "")
    names = laid.source.names(1)[:6]
    wal = tmp_path / "data" / "pg_wal"
    (wal / "archive_status").mkdir(parents=True)
    (tmp_path / "data" / "PG_VERSION").write_text("18\n")
    for name in names:
        (wal / name).write_bytes(laid.source.segments[name])
    last, recycled, empty = (f"{1:08X}{0:08X}{int(names[-1][16:], 16) + after:08X}" for after in (1, 2, 3))
    newer = laid.source.names(1)[6]
    assert newer == last
    half = laid.source.segments[newer][: MB // 2]
    (wal / last).write_bytes(half + laid.source.segments[names[0]][MB // 2 :])
    (wal / recycled).write_bytes(laid.source.segments[names[1]])
    (wal / empty).write_bytes(bytes(MB))
    (found,) = verify([tmp_path / "data"]).archives
    assert found.layout == "pg_wal"
    assert found.is_whole, found.problems
    assert found.prepared_files == 2
    (run,) = found.ranges
    assert run.end > int(last[16:], 16) * MB


def test_pg_wal_goes_on_where_its_archive_ends(layer: Layer, tmp_path: Path) -> None:
    laid = layer("folder", "")
    wal = tmp_path / "pg_wal"
    (wal / "archive_status").mkdir(parents=True)
    for name in laid.source.names(2)[-4:]:
        (wal / name).write_bytes(laid.source.segments[name])
    for name in laid.source.names(2)[-2:]:
        laid.lose(name)
    (alone,) = verify([laid.root]).archives
    (both,) = verify([laid.root, wal]).archives
    assert both.problems == ()
    assert both.windows[-1].end == laid.source.ends[-1] > alone.windows[-1].end


def test_backups_elsewhere_and_labels_alone(layer: Layer) -> None:
    laid = layer("folder", "")
    shutil.rmtree(laid.root / "backups")
    (labels,) = verify([laid.root]).archives
    assert [window.backup.tool for window in labels.windows] == ["label", "label"]
    stop = laid.source.backups[1].stop
    said = verdict(labels)
    assert said.startswith(
        f"whole: the WAL goes from {labels.ranges[0].start} to {laid.source.ends[-1]} without"
    )
    assert "2 base backups were taken, the last at " in said
    assert said.endswith(f"({stop}), and were not seen (--backups names where they are)")
    assert len({backup.name for backup in labels.backups}) == 2
    metrics = verification_prometheus(verify([laid.root]))
    assert re.search(r"^walproof_archive_backups\{.*\} 0$", metrics, re.MULTILINE)
    assert re.search(r"^walproof_archive_restore_windows\{.*\} 0$", metrics, re.MULTILINE)
    assert re.search(
        r"^walproof_archive_restore_last_timestamp_seconds\{.*\} [0-9.]+$", metrics, re.MULTILINE
    )
    folders = [laid.source.folder / f"backup{number}" for number in (1, 2)]
    (found,) = verify([laid.root], backups=folders).archives
    assert [window.backup.tool for window in found.windows] == ["pg_basebackup", "pg_basebackup"]
    assert [window.end for window in found.windows] == [window.end for window in labels.windows]
    for label in laid.root.glob("*.backup"):
        label.unlink()
    (nothing,) = verify([laid.root]).archives
    assert (nothing.windows, nothing.is_whole) == ((), True)
    empty = laid.root / "empty"
    empty.mkdir()
    (nothing,) = verify([laid.root], backups=[empty]).archives
    assert [problem.message for problem in nothing.problems] == [f"there is no base backup in {empty}"]
    assert verdict(nothing) == "broken, 1 problem: no base backup was found"
    segments = sorted(path for path in laid.root.iterdir() if re.match("[0-9A-F]{24}", path.name))
    segments[len(segments) // 2].unlink()
    (gap,) = verify([laid.root]).archives
    (problem,) = gap.faults
    assert verdict(gap).startswith(f"broken, 1 problem: {problem.message}; no base backup was found")


def test_what_retention_leaves_of_an_older_backup_is_no_gap(layer: Layer) -> None:
    """pgBackRest's repo-retention-archive keeps, of older backups, the WAL from start to stop alone."""
    laid = layer("pgBackRest", "lz4")
    first, second = laid.source.backups
    for name in laid.source.names(1):
        number = int(name[16:], 16)
        if number < first.start // MB or (first.stop - 1) // MB < number < second.start // MB:
            laid.lose(name)
    (found,) = verify([laid.root]).archives
    assert [problem.kind for problem in found.problems] == ["expired"]
    assert found.is_whole
    assert [window.ending.reason for window in found.windows] == ["expired", "newest segment"]
    laid.lose(laid.source.names(1)[-2])
    (found,) = verify([laid.root]).archives
    assert [problem.kind for problem in found.problems] == ["missing", "expired"]


def test_an_archive_that_changes_meanwhile(layer: Layer) -> None:
    """The oldest segments expire, the newest is being copied: neither is a fault."""
    laid = layer("folder", "")
    oldest, newest = laid.source.names(1)[0], laid.source.names(2)[-1]
    laid.change(newest, laid.source.segments[newest][:300_000])

    def observe(done: int, total: int) -> None:
        if laid.files[oldest].exists():  # the first time, before anything is read
            laid.files[oldest].unlink()
            with laid.files[newest].open("ab") as stream:
                stream.write(bytes(100_000))

    (found,) = verify([laid.root], observe=observe).archives
    assert [(problem.kind, problem.segment) for problem in found.problems] == [("changing", newest)]
    assert found.is_whole
    assert [window.end for window in found.windows] == [
        laid.source.end_before(Lsn(int(newest[16:], 16) * MB))
    ] * 2


@pytest.mark.parametrize("layout", ["folder", "Barman"])
def test_a_backup_that_expires_meanwhile(layer: Layer, layout: str) -> None:
    """The older backup's WAL goes before it is read: the backup is not unusable, nor is its WAL lost."""
    laid = layer(layout, "")
    second = laid.source.backups[1]
    old = [name for name in laid.source.names(1) if segment_lsn(name) < second.start - second.start % MB]

    def observe(done: int, total: int) -> None:
        while old:
            laid.lose(old.pop())

    (found,) = verify([laid.root], observe=observe).archives
    assert found.problems == ()
    assert [window.backup.start for window in found.windows] == [second.start]


def test_what_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(WalError, match="could not find any WAL file"):
        verify([tmp_path])
    with pytest.raises(WalError, match="could not open file"):
        verify([tmp_path / "gone"])
    (tmp_path / "note.txt").write_text("x")
    with pytest.raises(WalError, match="is not a WAL segment"):
        verify([tmp_path / "note.txt"])
    with pytest.raises(WalError, match="it is not a folder"):
        verify([tmp_path], backups=[tmp_path / "note.txt"])


def _shown(*roots: Path) -> tuple[str, list[str]]:
    """What is printed of archives, and the series of their metrics."""
    found, shown = verify(roots), io.StringIO()
    print_verification(found, Console(file=shown, width=200))
    metrics = verification_prometheus(found).splitlines()
    return shown.getvalue(), [line.rpartition(" ")[0] for line in metrics if not line.startswith("#")]


def test_two_repositories_of_one_stanza_are_told_apart(layer: Layer) -> None:
    """pgBackRest has the same names in each."""
    first, second = (layer("pgBackRest", "").root for _ in range(2))
    said, series = _shown(first, second)
    for root in (first, second):
        assert f"pgBackRest main 18-1 ({root}/archive/main/18-1) · " in said
    assert len(set(series)) == len(series)
    alone, other = _shown(first), _shown(second)
    assert "pgBackRest main 18-1 · " in alone[0]
    assert not set(alone[1]) & set(other[1])

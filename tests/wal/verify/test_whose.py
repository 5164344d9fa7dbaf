"""What does not say whose it is, beside several clusters: it belongs to the nearest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.golden.unpack import unpack
from tests.wal.verify.conftest import Layer
from tests.wal.verify.source import MB, segment_lsn
from tests.wal.verify.test_hostile import with_checksum
from walproof.wal.verify.verify import verify


def _two_clusters(layer: Layer, folder: Path) -> Path:
    """Two archives; the folder of the second, whose backups do not name their system, as those of versions 13
    to 16 in tar format."""
    first, second = folder / "a", folder / "b"
    first.mkdir()
    unpack(18, first)
    laid = layer("folder", "")
    for number in (1, 2):
        path = laid.files[f"manifest {number}"]
        data = json.loads(path.read_text())
        del data["System-Identifier"]
        laid.write(path, with_checksum({**data, "Files": []}).encode())
        (path.parent / "global" / "pg_control").unlink()
    shutil.copytree(laid.root, second)
    return second


def test_a_backup_belongs_to_the_nearest_archive(layer: Layer, tmp_path: Path) -> None:
    second = _two_clusters(layer, tmp_path)
    found = verify([tmp_path]).archives
    assert [archive.path for archive in found] == [str(tmp_path / "a"), str(second)]
    assert [[one.tool for one in archive.backups] for archive in found] == [[], ["pg_basebackup"] * 2]
    assert [len(archive.windows) for archive in found] == [0, 2]
    # As near to one as to the other, it is nobody's.
    (second / "backups").rename(tmp_path / "backups")
    found = verify([tmp_path]).archives
    kinds = [problem.kind for archive in found for problem in archive.problems]
    assert kinds.count("unassigned backup") == 2
    assert all(one.tool == "label" for archive in found for one in archive.backups)
    assert all(archive.is_whole for archive in found)


def test_a_folder_of_histories_belongs_to_the_nearest_archive(layer: Layer, tmp_path: Path) -> None:
    second = _two_clusters(layer, tmp_path)
    (second / "others").mkdir()
    for path in [*second.glob("*.history"), *second.glob("*.backup")]:
        path.rename(second / "others" / path.name)
    _, found = verify([tmp_path]).archives
    assert found.problems == ()
    assert [window.timeline for window in found.windows] == [2, 2]


def test_the_cluster_after_an_upgrade_counts(layer: Layer) -> None:
    """pg_upgrade gives a cluster another system identifier, and WAL-G goes on below the same prefix: right
    after it, most segments are of the old one."""
    laid = layer("WAL-G", "")
    source, second = laid.source, laid.source.backups[1]
    old = [name for name in source.names(1) if segment_lsn(name) < second.start - second.start % MB]
    late = [name for name in source.names(1) if segment_lsn(name) >= second.stop + MB]
    assert len(old) > len(source.names(1)) - len(late) - len(old)
    for name in [*late, *source.names(2), *source.partials, "00000002.history"]:
        laid.lose(name)
    for name in old:
        segment = source.segments[name]
        laid.change(name, segment[:24] + (42).to_bytes(8, "little") + segment[32:])
    sentinel = laid.files["manifest 1"]
    data = json.loads(sentinel.read_text())
    laid.write(sentinel, json.dumps({**data, "SystemIdentifier": 42}).encode())
    (found,) = verify([laid.root]).archives
    assert found.system_identifier == source.system_identifier
    assert [window.backup.start for window in found.windows] == [second.start]
    assert {problem.kind for problem in found.problems} == {"other system", "other cluster"}
    (note,) = [problem for problem in found.problems if problem.kind == "other cluster"]
    assert f"is of system 42, and the archive is of system {source.system_identifier}" in note.message

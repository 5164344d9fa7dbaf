"""What counts as a base backup, what does not, and what is said when there is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.wal.verify.conftest import Layer, temporary_folder
from tests.wal.verify.restore import recover
from walproof.wal.verify.verify import VerifiedArchive, verify


def _kinds(archive: VerifiedArchive) -> list[str]:
    return [problem.kind for problem in archive.problems]


@pytest.mark.live
def test_the_data_directory_of_a_restored_server_is_no_backup(layer: Layer) -> None:
    """backup_manifest stays where a backup is started: its pg_wal is read, and nothing can be restored
    from it."""
    laid = layer("folder", "")
    shutil.rmtree(laid.root / "backups")
    source = laid.source
    with temporary_folder() as folder:
        laid.root.chmod(0o755)
        data, backup = folder / "data", source.folder / "backup2"
        recover(source.bindir, backup, f'cp "{laid.root}/%f" "%p"', data, {"recovery_target": "immediate"})
        assert (data / "backup_manifest").is_file()
        for label in laid.root.glob("*.backup"):
            label.unlink()
        (found,) = verify([laid.root, data]).archives
        assert (found.backups, found.windows, found.pg_wal) == ((), (), (str(data / "pg_wal"),))
        assert "used backup" in _kinds(found)
        (found,) = verify([laid.root], backups=[data, backup]).archives
        assert [one.path for one in found.backups] == [str(backup)]
        (found,) = verify([data]).archives
        assert (found.layout, found.backups) == ("pg_wal", ())


def test_a_backup_of_a_server_that_was_restored_is_one(layer: Layer, tmp_path: Path) -> None:
    """It has the server's backup_label.old beside its own label; a started one has no label, or a server's
    files."""
    laid = layer("folder", "")
    backup = laid.root / "backups" / "backup2"
    for name in ("PG_VERSION", "backup_label", "backup_label.old"):
        (backup / name).touch()
    (backup / "pg_wal").mkdir()
    assert [one.name for one in verify([laid.root]).archives[0].backups] == ["backup1", "backup2"]
    (backup / "postmaster.opts").touch()
    (found,) = verify([laid.root]).archives
    assert [one.name for one in found.backups] == ["backup1"]
    assert _kinds(found) == ["used backup"]
    assert found.is_whole

"""Backups that hold the WAL which they need, as pg_basebackup takes them: where the archive has it no longer,
they can be restored to their own end."""

from __future__ import annotations

import shutil

import pytest

from tests.wal.verify.conftest import Layer
from tests.wal.verify.layouts import Laid
from tests.wal.verify.source import MB, segment_lsn
from walproof.report.wal.verify_verdict import verdict
from walproof.wal.verify.verify import VerifiedArchive, verify


def _trimmed(layer: Layer) -> Laid:
    """An archive that begins with the WAL of the second backup."""
    laid = layer("folder", "")
    second = laid.source.backups[1].start
    for name in laid.source.names(1):
        if segment_lsn(name) < second - second % MB:
            laid.lose(name)
    return laid


def _found(laid: Laid) -> VerifiedArchive:
    (found,) = verify([laid.root]).archives
    return found


def _kinds(laid: Laid) -> list[str]:
    return [problem.kind for problem in _found(laid).problems]


@pytest.mark.parametrize("name", ["pg_wal.tar", "pg_wal.tar.gz"])
def test_wal_in_a_tar_file(layer: Layer, name: str) -> None:
    laid = _trimmed(layer)
    assert _kinds(laid) == ["backup unusable"]
    (laid.root / "backups" / "backup1" / name).touch()
    found = _found(laid)
    assert [problem.kind for problem in found.problems] == ["own WAL"]
    assert found.is_whole
    assert [window.backup.name for window in found.windows] == ["backup2"]
    shutil.rmtree(laid.root / "backups" / "backup2")
    assert verdict(_found(laid)) == "whole: the backup can be restored, to its own end alone"


def test_wal_in_pg_wal(layer: Layer) -> None:
    """With a manifest and without one; a file that was recycled for later WAL does not count."""
    laid = _trimmed(layer)
    first, backup = laid.source.backups[0], laid.root / "backups" / "backup1"
    (backup / "base.tar").unlink()
    (backup / "PG_VERSION").write_text("18\n")
    shutil.copy(laid.source.folder / "backup1" / "backup_label", backup)
    wal = backup / "pg_wal"
    wal.mkdir()
    assert _kinds(laid) == ["backup unusable"]
    needed = [
        name
        for name in laid.source.names(1)
        if first.start - first.start % MB <= segment_lsn(name) < first.stop
    ]
    for name in needed:
        (wal / name).write_bytes(laid.source.segments[name])
    assert _kinds(laid) == ["own WAL"]
    (backup / "backup_manifest").unlink()
    found = _found(laid)
    assert [one.tool for one in found.backups] == ["files", "pg_basebackup"]
    assert [problem.kind for problem in found.problems] == ["own WAL"]
    (wal / needed[-1]).write_bytes(laid.source.segments[laid.source.names(1)[-1]])
    assert _kinds(laid) == ["backup unusable"]

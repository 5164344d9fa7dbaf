"""Where the versions of Barman keep what they say of backups and WAL, and how it changes meanwhile."""

from __future__ import annotations

import pytest

from tests.wal.verify.conftest import Layer
from tests.wal.verify.layouts import Laid
from walproof.wal.places.place import MOST_FOLDERS, Place
from walproof.wal.verify.layouts import barman
from walproof.wal.verify.layouts.archive import list_files
from walproof.wal.verify.names import ArchiveListing
from walproof.wal.verify.verify import verify


def _as_since_3_13(laid: Laid) -> None:
    """Move descriptions of backups and the catalogue to where Barman 3.13.2 writes them."""
    server = laid.root / "main"
    (server / "meta").mkdir()
    for number in (1, 2):
        path = laid.files[f"manifest {number}"]
        target = server / "meta" / f"{path.parent.name}-backup.info"
        laid.files[f"manifest {number}"] = path.rename(target)
    (server / "wals" / "xlog.db").rename(server / "wals" / "main-xlog.db")


def test_barman_3_13_describes_backups_in_meta(layer: Layer) -> None:
    laid = layer("Barman", "gz")
    (before,) = verify([laid.root]).archives
    _as_since_3_13(laid)
    (found,) = verify([laid.root]).archives
    assert found.problems == ()
    assert (found.backups, found.windows) == (before.backups, before.windows)
    # A description that an older version left beside the data does not count.
    first = laid.files["manifest 1"].name.removesuffix("-backup.info")
    (laid.root / "main" / "base" / first / "backup.info").write_text("status=STARTED\n")
    assert verify([laid.root]).archives[0].windows == before.windows
    # Nor does an older catalogue.
    (laid.root / "main" / "wals" / "xlog.db").write_text("000000010000000000000000\t1048576\t1.0\tNone\n")
    assert verify([laid.root]).archives[0].problems == ()
    # The catalogue under its newer name is read.
    newest = laid.source.names(2)[-1]
    laid.lose(newest)
    (found,) = verify([laid.root]).archives
    assert [(problem.kind, problem.segment) for problem in found.problems] == [("not there", newest)]


def test_a_backup_in_meta_without_its_data_is_unreadable(layer: Layer) -> None:
    laid = layer("Barman", "")
    _as_since_3_13(laid)
    path = laid.files["manifest 2"]
    (laid.root / "main" / "base" / path.name.removesuffix("-backup.info")).rename(laid.root / "elsewhere")
    (found,) = verify([laid.root]).archives
    assert [problem.kind for problem in found.problems] == ["backup unreadable"]
    assert len(found.windows) == 1


def test_what_barman_archives_and_expires_while_files_are_listed(
    layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest segment arrives after its folder was listed, the oldest is gone before: neither is lost."""
    laid = layer("Barman", "gz")
    oldest, newest = laid.source.names(1)[0], laid.source.names(2)[-1]
    catalogue = laid.root / "main" / "wals" / "xlog.db"
    lines = catalogue.read_text().splitlines(keepends=True)

    def write_without(name: str) -> None:
        laid.write(catalogue, "".join(line for line in lines if not line.startswith(name)).encode())

    def list_while_it_changes(folder: Place, depth: int = MOST_FOLDERS) -> ArchiveListing:
        laid.lose(oldest)
        listing = list_files(folder, depth)
        laid.put(newest, laid.source.segments[newest])
        write_without(oldest)
        return listing

    laid.lose(newest)
    write_without(newest)
    monkeypatch.setattr(barman, "list_files", list_while_it_changes)
    (found,) = verify([laid.root]).archives
    assert found.problems == ()
    assert found.last_segment == laid.source.names(2)[-2]

"""What pgBackRest keeps beside the archive: its own tree of backups."""

from __future__ import annotations

import json

from tests.wal.verify.conftest import Layer
from walproof.wal.verify.verify import verify


def test_the_files_of_its_backups_are_no_archive_and_no_backup(layer: Layer) -> None:
    """With ``archive-copy`` a backup has a copy of its WAL; its label may be encrypted."""
    laid = layer("pgBackRest", "gz")
    data = laid.root / "backup" / "main" / "20261123-160001F" / "pg_data"
    (data / "pg_wal").mkdir(parents=True)
    for name in laid.source.names(1)[1:4:2]:
        (data / "pg_wal" / f"{name}.gz").write_bytes(laid.files[name].read_bytes())
    (found,) = verify([laid.root]).archives
    assert (found.layout, found.problems) == ("pgBackRest", ())
    (data / "PG_VERSION").write_text("18\n")
    (data / "backup_label").write_bytes(b"Salted__" + bytes(range(200)))
    (found,) = verify([laid.root]).archives
    assert (found.layout, found.problems) == ("pgBackRest", ())
    assert len(found.backups) == 2


def test_an_offline_backup_is_a_note(layer: Layer) -> None:
    """It has no start and stop, and increments may build on it."""
    laid = layer("pgBackRest", "")
    path = laid.files["manifest 1"]
    offline, first, second = "20261122-160001F", "20261123-160001F", "20261123-160002F"
    entry = {
        "backup-archive-start": None, "backup-archive-stop": None, "backup-timestamp-stop": 1_795_000_000,
        "backup-type": "full", "db-id": 1, "option-online": False,
    }  # fmt: skip
    (path.parent / offline).mkdir()
    text = path.read_text().replace(f"{first}=", f"{offline}={json.dumps(entry)}\n{first}=")
    laid.write(path, text.replace(f"{second}={{", f'{second}={{"backup-prior": "{offline}", ').encode())
    (found,) = verify([laid.root]).archives
    assert [problem.kind for problem in found.problems] == ["offline backup"]
    assert (found.is_whole, len(found.windows)) == (True, 2)
    (path.parent / offline).rmdir()
    (found,) = verify([laid.root]).archives
    assert {problem.kind for problem in found.problems} == {"offline backup", "backup unusable"}

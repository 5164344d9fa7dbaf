"""What counts as a base backup, what does not, and what is said when there is none."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wal.server import BINDIRS, Server
from tests.wal.verify.conftest import Layer, temporary_folder
from tests.wal.verify.layouts import compress
from tests.wal.verify.restore import recover
from tests.wal.verify.source import MB, SETTINGS, segment_lsn
from walproof.errors import WalError
from walproof.privilege.user import running_as, server_user
from walproof.report.wal.verify_verdict import verdict
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


def test_a_manifest_without_its_backup_is_none(layer: Layer) -> None:
    laid = layer("folder", "")
    (laid.root / "backups" / "backup1" / "base.tar").unlink()
    (found,) = verify([laid.root]).archives
    assert [one.name for one in found.backups] == ["backup2"]
    (problem,) = found.problems
    assert problem.kind == "backup unreadable"
    assert problem.message == "there is no base.tar beside it, nor PG_VERSION and global"


def test_a_backup_without_a_manifest_ends_where_its_label_in_the_archive_says(layer: Layer) -> None:
    """``pg_basebackup --no-manifest``, or files that were copied between pg_backup_start and its end."""
    laid = layer("folder", "")
    before = verify([laid.root]).archives[0]
    second = laid.root / "backups" / "backup2"
    for name in ("backup_manifest", "base.tar"):
        (second / name).unlink()
    for name in ("PG_VERSION", "backup_label"):
        shutil.copy(laid.source.folder / "backup2" / name, second)
    (found,) = verify([laid.root]).archives
    assert found.problems == before.problems
    places = [[(one.start, one.end) for one in each.windows] for each in (before, found)]
    assert places[0] == places[1]
    assert [one.tool for one in found.backups] == ["pg_basebackup", "files"]
    # Without that label nothing says where it ends; other backups count.
    for label in laid.root.glob("*.backup"):
        label.unlink()
    (found,) = verify([laid.root]).archives
    assert [one.name for one in found.backups] == ["backup1"]
    assert _kinds(found) == ["endless backup"]
    (second / "backup_label").write_text("START WAL LOCATION: somewhere\n")
    assert _kinds(verify([laid.root]).archives[0]) == ["backup unreadable"]


def test_an_archive_of_which_nothing_may_be_read_is_no_broken_one(
    layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid = layer("folder", "")
    monkeypatch.setattr("walproof.wal.verify.reading.os.access", lambda path, mode: False)
    with pytest.raises(WalError, match="Permission denied") as caught:
        verify([laid.root])
    assert "look as that user" in str(caught.value.hint)


def _unusable(archive: VerifiedArchive) -> list[str]:
    return [problem.message for problem in archive.problems if problem.kind == "backup unusable"]


def test_increments_of_wal_g(layer: Layer) -> None:
    laid = layer("WAL-G", "")
    paths = [laid.files["manifest 1"], laid.files["manifest 2"]]
    first, second = (path.name.removesuffix("_backup_stop_sentinel.json") for path in paths)
    data = json.loads(paths[1].read_text())
    laid.write(paths[1], json.dumps({**data, "DeltaFrom": first, "DeltaFullName": first}).encode())
    (found,) = verify([laid.root]).archives
    assert (found.problems, len(found.windows)) == ((), 2)
    paths[0].unlink()
    (found,) = verify([laid.root]).archives
    assert _unusable(found) == [f"backup {second} is incremental and builds on {first}, which is not there"]
    assert (found.windows, found.is_whole) == ((), False)
    assert verdict(found) == "broken, 1 problem: the backup cannot be restored"
    laid.write(paths[1], json.dumps(data).encode())
    shutil.rmtree(paths[1].parent / second)
    (found,) = verify([laid.root]).archives
    assert (_kinds(found), found.windows) == (["backup unreadable"], ())


def test_increments_of_pgbackrest(layer: Layer) -> None:
    """Each names what it refers to; the last names the middle one alone, as older versions do."""
    laid = layer("pgBackRest", "")
    path = laid.files["manifest 1"]
    lines = path.read_text().splitlines()
    first, second = (line for line in lines if line.startswith("20261123"))
    gone, middle, last = "20261122-160001F", "20261123-160001F", "20261123-160002F"
    kept = [line for line in lines if line not in (first, second)]

    def found_with(*entries: str) -> VerifiedArchive:
        place = kept.index("[backup:current]") + 1
        laid.write(path, "\n".join([*kept[:place], *entries, *kept[place:], ""]).encode())
        (archive,) = verify([laid.root]).archives
        return archive

    after_middle = second.replace('"db-id"', f'"backup-prior": "{middle}", "db-id"')
    assert len(found_with(first, after_middle).windows) == 2
    after_gone = first.replace('"db-id"', f'"backup-reference": ["{gone}"], "db-id"')
    archive = found_with(after_gone, after_middle)
    assert _unusable(archive) == [
        f"backup {middle} is incremental and builds on {gone}, which is not there",
        f"backup {last} is incremental and builds on {middle}, which lacks its own",
    ]
    assert archive.windows == ()
    archive = found_with(after_gone, second)
    assert [window.backup.name for window in archive.windows] == [last]
    assert [problem.later_backup for problem in archive.problems] == [last]


def test_increments_of_barman(layer: Layer) -> None:
    laid = layer("Barman", "")
    first, second = (laid.files[f"manifest {number}"] for number in (1, 2))
    text = second.read_text()
    laid.write(second, f"{text}parent_backup_id={first.parent.name}\n".encode())
    assert len(verify([laid.root]).archives[0].windows) == 2
    laid.write(first, first.read_bytes().replace(b"status=DONE", b"status=FAILED"))
    (found,) = verify([laid.root]).archives
    assert _kinds(found) == ["backup unusable", "failed backup"]
    assert found.windows == ()
    second.unlink()
    (found,) = verify([laid.root]).archives
    assert _kinds(found) == ["no backup", "failed backup"]
    assert [problem.message for problem in found.problems] == [
        "there is no base backup in the repository of Barman",
        f"backup {first.parent.name}: Barman's status is FAILED",
    ]
    laid.write(second, text.encode())
    (found,) = verify([laid.root]).archives
    assert (_kinds(found), len(found.windows), found.is_whole) == (["failed backup"], 1, True)
    shutil.rmtree(second.parent / "data")
    (found,) = verify([laid.root]).archives
    assert "backup unreadable" in _kinds(found)
    assert found.windows == ()
    laid.write(second, f"{text}snapshots_info={{'provider': 'gcp'}}\n".encode())
    assert len(verify([laid.root]).archives[0].windows) == 1


def test_backups_of_one_name_count_each(layer: Layer, tmp_path: Path) -> None:
    """A folder for each day, with ``base`` in it: what is lost between the two is said."""
    laid = layer("folder", "")
    first, second = laid.source.backups
    for day, number in (("2026-11-26", 1), ("2026-11-27", 2)):
        shutil.copytree(laid.root / "backups" / f"backup{number}", tmp_path / "days" / day / "base")
    shutil.rmtree(laid.root / "backups")
    lost = next(name for name in laid.source.names(1) if first.stop < segment_lsn(name) < second.start - MB)
    laid.lose(lost)
    (found,) = verify([laid.root], backups=[tmp_path / "days"]).archives
    names = ["2026-11-26/base", "2026-11-27/base"]
    assert [window.backup.name for window in found.windows] == names
    assert [problem.later_backup for problem in found.problems] == names[1:]
    said = verdict(found)
    assert said.startswith("broken, 1 problem: no restore to moments between ")
    assert f" to {laid.source.end_before(segment_lsn(lost))}, and from " in said.replace(")", "")
    days = tmp_path / "days"
    (twice,) = verify([laid.root, days], backups=[days, days / "2026-11-27"]).archives
    assert [backup.name for backup in twice.backups] == names


@pytest.fixture(scope="module")
def increments() -> Iterator[Path]:
    """``archive`` and ``backups``: a full backup, and increments, each of the one before, in each form."""
    with temporary_folder() as folder:
        archive, backups = folder / "archive", folder / "backups"
        user = server_user()
        for place in (archive, backups):
            place.mkdir()
            if user is not None:
                shutil.chown(place, user.uid, user.gid)
        settings = {**SETTINGS, "summarize_wal": "on", "archive_command": f"cp %p {archive}/%f"}
        before: list[str] = []
        with Server(BINDIRS["18"], settings, segment_mb=1) as server:
            for name, options in FORMS.items():
                with server.connect() as connection:
                    connection.execute(f"CREATE TABLE {name} AS SELECT generate_series(1, 100)")
                taken = subprocess.run(
                    [str(server.bindir / "pg_basebackup"), "-h", str(server.folder), "-U", "postgres", "-D",
                     str(backups / name), "-X", "none", "--checkpoint=fast", "--no-sync", *options, *before],
                    capture_output=True, text=True, check=False, cwd="/", **running_as(user),
                )  # fmt: skip
                assert taken.returncode == 0, taken.stderr
                before = [f"--incremental={backups / name / 'backup_manifest'}"]
            server.stop()
        plain = backups / "lz4" / "base.tar"  # not every build of pg_basebackup packs with lz4
        (backups / "lz4" / "base.tar.lz4").write_bytes(compress(plain.read_bytes(), "lz4"))
        plain.unlink()
        yield folder


FORMS = {
    "whole": (), "plain": (), "tar": ("--format=tar",), "gzip": ("--format=tar", "--compress=client-gzip"),
    "lz4": ("--format=tar",),
}  # fmt: skip
"""Each backup's name, and how it is taken."""


@pytest.mark.live
def test_increments_of_pg_basebackup(increments: Path, tmp_path: Path) -> None:
    """The label of each says where the one before begins; in tar format it stands first, and where that is
    packed by other than gzip, the label in the archive tells."""
    shutil.copytree(increments, tmp_path, dirs_exist_ok=True)
    (found,) = verify([tmp_path]).archives
    assert [backup.name for backup in found.backups] == list(FORMS)
    assert (_unusable(found), len(found.windows)) == ([], len(FORMS))
    starts = {backup.name: backup.start for backup in found.backups}
    for label in (tmp_path / "archive").glob("*.backup"):
        label.unlink()
    (found,) = verify([tmp_path]).archives
    assert _unusable(found) == [
        "backup lz4 is incremental and builds on a backup that only its label names, which could not be read"
    ]
    shutil.rmtree(tmp_path / "backups" / "plain")
    (found,) = verify([tmp_path]).archives
    assert [window.backup.name for window in found.windows] == ["whole"]
    why = [f"the backup that begins at {starts[name]} on timeline 1" for name in ("plain", "tar")]
    assert _unusable(found)[:2] == [
        f"backup tar is incremental and builds on {why[0]}, which is not there",
        f"backup gzip is incremental and builds on {why[1]}, which lacks its own",
    ]
    assert not found.is_whole


def test_labels_of_one_segment_are_told_apart(layer: Layer) -> None:
    laid = layer("folder", "")
    shutil.rmtree(laid.root / "backups")
    (label, _) = sorted(laid.root.glob("*.backup"))
    text = label.read_text()
    start = text.partition("START WAL LOCATION: ")[2].partition(" ")[0]
    later = f"{start[:-2]}70"
    (laid.root / f"{label.name[:24]}.00000070.backup").write_text(text.replace(start, later))
    (found,) = verify([laid.root]).archives
    assert [backup.name for backup in found.backups][:2] == [
        label.name, f"{label.name[:24]}.00000070.backup",
    ]  # fmt: skip
    assert len(found.windows) == 3
    assert verdict(found).count("3 base backups were taken, the last at ") == 1

"""``walproof wal verify`` as a user types it: verdict, exit status, JSON, metrics, errors."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.golden.unpack import unpack
from tests.schemas import assert_valid
from tests.wal.damage import GoldenWal
from tests.wal.places.archive import golden_source


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    unpack(18, folder)
    return folder


def _damage(wal: Path, tmp_path: Path) -> str:
    """Change a record in the second segment; its name."""
    other = tmp_path / "other"
    other.mkdir()
    golden = GoldenWal(18, other)
    name = sorted(golden.segments)[1]
    data = bytearray(golden.segments[name])
    data[20 * 8192 + 4000] ^= 1
    (wal / name).write_bytes(data)
    return name


def test_a_whole_archive(wal: Path, tmp_path: Path) -> None:
    done = walproof("wal", "verify", "archive", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()[:2]
    assert first.startswith("whole: the WAL goes from 0/800000 to 0/A1")
    assert "no base backup was found" in first
    assert "PostgreSQL 18" in second
    data = json.loads(walproof("wal", "verify", "--json", "archive", cwd=tmp_path).stdout)
    assert_valid("wal-verify", data)
    assert data["whole"] is True
    (archive,) = data["archives"]
    assert archive["verdict"] == first
    assert [problem["kind"] for problem in archive["problems"]] == ["unfinished"]


def test_a_reader_that_leaves_changes_no_verdict(wal: Path, tmp_path: Path) -> None:
    """``walproof wal verify ... | head -1``"""
    _damage(wal, tmp_path)
    for options in ((), ("--json",)):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "walproof", "wal", "verify", *options, "archive"],
                stdout=writer, stderr=subprocess.PIPE, cwd=tmp_path, check=False, timeout=120,
            )  # fmt: skip
        finally:
            os.close(writer)
        assert (done.returncode, done.stderr) == (1, b"")


def test_a_broken_archive(wal: Path, tmp_path: Path) -> None:
    name = _damage(wal, tmp_path)
    done = walproof("wal", "verify", "archive", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("broken, 1 problem")
    assert f"file {wal / name}" in done.stdout
    assert "A restore that reaches this place ends there." in done.stdout
    assert "-> Replace the file" in done.stdout
    (archive,) = json.loads(walproof("wal", "verify", "--json", "archive", cwd=tmp_path).stdout)["archives"]
    problem = archive["problems"][0]
    assert (problem["kind"], problem["segment"], problem["severity"]) == ("damaged", name, "error")
    assert re.fullmatch(r"0/92[0-9A-F]{4}", problem["lsn"])
    ends = [span["ended_by"]["reason"] for span in archive["ranges"]]
    assert ends == ["damaged", "newest segment"]


def test_what_is_not_known_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "000000010000000000000009").write_bytes(b"no WAL")
    done = walproof("wal", "verify", "archive", cwd=tmp_path)
    assert done.returncode == 1
    assert "PostgreSQL of an unknown version · system identifier not known · segments" in done.stdout


def test_metrics(wal: Path, tmp_path: Path) -> None:
    """Prometheus' text format: each metric with help and type, each sample once."""
    _damage(wal, tmp_path)
    done = walproof("wal", "verify", "archive", "--prometheus", "walproof.prom", cwd=tmp_path)
    assert done.returncode == 1
    # For node_exporter, which is another user.
    assert stat.S_IMODE((tmp_path / "walproof.prom").stat().st_mode) == 0o644
    lines = (tmp_path / "walproof.prom").read_text().splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert all(
        re.fullmatch(r'walproof_archive_[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [-0-9.e+]+', sample)
        for sample in samples
    )
    assert len({sample.rsplit(" ", 1)[0] for sample in samples}) == len(samples)
    named = {sample.split("{")[0].split(" ")[0] for sample in samples}
    assert {line.split()[2] for line in lines if line.startswith("# TYPE")} >= named
    labels = f'archive="{wal}",layout="folder",path="{wal}"'
    assert f"walproof_archive_whole{{{labels}}} 0" in samples
    assert f'walproof_archive_problems{{{labels},kind="damaged"}} 1' in samples
    assert f'walproof_archive_problems{{{labels},kind="missing"}} 0' in samples


def test_metrics_that_cannot_be_written_take_no_verdict_along(wal: Path, tmp_path: Path) -> None:
    name = _damage(wal, tmp_path)
    done = walproof("wal", "verify", "archive", "--prometheus", "/dev/full", cwd=tmp_path)
    assert done.returncode == 2
    assert name in done.stdout
    assert 'could not write metrics "/dev/full": No space left on device' in done.stderr


def test_nightly(wal: Path, tmp_path: Path) -> None:
    arguments = ("wal", "verify", "archive", "--kept", "kept", "--json")
    first, second = (json.loads(walproof(*arguments, cwd=tmp_path).stdout)["archives"][0] for _ in range(2))
    assert (first["read_files"], second["read_files"], second["kept_files"]) == (3, 0, 3)
    again = json.loads(walproof(*arguments, "--again", cwd=tmp_path).stdout)["archives"][0]
    assert (again["read_files"], again["kept_files"]) == (3, 0)
    since = walproof("wal", "verify", "archive", "--json", "--since", "0/900000", cwd=tmp_path)
    assert json.loads(since.stdout)["archives"][0]["skipped_files"] == 1
    hours = walproof("wal", "verify", "archive", "--json", "--since", "26h", cwd=tmp_path)
    assert json.loads(hours.stdout)["archives"][0]["skipped_files"] == 0


def test_backups_that_lie_elsewhere_count(wal: Path, tmp_path: Path) -> None:
    """One of files that were copied: its end is told by the label in the archive."""
    source = golden_source(wal)
    ((name, label),) = source.labels.items()
    (wal / name).write_bytes(label)
    backup = tmp_path / "elsewhere" / "nightly"
    (backup / "global").mkdir(parents=True)
    (backup / "global" / "pg_control").write_bytes(source.system_identifier.to_bytes(8, "little"))
    (backup / "PG_VERSION").write_text("18\n")
    (backup / "backup_label").write_bytes(label)
    for words, is_there in (((), False), (("--backups", "elsewhere/nightly"), True)):
        done = walproof("wal", "verify", "archive", *words, "--json", cwd=tmp_path)
        (archive,) = json.loads(done.stdout)["archives"]
        assert ("nightly" in [found["name"] for found in archive["backups"]]) == is_there, done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone"], 'could not open file "gone"'),
        (["archive", "--since", "yesterday"], '"yesterday" is not an LSN, a segment or a time'),
        (["archive", "--since", "0001-01-01"], '"0001-01-01" is not an LSN'),
        (["archive", "--again"], "--again needs --kept"),
        (["archive", "--kept", "archive"], "could not use kept results"),
        (["archive", "--prometheus", "gone/x.prom"], "could not write metrics"),
        (["archive", "--backups", "gone"], 'could not open directory "gone"'),
    ],
)
def test_mistakes(wal: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = walproof("wal", "verify", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"walproof: error: {message}"), done.stderr
    assert "Traceback" not in done.stderr


def test_names_cannot_speak_to_the_terminal(wal: Path, tmp_path: Path) -> None:
    """A folder's name is somebody else's."""
    name = _damage(wal, tmp_path)
    folder = tmp_path / "evil\x1b[31m[bold]x"
    wal.rename(folder)
    done = walproof("wal", "verify", str(folder), cwd=tmp_path)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert name in done.stdout

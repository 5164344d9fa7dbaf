"""``walproof wal strip``: the copy says what the WAL says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.golden.unpack import unpack
from walproof.sentences import say_count
from walproof.units import Lsn
from walproof.wal.images import IMAGES_FILE
from walproof.wal.recording import RECORDING_FILE, RELATIONS_FILE, Position, Recording, write_recording


@pytest.fixture(scope="module")
def wal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wal16")
    unpack(16, folder)
    position = Position(0.0, Lsn(0))
    write_recording(folder, Recording(1, 160000, 1, 1 << 20, {}, position, position, (), "time"))
    (folder / RELATIONS_FILE).write_text("{}")
    return folder


def whatif(folder: Path, *others: str) -> dict[str, object]:
    done = walproof("wal", "whatif", str(folder), *others, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert isinstance(data, dict)
    return data


def close(prediction: dict[str, object]) -> dict[str, object]:
    """Numbers alone. Images are sampled anew where files are stripped apart, and ranges hold that error."""
    return {name: value for name, value in prediction.items() if isinstance(value, int | float)}


def test_the_copy_says_what_the_wal_says(wal: Path, tmp_path: Path) -> None:
    done = walproof("wal", "strip", str(wal), "--to", str(tmp_path / "copy"), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    files = sorted(path.name for path in (tmp_path / "copy").iterdir())
    assert files == [*(f"{path.name}.zst" for path in sorted(wal.glob("0*"))), IMAGES_FILE, RECORDING_FILE]
    assert said["written_bytes"] == sum(path.stat().st_size for path in (tmp_path / "copy").glob("*.zst"))
    assert said["written_bytes"] < 0.2 * sum(path.stat().st_size for path in wal.glob("0*"))
    texts = [
        walproof("wal", "stats", str(folder), "--by", "relation", "--json", cwd=tmp_path).stdout
        for folder in (wal, tmp_path / "copy")
    ]
    assert texts[0] == texts[1]
    before, after = whatif(wal), whatif(tmp_path / "copy")
    assert before["recorded"] == after["recorded"]
    assert before["reasons"] == after["reasons"]
    # What wal_compression would save is told by the images that were compressed before they were blanked out.
    for prediction, other in zip(before["predictions"], after["predictions"], strict=True):  # type: ignore[call-overload]
        assert prediction["settings"] == other["settings"]
        expected = prediction["wal_bytes"]
        assert other["wal_bytes"] == pytest.approx(expected, rel=0.02)
        if prediction["settings"]["wal_compression"] == "as recorded":
            assert close(prediction) == pytest.approx(close(other), rel=1e-3)
    (tmp_path / "copy" / IMAGES_FILE).unlink()
    after = whatif(tmp_path / "copy")
    wanted = [
        prediction
        for prediction in before["predictions"]  # type: ignore[attr-defined]
        if prediction["settings"]["wal_compression"] == "as recorded"
    ]
    assert [close(prediction) for prediction in after["predictions"]] == [  # type: ignore[attr-defined]
        pytest.approx(close(prediction), rel=1e-3) for prediction in wanted
    ]
    assert any("stripped of contents" in reason for reason in after["reasons"])  # type: ignore[attr-defined]


def test_parts_are_read_together(wal: Path, tmp_path: Path) -> None:
    first, *others = sorted(wal.glob("0*"))
    for name, files in (("one", [first]), ("two", others)):
        done = walproof("wal", "strip", *map(str, files), "--to", str(tmp_path / name), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"{say_count(len(files), 'segment')}, " in done.stdout
    apart = whatif(tmp_path / "one", str(tmp_path / "two"))
    done = walproof("wal", "strip", str(wal), "--to", str(tmp_path / "all"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole = whatif(tmp_path / "all")
    for prediction, other in zip(apart["predictions"], whole["predictions"], strict=True):  # type: ignore[call-overload]
        assert close(prediction) == pytest.approx(close(other), rel=1e-3)


def test_mistakes(wal: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    shutil.copytree(wal, full)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for arguments, message in (
        ([str(wal), "--to", str(full)], "is not empty"),
        (["empty", "--to", "new"], "could not find any WAL file"),
        ([str(wal), "--to", "file"], "could not use folder"),
        ([str(wal), "--to", "/proc/none"], "could not use folder"),
    ):
        done = walproof("wal", "strip", *arguments, cwd=tmp_path)
        assert done.returncode == 2, (arguments, done.stderr)
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    done = walproof("wal", "strip", str(wal), "--to", "copy", cwd=tmp_path)
    assert done.returncode == 0
    done = walproof("wal", "whatif", "copy", "--set", "wal_compression=lz4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    images = tmp_path / "copy" / IMAGES_FILE
    for damage in ("{", '{"format": 1, "nanoseconds": [0, 0, -1], "forks": []}'):
        images.write_text(damage)
        done = walproof("wal", "whatif", "copy", cwd=tmp_path)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert "is damaged" in done.stderr
    images.unlink()
    done = walproof("wal", "whatif", "copy", "--set", "wal_compression=lz4", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot tell what wal_compression would save" in done.stderr

"""``walproof wal whatif`` as a user types it; every mistake is one clear error with status 2."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.analysis.calibrations import calibrated
from tests.cli.command import walproof
from tests.golden.unpack import unpack
from tests.schemas import assert_valid
from walproof.facts.calibration import write_calibration
from walproof.units import Lsn
from walproof.wal.recording import Position, Recording, write_recording


@pytest.fixture(scope="module")
def wal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wal18")
    unpack(18, folder)
    return folder


def test_a_terminal_and_a_page(wal: Path, tmp_path: Path) -> None:
    done = walproof(
        "wal", "whatif", str(wal), "--set", "max_wal_size=4GB,wal_compression=lz4", "--wal-disk", "2GB",
        "--present", "max_wal_size=128MB,checkpoint_timeout=30s", "--html", "page.html", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    for expected in (
        "max_wal_size = ", "the least WAL at checkpoint_timeout = 30s. It", "128 MB *",
        "full_page_writes = off", "zstd", "explains", "24 % of the images were written because a hint bit",
    ):  # fmt: skip
        assert expected in said, expected
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 1
    # Every point says what it is.
    assert re.search(r"<title>30 s, 128 MB: [0-9.,]+ [kMG]B/h</title>", page), re.findall(
        "<title>.*?</title>", page
    )
    assert "http://" not in page.replace("http://www.w3.org/", "")


def test_json(wal: Path, tmp_path: Path) -> None:
    done = walproof("wal", "whatif", str(wal), "--json", "--wal-per-hour", "1TB", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["answer"]["is_within"] is True
    assert data["answer"]["line"].startswith("max_wal_size = ")
    assert data["recorded"]["explained_share"] > 0.99
    for prediction in data["predictions"]:
        assert prediction["wal_bytes_low"] <= prediction["wal_bytes"] <= prediction["wal_bytes_high"]
        assert prediction["confidence"] in ("high", "medium", "low")


def test_no_more_pages_are_followed_than_asked_for(wal: Path, tmp_path: Path) -> None:
    done = walproof("wal", "whatif", str(wal), "--pages", "1000", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["recorded"]["held_pages"] <= 1000


def test_a_recording_knows_its_server(wal: Path, tmp_path: Path) -> None:
    shutil.copytree(wal, tmp_path / "recording")
    settings = {
        "max_wal_size": "3GB", "checkpoint_timeout": "10min", "full_page_writes": "on",
        "min_wal_size": "80MB", "wal_compression": "pglz", "wal_level": "replica",
    }  # fmt: skip
    position = Position(0.0, Lsn(0))
    write_recording(
        tmp_path / "recording",
        Recording(1, 180004, 1, 1 << 20, settings, position, position, (), "time"),
    )
    done = walproof("wal", "whatif", "recording", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    present = json.loads(done.stdout)["present"]
    assert present["is_known"] is True
    assert (present["max_wal_size_mb"], present["checkpoint_timeout_s"]) == (3072, 600)
    assert present["wal_compression"] == "as recorded"
    done = walproof("wal", "whatif", "recording", "--json", "--present", "max_wal_size=5GB", cwd=tmp_path)
    assert json.loads(done.stdout)["present"]["max_wal_size_mb"] == 5120


def test_limits_that_nothing_keeps_to(wal: Path, tmp_path: Path) -> None:
    done = walproof("wal", "whatif", str(wal), "--wal-per-hour", "1MB", cwd=tmp_path)
    assert done.returncode == 1
    assert "No setting tried keeps within" in done.stdout


def test_a_calibration_of_another_machine_is_taken_where_it_is_meant(wal: Path, tmp_path: Path) -> None:
    write_calibration(tmp_path / "theirs.json", calibrated(version="18.1"))
    asked = ("wal", "whatif", str(wal), "--recovery-target", "60s", "--calibration", "theirs.json", "--json")
    done = walproof(*asked, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--other-machine predicts for that one" in done.stderr
    done = walproof(*asked, "--other-machine", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["answer"]["recovery_s"] > 0


def test_mistakes(wal: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    cases = [
        (["--set", "shared_buffers=1GB"], 'what-if says nothing of "shared_buffers"', "max_wal_size"),
        (["--set", "max_wal_sise=1GB"], "unrecognized configuration parameter", "Did you mean"),
        (["--set", "max_wal_size=1XB"], "max_wal_size", "hint:"),
        (["--set", "max_wal_size=1MB"], "max_wal_size", "2"),
        (["--set", "checkpoint_timeout=1s"], "checkpoint_timeout", "30"),
        (["--set", "wal_compression=brotli"], "wal_compression", "lz4"),
        (["--set", "max_wal_size"], "is not a setting", "name=value"),
        (["--set", "wal_log_hints=off"], 'whether "data_checksums" is on is not known', "both off"),
        (["--set", "data_checksums=maybe"], "data_checksums", "Boolean"),
        (["--wal-disk", "many"], 'invalid size: "many"', "GB"),
        (["--wal-disk", "0"], "above zero", "Sizes are written like"),
        (["--pages", "10"], "a sample of 10 pages says too little", "Hold 1,000 at least"),
        (["--start", "x"], 'invalid LSN: "x"', "hexadecimal"),
        (["--start", "7/0"], "could not find WAL segment", "7/0"),
    ]
    for options, message, hint in cases:
        done = walproof("wal", "whatif", str(wal), *options, cwd=tmp_path)
        assert done.returncode == 2, (options, done.stdout[-300:], done.stderr)
        assert message in done.stderr, (options, done.stderr)
        assert hint in done.stderr, (options, done.stderr)
        assert "Traceback" not in done.stderr
    done = walproof("wal", "whatif", "empty", cwd=tmp_path)
    assert done.returncode == 2
    assert "could not find any WAL file in" in done.stderr


def test_hint_bits_can_be_taken_out_but_not_put_in(wal: Path, tmp_path: Path) -> None:
    off = "data_checksums=off,wal_log_hints=off"
    done = walproof("wal", "whatif", str(wal), "--set", off, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert_valid("wal-whatif", data)
    size = data["present"]["max_wal_size_mb"]
    with_hints, without = (
        next(
            prediction
            for prediction in data["predictions"]
            if prediction["settings"]["hint_records"] is has
            and prediction["settings"]["max_wal_size_mb"] == size
            and prediction["settings"]["checkpoint_timeout_s"] == data["present"]["checkpoint_timeout_s"]
            and prediction["settings"]["wal_compression"] == "as recorded"
            and prediction["settings"]["full_page_writes"]
        )
        for has in (True, False)
    )
    assert without["images"] < with_hints["images"]
    assert without["wal_bytes"] < with_hints["wal_bytes"]
    # The first records of it, before a hint bit was logged.
    first = Lsn.parse(data["start"])
    end = str(Lsn(first + 3000))
    done = walproof("wal", "whatif", str(wal), "--end", end, "--set", "wal_log_hints=on", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot tell what hint bits would write" in done.stderr


def test_before_15_compression_is_on_or_off(tmp_path: Path) -> None:
    folder = tmp_path / "wal13"
    folder.mkdir()
    unpack(13, folder)
    done = walproof("wal", "whatif", str(folder), "--set", "wal_compression=on", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    asked = json.loads(done.stdout)["predictions"]
    methods = {setting["settings"]["wal_compression"] for setting in asked}
    assert methods == {"as recorded", "off", "pglz"}
    done = walproof("wal", "whatif", str(folder), "--set", "wal_compression=lz4", cwd=tmp_path)
    assert done.returncode == 2
    assert "PostgreSQL 15 and newer take this value" in done.stderr


def test_a_recovery_target(wal: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    within = walproof(
        "wal", "whatif", str(wal), "--json", "--recovery-target", "60s", "--shared-buffers", "64MB",
        cwd=tmp_path, WALPROOF_DATA=data,
    )  # fmt: skip
    assert within.returncode == 0, within.stderr
    answered = json.loads(within.stdout)
    assert_valid("wal-whatif", answered)
    assert 0 < answered["answer"]["recovery_s"] <= 60
    for prediction in answered["predictions"]:
        assert prediction["recovery_s"] > 0
    impossible = walproof(
        "wal", "whatif", str(wal), "--recovery-target", "1ms", cwd=tmp_path, WALPROOF_DATA=data
    )
    assert impossible.returncode == 1, impossible.stderr
    assert "No setting tried keeps within 1 ms of recovery" in " ".join(impossible.stdout.split())
    without = json.loads(walproof("wal", "whatif", str(wal), "--json", cwd=tmp_path).stdout)
    assert all(prediction["recovery_s"] is None for prediction in without["predictions"])

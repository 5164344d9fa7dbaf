"""pg_test_fsync's table is read as it stands, and measured for real."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.schemas import assert_valid
from walproof.cli.app import app
from walproof.disk.flush import METHODS, PASSES, measure_flush, read_flush_rates
from walproof.errors import DiskError
from walproof.facts import Install

OUTPUT = """\
5 seconds per test
O_DIRECT supported on this platform for open_datasync and open_sync.

Compare file sync methods using one 8kB write:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                      8089.997 ops/sec     124 usecs/op
        fdatasync                          8050.477 ops/sec     124 usecs/op
        fsync                               159.701 ops/sec    6262 usecs/op
        fsync_writethrough                              n/a
        open_sync                                      n/a*
* This file system and its mount options do not support direct
  I/O, e.g. ext4 in journaled mode.

Compare file sync methods using two 8kB writes:
        open_datasync                      3017.288 ops/sec     331 usecs/op
"""


def test_the_first_table_is_read() -> None:
    rates = {rate.method: rate for rate in read_flush_rates(OUTPUT.splitlines())}
    assert list(rates) == ["open_datasync", "fdatasync", "fsync", "fsync_writethrough", "open_sync"]
    assert rates["fsync"].flushes_per_s == 159.701
    assert rates["fsync"].flush_us == pytest.approx(6261.7, abs=0.1)
    assert rates["fsync_writethrough"].flushes_per_s is None
    assert rates["fsync_writethrough"].flush_us is None
    assert {name: rate.lacks_direct for name, rate in rates.items() if rate.flushes_per_s is None} == {
        "fsync_writethrough": False, "open_sync": True,
    }  # fmt: skip


def test_the_command_says_what_a_server_does_not_do(tmp_path: Path) -> None:
    """`--pg` takes a folder with programs; this pg_test_fsync prints the table above."""
    programs = tmp_path / "bin"
    programs.mkdir()
    fake = programs / "pg_test_fsync"
    fake.write_text(f"#!/bin/sh\ncat <<'END'\n{OUTPUT}END\n")
    fake.chmod(0o755)
    install = SimpleNamespace(bindir=str(programs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("walproof.postgres.install.find", lambda _: install)
        told = CliRunner().invoke(app, ["disk", str(tmp_path), "--pg", "fake", "--seconds", "1"])
        lines = CliRunner().invoke(app, ["disk", str(tmp_path), "--pg", "fake", "--json"])
    assert told.exit_code == 0, told.output
    assert f"about {PASSES * METHODS} s" in told.stderr
    assert re.search(r"open_sync +n/a\* +n/a\*", told.output)
    assert "no direct I/O, so that was not measured" in told.output
    assert "debug_io_direct = wal (16 and newer)" in told.output
    assert "fsync                        160       160 to 160" in told.output
    assert "flushes, 8,050 to 8,050 commits/s with fdatasync" in told.output
    data = json.loads(lines.stdout)
    assert_valid("disk", data)
    assert [row["method"] for row in data["rates"] if row["is_direct"]] == ["open_datasync", "open_sync"]
    assert [row["method"] for row in data["rates"] if row["lacks_direct"]] == ["open_sync"]


@pytest.mark.parametrize("text", ["", "Compare file sync methods using one 8kB write:", "fsync 1 ops/sec"])
def test_output_without_a_table_is_an_error(text: str) -> None:
    with pytest.raises(DiskError, match="no flush rates"):
        read_flush_rates(text.splitlines())


def test_passes_make_a_range(tmp_path: Path) -> None:
    """A device that is slow for a while; each pass is stopped when its first table is whole."""
    program = tmp_path / "pg_test_fsync"
    table = OUTPUT.replace("159.701", "$((100 * n))").replace("'", "")
    program.write_text(
        f"#!/bin/sh\necho >> {tmp_path}/passes\nn=$(wc -l < {tmp_path}/passes)\n"
        f"cat <<END\n{table}END\nexec sleep 60\n"
    )
    program.chmod(0o755)
    begun_s = time.monotonic()
    rates = {rate.method: rate for rate in measure_flush(program, tmp_path)}
    assert time.monotonic() - begun_s < 30
    fsync = rates["fsync"]
    assert (fsync.flushes_per_s, fsync.least_per_s, fsync.most_per_s) == (200.0, 100.0, 300.0)
    assert rates["open_sync"].least_per_s is None


@pytest.mark.live
def test_a_real_device(embedded: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A pass flushes for four seconds, which every other test that writes would wait for.
    monkeypatch.setattr("walproof.disk.flush.PASSES", 1)
    rates = measure_flush(Path(embedded.bindir) / "pg_test_fsync", tmp_path, seconds=1)
    measured = {rate.method: rate.flushes_per_s for rate in rates}
    assert measured["fdatasync"] is not None
    assert measured["fdatasync"] > 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_walproof_left_is_removed(tmp_path: Path) -> None:
    """Neither a folder that is in use, nor a name that leads elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    left, used, other = (tmp_path / f"walproof-fsync-{name}" for name in ("left", "used", "other"))
    for folder in (elsewhere, left, used):
        folder.mkdir()
        (folder / "file").write_bytes(b"x")
        os.utime(folder, (1, 1))
    other.symlink_to(elsewhere)
    number = os.open(used, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        with pytest.raises(DiskError, match="no flush rates"):
            measure_flush(Path("/bin/true"), tmp_path)
    finally:
        os.close(number)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((elsewhere.name, used.name, other.name))
    assert (elsewhere / "file").exists()
    assert (used / "file").exists()


def test_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=4 << 20, free=3 << 20))
    with pytest.raises(DiskError, match="has no room for the file of pg_test_fsync") as caught:
        measure_flush(Path("/bin/true"), tmp_path)
    assert caught.value.detail == "It writes 16.0 MB; 3.00 MB are free."


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="does not exist"):
        measure_flush(Path("/bin/true"), tmp_path / "absent")


def test_a_program_that_fails_is_explained(tmp_path: Path) -> None:
    program = tmp_path / "pg_test_fsync"
    program.write_text("#!/bin/sh\necho could not open output file >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(DiskError) as caught:
        measure_flush(program, tmp_path)
    assert caught.value.detail == "could not open output file"
    assert list(tmp_path.iterdir()) == [program]

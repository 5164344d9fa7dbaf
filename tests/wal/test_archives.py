"""Archives as a live server leaves them: its own archive_command, pg_receivewal, a promotion in between."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.wal.load import run_small_load
from tests.wal.server import BINDIRS, Server
from walproof.units import Lsn
from walproof.wal import Finish, records, stats

pytestmark = pytest.mark.live

VERSION = next(iter(BINDIRS))
_PROGRAMS = {"gzip": "gz", "bzip2": "bz2", "xz": "xz", "zstd": "zst", "lz4": "lz4"}


def _wait_until_archived(server: Server, name: str) -> None:
    deadline = time.monotonic() + 60
    while not (server.wal / "archive_status" / f"{name}.done").exists():
        assert time.monotonic() < deadline, server.log.read_text()[-2000:]
        time.sleep(0.05)


def test_what_archive_command_compressed_reads_as_pg_wal(tmp_path: Path) -> None:
    programs = [name for name in _PROGRAMS if shutil.which(name)]
    assert "gzip" in programs
    # Each segment with the next program in turn, by the last digits of its name.
    cases = " ".join(
        f"{number}) {name} -c %p > $A/%f.{_PROGRAMS[name]} ;;" for number, name in enumerate(programs)
    )
    command = (
        "A=$(dirname $PWD)/archive; n=$(printf %%d 0x$(echo %f | tail -c 3)); "
        f"case $((n %% {len(programs)})) in {cases} esac"
    )
    settings = {"archive_mode": "on", "archive_command": command.replace("'", "''")}
    with Server(BINDIRS[VERSION], settings, segment_mb=1) as server:
        archive = server.folder / "archive"
        archive.mkdir()
        archive.chmod(0o777)
        start = server.insert_lsn()
        run_small_load(server, 40)
        with server.connect() as connection:
            for _ in range(2 * len(programs)):
                connection.execute("SELECT pg_logical_emit_message(true, 'walproof', repeat('x', 100000))")
                connection.execute("SELECT pg_switch_wal()")
        end = Lsn(server.insert_lsn() // (1 << 20) * (1 << 20))
        last = f"{1:08X}{0:08X}{end // (1 << 20) - 1:08X}"
        _wait_until_archived(server, last)
        endings = {file.suffix.removeprefix(".") for file in archive.iterdir()}
        assert endings == {_PROGRAMS[name] for name in programs}
        plain = list(records(server.wal, start=start, end=end))
        assert len(plain) > 3000
        assert list(records(archive, start=start, end=end)) == plain
        # Half from the one, half from the other.
        half = tmp_path / "half"
        half.mkdir()
        for number, file in enumerate(sorted(archive.iterdir())):
            if number % 2:
                shutil.copy(file, half)
            else:
                shutil.copy(server.wal / file.name.split(".")[0], half)
        assert list(records(half, start=start, end=end)) == plain


def _is_streaming(server: Server) -> bool:
    with server.connect() as connection:
        found = connection.execute("SELECT FROM pg_stat_replication WHERE state = 'streaming'").fetchone()
    return found is not None


def test_what_pg_receivewal_is_writing(tmp_path: Path) -> None:
    with Server(BINDIRS[VERSION], segment_mb=1) as server:
        start = server.insert_lsn()
        command = [
            str(BINDIRS[VERSION] / "pg_receivewal"), "-h", str(server.folder), "-U", "postgres",
            "-D", str(tmp_path), "--compress=5", "--no-loop",
        ]  # fmt: skip
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while not _is_streaming(server):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            run_small_load(server, 40)
            end = server.insert_lsn()
            # A segment gets its last name before the next one's file is there: both, not the one alone.
            wanted = [
                f"{1:08X}{0:08X}{end // (1 << 20) - 1:08X}.gz",
                f"{1:08X}{0:08X}{end // (1 << 20):08X}.gz.partial",
            ]
            deadline = time.monotonic() + 60
            while not all((tmp_path / name).exists() for name in wanted):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        received = stats(tmp_path, start=Lsn((start // (1 << 20) + 1) * (1 << 20)))
        assert any(file.name.endswith(".gz.partial") for file in tmp_path.iterdir())
        assert received.finish in (Finish.END_OF_WAL, Finish.LAST_SEGMENT)
        plain = stats(server.wal, start=received.start, end=received.end)
        assert received.totals == plain.totals
        assert received.totals.records > 1000

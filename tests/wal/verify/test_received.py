"""What pg_receivewal writes, while it writes: the newest segment is partial, and cannot be unpacked yet."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.wal.server import BINDIRS, Server
from tests.wal.verify.conftest import Layer
from tests.wal.verify.layouts import compress
from walproof.privilege.user import running_as, server_user
from walproof.wal.verify.verify import verify


@contextmanager
def _receiving(server: Server, target: Path) -> Iterator[None]:
    process = subprocess.Popen(
        [str(server.bindir / "pg_receivewal"), "-h", str(server.folder), "-U", "postgres", "-D", str(target),
         "--compress=gzip", "--no-loop"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **running_as(server_user()),
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.live
def test_a_live_archive_with_gzip_is_whole() -> None:
    with Server(BINDIRS["18"], {"max_wal_senders": "3"}, segment_mb=1) as server:
        target = server.new_folder("received")
        with _receiving(server, target), server.connect() as connection:
            deadline = time.monotonic() + 60
            while len(list(target.glob("*.gz"))) < 3 or not list(target.glob("*.gz.partial")):
                assert time.monotonic() < deadline, list(target.iterdir())
                connection.execute("SELECT pg_logical_emit_message(false, 'walproof', repeat('m', 300000))")
                time.sleep(0.1)
            (found,) = verify([target]).archives
        assert {problem.kind for problem in found.problems} <= {"unfinished", "changing"}
        assert (found.is_whole, found.partial_files) == (True, 1)
        (partial,) = target.glob("*.gz.partial")
        partial.write_bytes(partial.read_bytes()[:40] or b"\x1f\x8b\x08")
        (found,) = verify([target]).archives
        assert [problem.path for problem in found.problems if problem.kind == "unfinished"] == [str(partial)]
        assert found.is_whole


def test_a_partial_file_before_the_newest_segment_is_a_fault(layer: Layer) -> None:
    laid = layer("folder", "gz")
    name, newest = laid.source.names(2)[-2:]
    packed = compress(laid.source.segments[name], "gz")[:40]
    (laid.root / f"{name}.gz.partial").write_bytes(packed)
    (found,) = verify([laid.root]).archives
    assert [problem.kind for problem in found.problems] == ["unpack"]
    (laid.root / f"{name}.gz.partial").unlink()
    laid.lose(newest)
    (laid.root / f"{newest}.gz.partial").write_bytes(packed)
    (found,) = verify([laid.root]).archives
    assert [(problem.kind, problem.segment) for problem in found.problems] == [("unfinished", newest)]
    assert found.is_whole

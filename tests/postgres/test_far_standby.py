"""A base backup that arrives over the network: what tar says of it neither stops it nor is lost."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from walproof.errors import ClusterError
from walproof.postgres.far_standby import unpack
from walproof.postgres.listening import Endpoint, way_to

FILES = 2000
PIECE_BYTES = 8192


def pieces(tar: bytes) -> Iterator[memoryview]:
    return (memoryview(tar[start : start + PIECE_BYTES]) for start in range(0, len(tar), PIECE_BYTES))


@pytest.fixture(scope="module")
def ahead() -> bytes:
    """A tar whose files are of a clock that is an hour ahead: tar says so of each, more than a pipe holds."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for number in range(FILES):
            file = tarfile.TarInfo(f"{number:04}")
            file.mtime = int(time.time()) + 3600
            tar.addfile(file)
    return stream.getvalue()


def test_a_network_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    """By the session that takes the base backup, and by the standby's own."""
    way = way_to(Endpoint("127.0.0.1", 5432, "primary"), "authority", "secret", tmp_path, None)
    parameters = conninfo_to_dict(way)
    assert parameters["tcp_user_timeout"] == "30000"
    idle, interval, count = (
        int(parameters[f"keepalives_{part}"] or 0) for part in ("idle", "interval", "count")
    )
    assert 0 < idle + interval * count <= 30


def test_a_clock_that_is_behind_does_not_stop_it(tmp_path: Path, ahead: bytes) -> None:
    unpack(pieces(ahead), tmp_path / "data", None)
    assert len(list((tmp_path / "data").iterdir())) == FILES


def test_what_tar_says_of_a_broken_backup_is_told(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="could not unpack") as caught:
        unpack(pieces(b"no tar" * FILES), tmp_path / "data", None)
    assert "tar: " in str(caught.value.detail)

"""An S3 server for all tests of this folder, and what archives lie in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from tests.wal.places.server import S3, s3_server

VERSION = 18


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of WAL: three segments or so of 1 MB."""
    folder = tmp_path_factory.mktemp("golden")
    unpack(VERSION, folder)
    return folder


@pytest.fixture
def stored(s3: S3, golden: Path, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The same below ``golden``, for this process."""
    s3.upload(golden, "golden")
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return s3

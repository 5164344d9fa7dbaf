"""A cache of its own, and a PATH that holds no package client but the test's stand-in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.postgres.package_client import Client


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WALPROOF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Client:
    """Puts a stand-in for a package client on a PATH that holds nothing else of the kind."""
    folder = tmp_path / "path"
    folder.mkdir()
    for program in ("sh", "cat", "cp", "rm", "sleep"):
        found = shutil.which(program)
        assert found is not None
        (folder / program).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))

    def put(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return put

"""A stand-in for auditctl, first on PATH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.privilege.helper.auditctl import StandIn
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """What it does is undone with it alone, and what others left with the real one: notes are apart."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    for module in ("postgres.workspace", "privilege.helper.client"):
        monkeypatch.setattr(f"walproof.{module}.notes_folder", lambda: tmp_path / "notes")
    return StandIn(folder)


@pytest.fixture
def workspace(work: Path, request: pytest.FixtureRequest) -> Iterator[Workspace]:
    """A workspace of this test, whose helper finds the stand-in, where there is one."""
    if "stand_in" in request.fixturenames:
        request.getfixturevalue("stand_in")
    with Workspace(work, server_user()) as opened:
        yield opened

"""A pair of the newest embedded version, and room for further standbys: one of each for a file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.pair import Pair, running_pair
from tests.postgres.replication import SETTINGS
from walproof.facts import Install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

ARCHIVE = "archive"


@pytest.fixture(scope="module")
def pair(embedded: Install, work: Path) -> Iterator[Pair]:
    with Workspace(work, server_user()) as workspace:
        archive = workspace.make_folder(ARCHIVE)
        settings = {
            **SETTINGS,
            "archive_mode": "on",
            "archive_command": f"cp %p {archive}/%f",
            "max_wal_size": "64MB",
            "min_wal_size": "32MB",
        }
        with running_pair(embedded, workspace, settings) as pair:
            yield pair


@pytest.fixture(scope="module")
def others(pair: Pair, work: Path) -> Iterator[Workspace]:
    """A workspace for further standbys."""
    with Workspace(work, server_user()) as workspace:
        yield workspace

"""A store in both databases: SQLite in a file and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.facts.server import store_server, store_url
from walproof.facts import Install
from walproof.facts.store import Store
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user


@pytest.fixture(scope="module")
def server(work: Path, embedded: Install) -> Iterator[Cluster]:
    with Workspace(work, server_user()) as workspace, store_server(workspace, embedded) as cluster:
        yield cluster


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.sqlite")
    cluster: Cluster = request.getfixturevalue("server")
    name = f"store_{abs(hash(tmp_path)):x}"
    with cluster.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return store_url(cluster, name)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()

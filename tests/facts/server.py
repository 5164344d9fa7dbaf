"""A server for facts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace


@contextmanager
def store_server(workspace: Workspace, install: Install) -> Iterator[Cluster]:
    """A server that whoever is on this machine reaches by ``store_url``."""
    folder = workspace.make_folder("store")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start({})
    try:
        yield cluster
    finally:
        cluster.stop("immediate")


def store_url(server: Cluster, database: str = "postgres") -> str:
    """The address of a store on that server."""
    return f"postgresql://postgres@/{database}?host={server.sockets}&port={server.port}"

"""What recovery to a time leaves behind: prepared transactions that began after it."""

from __future__ import annotations

import pytest

from walproof.facts import Install
from walproof.lab.kinds.backup import restoring
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.workload.books import Books, check_books
from walproof.workload.ledger import SETTINGS, Commit, table_statements, transaction

pytestmark = pytest.mark.live


def test_what_was_prepared_after_the_moment_is_rolled_back(embedded: Install, workspace: Workspace) -> None:
    """Recovery to a time does not stop before a PREPARE. What is known is left for the books to commit."""
    cluster = Cluster(embedded, workspace, workspace.make_folder("prepared"))
    templates.clone(templates.prepare_empty(workspace, embedded, ()), cluster.folder, flush=False)
    cluster.start({**SETTINGS, "fsync": "off"})
    known = tuple(
        tuple(Commit(number, 1, 2) for number in range(1, last + 1)) for last in (5, 4, 0, 0, 0, 0, 0, 0)
    )
    try:
        with cluster.connect() as session:
            for statement in table_statements():
                session.execute(statement.encode())
            for number in range(1, 6):
                session.execute(transaction(0, number)[0].encode())
                session.execute(transaction(1, number)[0].encode())
            prepared = "SELECT gid FROM pg_prepared_xacts ORDER BY gid"
            assert session.execute(prepared.encode()).fetchall() == [("walproof-0-5",), ("walproof-1-5",)]
            restoring.roll_back_unknown(session, known)
            assert session.execute(prepared.encode()).fetchall() == [("walproof-0-5",)]
            assert check_books(session, known, has_amcheck=False) == Books(0, None, None, None, None)
    finally:
        cluster.stop("immediate")

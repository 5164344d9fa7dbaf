"""Standbys are joined to their primary on this machine, and leave nothing behind."""

from __future__ import annotations

import pytest

from walproof.errors import ClusterError
from walproof.facts import Install
from walproof.lab.joining import JoinedHere
from walproof.postgres.chain import StandbyPlan
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace


def test_a_standby_that_does_not_start_leaves_no_folder(embedded: Install, workspace: Workspace) -> None:
    """Standbys of the next trial have the same names: it ended with a FileExistsError, and the run with
    it."""
    primary = Cluster(embedded, workspace, workspace.make_folder("primary"))
    plans = [StandbyPlan("standby"), StandbyPlan("far", upstream="standby")]
    for _trial in range(2):
        # Nobody has started the primary, so no slot can be made.
        with (
            pytest.raises(ClusterError, match="could not connect"),
            JoinedHere(workspace, 0.0, None).joined(primary, plans, {}),
        ):
            pass
        assert [path.name for path in workspace.folder.iterdir()] == ["primary"]

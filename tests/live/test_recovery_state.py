"""What an observer asks a standby: the functions, and from 19 pg_stat_recovery, which say the same."""

from __future__ import annotations

import time

import pytest

from tests.live.pair import running_pair
from walproof.facts import Install
from walproof.postgres.workspace import Workspace
from walproof.probe import pair_queries as queries

pytestmark = pytest.mark.live


@pytest.mark.pg(">= 18")
def test_both_ways_say_the_same_of_a_standby(install: Install, workspace: Workspace) -> None:
    asked = [queries.standby(version).encode() for version in (180000, install.version_num)]
    with running_pair(install, workspace) as pair:
        with pair.primary.connect() as connection:
            connection.execute("CREATE TABLE committed ()")
        pair.catch_up()
        with pair.standby.connect() as connection:
            for act, expected in (("resume", "not paused"), ("pause", "paused")):
                connection.execute(f"SELECT pg_wal_replay_{act}()".encode())
                deadline = time.monotonic() + 30
                while True:
                    functions, ours = (connection.execute(query).fetchone() for query in asked)
                    assert functions is not None
                    assert ours is not None
                    if ours[4] == expected and functions[1:5] == ours[1:5]:
                        break
                    assert time.monotonic() < deadline, (functions, ours)
                    time.sleep(0.05)
                # Received, replayed, time of the last commit.
                assert isinstance(ours[2], int)
                assert ours[1] == ours[2] > 0
                assert isinstance(ours[3], float)

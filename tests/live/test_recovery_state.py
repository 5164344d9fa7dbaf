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
                    functions, own = (connection.execute(query).fetchone() for query in asked)
                    assert functions is not None
                    assert own is not None
                    if own[4] == expected and functions[1:5] == own[1:5]:
                        break
                    assert time.monotonic() < deadline, (functions, own)
                    time.sleep(0.05)
                # Received, replayed, time of the last commit.
                assert isinstance(own[2], int)
                assert own[1] == own[2] > 0
                assert isinstance(own[3], float)

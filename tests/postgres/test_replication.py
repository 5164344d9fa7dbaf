"""Pairs and chains of clusters on every PostgreSQL at hand: they stream, follow, promote, explain why not."""

from __future__ import annotations

import errno
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.postgres.replication import SETTINGS, query, run, running_primary, wait_until
from walproof.errors import ClusterError
from walproof.facts import Install
from walproof.postgres.chain import Chain, StandbyPlan, make_synchronous
from walproof.postgres.cluster import Cluster
from walproof.postgres.link import Link, room_bytes
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.units import Lsn

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]

ROWS = "INSERT INTO t SELECT generate_series(1, 1000)"


def test_a_chain_of_every_kind_follows_its_primary(install: Install, workspace: Workspace) -> None:
    """Streaming, cascading, and one that takes no connections; a synchronous commit waits for the first."""
    plans = [
        StandbyPlan("near"),
        StandbyPlan("far", upstream="near"),
        StandbyPlan("closed", settings={"hot_standby": "off"}),
    ]
    with (
        running_primary(install, workspace) as primary,
        Chain(primary, workspace, plans, SETTINGS) as chain,
    ):
        end = run(primary, "CREATE TABLE t (i int)", ROWS)
        for standby in chain.standbys.values():
            standby.wait_for_replay(end)
        assert query(chain["far"], "SELECT count(*) FROM t") == "1000"
        assert query(chain["near"], "SELECT count(*) FROM pg_stat_replication") == "1"
        with pytest.raises(ClusterError, match="could not connect"):
            chain["closed"].connect()

        make_synchronous(primary, SETTINGS, "near")
        chain["near"].stop("fast")
        with primary.connect() as writer, ThreadPoolExecutor(1) as pool:
            commit = pool.submit(writer.execute, "INSERT INTO t VALUES (0)")
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            wait_until(lambda: query(primary, waiting) == "1")
            writer.cancel()  # the wait ends with a warning, the commit stands
            commit.result(30)


def test_a_promoted_standby_is_a_primary(install: Install, workspace: Workspace) -> None:
    with running_primary(install, workspace) as primary:
        end = run(primary, "CREATE TABLE t (i int)", ROWS)
        with Chain(primary, workspace, [StandbyPlan("heir")], SETTINGS) as chain:
            heir = chain["heir"]
            heir.wait_for_replay(end)
            primary.kill()
            heir.promote()
            run(heir, "INSERT INTO t VALUES (0)")
            assert query(heir, "SELECT count(*) FROM t") == "1001"


def test_a_base_backup_survives_tables_that_go_away_meanwhile(
    embedded: Install, workspace: Workspace
) -> None:
    with running_primary(embedded, workspace) as primary:
        names = [f"t{number}" for number in range(40)]
        run(primary, *(f"CREATE TABLE {name} AS SELECT generate_series(1, 500)" for name in names))
        standby = Standby(primary, workspace, "standby")
        backup = standby.build()
        assert backup.start < backup.stop
        end = run(primary, *(f"DROP TABLE {name}" for name in names))
        try:
            standby.start(SETTINGS)
            standby.wait_for_replay(end)
            assert query(standby, "SELECT count(*) FROM pg_class WHERE relname ~ '^t[0-9]+$'") == "0"
        finally:
            standby.stop("immediate")


def test_a_delayed_standby_streams_and_waits(embedded: Install, workspace: Workspace) -> None:
    plans = [StandbyPlan("delayed", settings={"recovery_min_apply_delay": "1h"})]
    with running_primary(embedded, workspace) as primary, Chain(primary, workspace, plans, SETTINGS) as chain:
        end = run(primary, "CREATE TABLE t (i int)")
        received = "SELECT pg_last_wal_receive_lsn()"
        wait_until(lambda: Lsn.parse(query(chain["delayed"], received)) >= end)
        assert query(chain["delayed"], "SELECT count(*) FROM pg_class WHERE relname = 't'") == "0"


def test_a_pair_that_never_streams_shows_the_standbys_own_line(
    install: Install, workspace: Workspace
) -> None:
    """An option that libpq does not know is what pg_basebackup -R of another version leaves behind."""
    with running_primary(install, workspace) as primary:
        standby = Standby(primary, workspace, "lost", route=f"host={primary.sockets} no_such_option=1")
        standby.build()
        with pytest.raises(ClusterError, match=r'standby "lost" did not stream .* after 6 s') as caught:
            standby.start(SETTINGS, patience_s=6.0)
        assert 'invalid connection option "no_such_option"' in caught.value.message
        assert not standby.is_running()


def test_a_standby_with_less_room_than_its_primary_says_so(install: Install, workspace: Workspace) -> None:
    with running_primary(install, workspace, {**SETTINGS, "max_connections": "150"}) as primary:
        standby = Standby(primary, workspace, "small")
        standby.build()
        with pytest.raises(ClusterError) as caught:
            standby.start({**SETTINGS, "max_connections": "50", "hot_standby": "on"})
        assert "max_connections" in f"{caught.value.message} {caught.value.detail}"


def test_tablespaces_are_refused(embedded: Install, workspace: Workspace, tmp_path: Path) -> None:
    with running_primary(embedded, workspace) as primary:
        place = workspace.make_folder("tablespace")
        run(primary, f"CREATE TABLESPACE elsewhere LOCATION '{place}'")
        with pytest.raises(ClusterError, match="tablespaces cannot be copied"):
            Standby(primary, workspace, "standby").build()


def test_a_link_delays_narrows_and_severs(embedded: Install, workspace: Workspace) -> None:
    with running_primary(embedded, workspace) as primary, Link(workspace, primary) as link:
        conninfo = f"{link.route} user=postgres dbname=postgres"
        with psycopg.connect(conninfo, autocommit=True) as connection:
            row = connection.execute("SELECT repeat('x', 1000000)").fetchone()
            assert row is not None
            assert len(str(row[0])) == 1_000_000
            link.shape(delay_s=0.2)
            begun = time.monotonic()
            connection.execute("SELECT 1")
            assert time.monotonic() - begun >= 0.4  # never less than asked; how much more is the machine's
            link.shape(bytes_per_s=200_000)
            begun = time.monotonic()
            connection.execute("SELECT repeat('x', 200000)")
            assert time.monotonic() - begun >= 0.5  # a little is in the buffers before and behind the link
            link.sever()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT pg_sleep(30)")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(conninfo)
        link.mend()
        link.shape()
        psycopg.connect(conninfo).close()


def test_a_temporary_folder_may_have_a_blank_in_its_name(
    embedded: Install, work: Path, open_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the sockets is in every connection string."""
    temporary = open_place / "somebody's dir"
    temporary.mkdir()
    temporary.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with (
        Workspace(work, server_user()) as workspace,
        running_primary(embedded, workspace) as primary,
        Link(workspace, primary) as link,
        Chain(primary, workspace, [StandbyPlan("near", route=link.route)], SETTINGS) as chain,
    ):
        end = run(primary, "CREATE TABLE t (i int)", ROWS)
        chain["near"].wait_for_replay(end)
        assert query(chain["near"], "SELECT count(*) FROM t") == "1000"


def test_a_link_passes_on_that_an_end_was_reset(embedded: Install, workspace: Workspace) -> None:
    """A process that dies before it has read what was sent to it resets the connection; the others wait."""
    upstream = Cluster(embedded, workspace, workspace.make_folder("upstream"))
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(str(workspace.sockets / f".s.PGSQL.{upstream.port}"))
        listening.listen()
        with Link(workspace, upstream) as link:
            client.connect(str(link.path))
            client.settimeout(30)
            server, _ = listening.accept()
            with server:
                client.sendall(b"a reply of standby")
                server.recv(1, socket.MSG_PEEK)
            assert client.recv(1) == b""


def test_a_narrow_link_holds_no_more_however_far_it_is() -> None:
    """With any delay it took 64 MB from its sender at once, which then counted as on their way."""
    narrow = 3 << 20
    assert room_bytes(0.025, narrow) - room_bytes(0.0, narrow) == pytest.approx(0.025 * narrow)
    assert room_bytes(0.025, narrow) < 256 << 10
    # A wide one holds what is under way, and not without end.
    assert 0.025 * (1 << 30) < room_bytes(0.025, 1 << 30) < room_bytes(1.0, 1 << 40) < 128 << 20
    assert room_bytes(0.025, None) > 32 << 20 > room_bytes(0.0, None)


def test_a_link_that_cannot_listen_says_so(embedded: Install, workspace: Workspace) -> None:
    upstream = Cluster(embedded, workspace, workspace.make_folder("upstream"))
    link = Link(workspace, upstream)
    link.path.touch()
    with pytest.raises(ClusterError, match=r"no link can listen on .*: Address already in use"), link:
        pass


def test_a_link_with_a_long_path_says_so(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a path that is too long for a socket has no number, and no text of the system."""
    upstream = Cluster(embedded, workspace, workspace.make_folder("long"))
    monkeypatch.setattr(workspace, "sockets", workspace.sockets / ("x" * 108))
    with pytest.raises(ClusterError, match="AF_UNIX path too long"), Link(workspace, upstream):
        pass


def test_a_link_that_cannot_listen_says_why_at_once(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_link: Link) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Link, "_listen", refused)
    upstream = Cluster(embedded, workspace, workspace.make_folder("upstream"))
    link = Link(workspace, upstream)
    began_s = time.monotonic()
    with pytest.raises(ClusterError, match=r"no link can listen on .*: .*Too many open files"), link:
        pass
    assert time.monotonic() - began_s < 5
    assert not link.path.exists()

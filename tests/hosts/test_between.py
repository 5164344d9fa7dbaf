"""Primary and standbys on different hosts: Ray's nodes on this machine, each with a loopback address.

They show placement, papers, what listens where, what is refused, and what is left after a kill. A network
that is one machine's own shows nothing of a distance.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import psycopg
import pytest

from tests import versions
from tests.cli.command import environment, walproof
from tests.hosts import clusters
from walproof.errors import HostError
from walproof.facts import Install, TrialState
from walproof.facts.store import Store
from walproof.hosts.authority import Authority, make_key
from walproof.hosts.between import StandbyHosts, _Joined, standby_hosts
from walproof.hosts.cluster import RayCluster, connected
from walproof.hosts.far_follower import told
from walproof.hosts.network import Answering, listen_address, measure
from walproof.lab.follower import Follower
from walproof.postgres import template as templates
from walproof.postgres.build import has_tls
from walproof.postgres.chain import StandbyPlan
from walproof.postgres.cluster import Cluster as Server
from walproof.postgres.listening import ROLE
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.units import Lsn

IS_ROOT = os.geteuid() == 0
ANYWAY = ["--insecure"] if IS_ROOT else []
ADDRESSES = {"elm": "127.0.0.2", "oak": "127.0.0.3", "ash": "127.0.0.4"}
HERE = {"WALPROOF_MACHINE": "elm", "WALPROOF_LISTEN": ADDRESSES["elm"]}
STUDY = """
name = "small"
title = "?"
[base]
fsync = "off"
autovacuum = "off"
[design]
rounds = 1
probes = []
[streaming]
preloaded_rows = 1000
rows_per_commit = 50
[[workload]]
name = "full"
duration = "{duration}"
[[variant]]
name = "plain"
[[variant]]
name = "emulated"
settings = {{ distance = "2ms" }}
"""

pytestmark = pytest.mark.live


def with_tls() -> list[Install]:
    """The oldest and the newest that have it: their base backups are of two forms. Hosts look for installs by
    themselves, so that one that is only given to the tests is not on them."""
    there = [install for install in versions.installs(()) if install.origin != "given" and has_tls(install)]
    return versions.ends(sorted(there, key=lambda install: install.version_num))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in HERE.items():
            patch.setenv(name, value)
        hosts = {name: {"WALPROOF_LISTEN": at} for name, at in ADDRESSES.items()}
        with clusters.cluster(hosts) as found:
            yield found


def processes(folder: Path) -> list[psutil.Process]:
    """Servers and helpers whose command line names something below ``folder``."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(f"{folder}/" in word for word in words[1:]):
            found.append(process)
    return found


def listening_at() -> dict[str, int]:
    """Address -> process id of each PostgreSQL that listens at one of our addresses, or at all of them."""
    found = {}
    for connection in psutil.net_connections("tcp"):
        if connection.status != psutil.CONN_LISTEN or not connection.laddr or connection.pid is None:
            continue
        if connection.laddr.ip not in (*ADDRESSES.values(), "0.0.0.0", "::"):
            continue
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(connection.pid).name() == "postgres":
                found[connection.laddr.ip] = connection.pid
    return found


def wait_until(is_done: Callable[[], bool], what: str, patience_s: float = 120) -> None:
    deadline = time.monotonic() + patience_s
    while not is_done():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@contextmanager
def chain(
    address: str, folder: Path, install: Install
) -> Iterator[tuple[Server, StandbyHosts, dict[str, Follower]]]:
    """A primary here, ``near`` that follows it and ``far`` that follows near, each on a host of its own."""
    with ExitStack() as stack:
        cluster: RayCluster = stack.enter_context(connected(address, insecure=IS_ROOT))
        hosts = stack.enter_context(
            standby_hosts(
                cluster, 2, [install], listen=None, folder=str(folder), insecure=IS_ROOT, tell=lambda _: None
            )
        )
        workspace = stack.enter_context(Workspace(folder / "walproof-work", server_user()))
        home = workspace.make_folder("primary")
        primary = Server(install, workspace, home)
        way = hosts.joining()
        templates.clone(templates.prepare_empty(workspace, install, ()), home, flush=False)
        settings = {"fsync": "off", **way.settings_for(primary)}
        primary.start(settings)
        stack.callback(primary.stop, "immediate")
        plans = [StandbyPlan("near", settings={"fsync": "off"}), StandbyPlan("far", "near", {"fsync": "off"})]
        standbys = stack.enter_context(way.joined(primary, plans, settings))
        assert way.metrics()["network_round_trip_ms"] > 0
        yield primary, hosts, dict(standbys)


@pytest.mark.parametrize("chosen", with_tls(), ids=lambda install: install.version)
def test_who_gets_in(address: str, open_place: Path, chosen: Install, tmp_path: Path) -> None:
    """Standbys of the run, by TLS and password; nobody else, nowhere else, and no superuser."""
    versions.note(chosen.version)
    usable = reachable_install(chosen, server_user())
    with chain(address, open_place, usable) as (primary, hosts, standbys):
        with primary.connect() as session:
            session.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) i")
            row = session.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            assert row is not None
            secure = session.execute(
                "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)"
            ).fetchone()
        assert secure == (True,)
        for standby in standbys.values():
            standby.wait_for_replay(Lsn.parse(str(row[0])))
        there = listening_at()
        # The last of the chain listens nowhere.
        assert sorted(there) == [ADDRESSES["elm"], next(host.address for host in hosts.hosts[:1])]
        assert there[ADDRESSES["elm"]] == primary.pid
        authority = tmp_path / "authority.crt"
        authority.write_text(hosts.hosts[0].certified.authority)
        stranger = tmp_path / "stranger.crt"
        stranger.write_text(Authority().certificate)
        right = {
            "host": "primary.walproof.internal", "hostaddr": ADDRESSES["elm"], "port": str(primary.port),
            "user": ROLE, "password": hosts.password, "dbname": "postgres", "sslmode": "verify-full",
            "sslrootcert": str(authority),
        }  # fmt: skip
        with psycopg.connect(**right) as session:  # type: ignore[arg-type]
            assert session.pgconn.ssl_in_use
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute("SELECT * FROM t")
        for wrong, said in {
            ("sslmode", "disable"): "no encryption|SSL off",
            ("password", "guess"): "password authentication failed",
            ("user", "postgres"): "no pg_hba.conf entry",
            ("dbname", "template1"): "no pg_hba.conf entry",
            ("sslrootcert", str(stranger)): "certificate verify failed|signature failure",
            ("host", "standby-1.walproof.internal"): "does not match host name",
        }.items():
            with pytest.raises(psycopg.OperationalError, match=said):
                psycopg.connect(**{**right, wrong[0]: wrong[1]})  # type: ignore[arg-type]
        folders = list(open_place.glob("walproof-work/running/*/*/network"))
        assert len(folders) == 4  # of both that listen, and each standby's way
        for folder in folders:
            assert folder.stat().st_mode & 0o077 == 0
            assert all(file.stat().st_mode & 0o177 == 0 for file in folder.iterdir())
            assert hosts.password not in "".join(
                file.read_text() for file in folder.parent.glob("data/*.conf")
            )
    assert listening_at() == {}
    assert processes(open_place) == []
    assert list(open_place.glob("walproof-work/running/*")) == []


def begun(address: str, folder: Path, duration: str) -> subprocess.Popen[str]:
    # With a rate: a minute at full speed is asked 12 GB of WAL for, on both servers.
    text = STUDY.format(duration=duration).replace('name = "full"', 'name = "full"\nrate = 20')
    (folder / "small.toml").write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", "walproof", *words(address, folder)], cwd=folder, text=True, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def words(address: str, folder: Path) -> list[str]:
    return [
        "run", "small.toml", "--between", "--pg", with_tls()[-1].bindir, "--on", str(folder),
        "--ray", address, *ANYWAY,
    ]  # fmt: skip


def test_a_study_runs_between_hosts(address: str, open_place: Path) -> None:
    (open_place / "small.toml").write_text(STUDY.format(duration="3s"))
    done = walproof(*words(address, open_place), cwd=open_place)
    assert done.returncode == 0, done.stderr
    assert "primary: elm; standbys: " in done.stderr
    store = Store(open_place / "walproof-out" / "walproof.sqlite")
    run = store.run("last")
    trials = {trial.variant: trial for trial in store.trials(run.id)}
    store.close()
    assert {name: trial.reason for name, trial in trials.items()} == dict.fromkeys(
        ("plain", "emulated", "plain, between hosts")
    )
    far = trials["plain, between hosts"].metrics
    assert far["network_round_trip_ms"] > 0
    assert far["network_bytes_per_s"] > 0
    assert far["rows"] > 0
    assert far["startup_cpu_s"] > 0
    assert far["standby_cpu_share"] > 0
    assert "network_round_trip_ms" not in trials["emulated"].metrics
    facts = run.environment.facts
    assert facts["standbys"] == "on 1 other host"
    assert facts["network_to_standby_1"].startswith("round trip ")
    assert not any(at in text for at in ADDRESSES.values() for text in facts.values())
    assert "--between" in run.command
    page = walproof("report", "last", "--format", "md", cwd=open_place).stdout
    assert "The network between the hosts" in page
    assert list(open_place.glob("walproof-work/running/*")) == []


def both_run(folder: Path) -> bool:
    return len(list(folder.glob("walproof-work/running/*/standby/data/postmaster.pid"))) == 1 and bool(
        listening_at()
    )


def nothing_is_left(folder: Path) -> bool:
    return not processes(folder) and not list(folder.glob("walproof-work/running/*"))


def test_nothing_is_left_when_walproof_is_killed(address: str, open_place: Path) -> None:
    command = begun(address, open_place, "60s")
    try:
        wait_until(lambda: both_run(open_place) or command.poll() is not None, "the pair between hosts")
        assert command.poll() is None, command.communicate()
    finally:
        command.kill()
        command.communicate()
    wait_until(lambda: nothing_is_left(open_place), "nothing left")


def test_a_lost_host_ends_the_run_and_the_trial_is_not_stored(address: str, open_place: Path) -> None:
    command = begun(address, open_place, "60s")
    try:
        wait_until(lambda: both_run(open_place) or command.poll() is not None, "the pair between hosts")
        (standby,) = open_place.glob("walproof-work/running/*/standby/data/postmaster.pid")
        server = psutil.Process(int(standby.read_text().splitlines()[0]))
        os.kill(server.ppid(), signal.SIGKILL)
        out, err = command.communicate(timeout=120)
    finally:
        command.kill()
    assert command.returncode == 2, (out, err)
    assert "which has a standby, was lost" in err
    assert "Traceback" not in err
    wait_until(lambda: nothing_is_left(open_place), "nothing left")
    store = Store(open_place / "walproof-out" / "walproof.sqlite")
    run = store.run("last")
    assert run.finished_at is None
    assert all(trial.state is TrialState.DONE for trial in store.trials(run.id))
    store.close()


def test_whoever_interrupts_waits_for_no_base_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host does one thing after the other; each is asked to leave, whatever another says."""
    asked: list[tuple[str, float]] = []

    def busy(method: str, *_: Any, patience_s: float = math.inf) -> None:
        asked.append((method, patience_s))
        if method == "follow":
            raise KeyboardInterrupt
        raise HostError("it did not answer")

    monkeypatch.setattr("walproof.hosts.between.make_role", lambda *_: None)
    host = SimpleNamespace(told=busy, address=ADDRESSES["oak"])
    papers = SimpleNamespace(name="primary")
    hosts: Any = SimpleNamespace(
        hosts=[host, host], network=lambda _: None, address=ADDRESSES["elm"], papers=papers, password=""
    )
    primary: Any = SimpleNamespace(port=5432, install=SimpleNamespace(label="18"))
    plans = [StandbyPlan("one"), StandbyPlan("two")]
    with pytest.raises(KeyboardInterrupt), _Joined(hosts).joined(primary, plans, {}):
        pass
    assert [method for method, _ in asked] == ["follow", "leave", "leave"]
    assert all(patience_s <= 60 for _, patience_s in asked[1:])


def test_a_host_is_not_waited_for_longer_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = type("Lost", (Exception,), {})
    kinds = SimpleNamespace(RayTaskError=lost, RayActorError=lost, RayError=lost)
    never = SimpleNamespace(wait=lambda references, timeout: ([], references), exceptions=kinds)
    monkeypatch.setitem(sys.modules, "ray", never)
    actor = SimpleNamespace(leave=SimpleNamespace(remote=lambda: "reference"))
    with pytest.raises(HostError, match="host oak did not answer within 0 s"):
        told(actor, "oak")("leave", patience_s=0.01)


def test_hosts_that_cannot_be(address: str) -> None:
    with connected(address, insecure=IS_ROOT) as cluster:

        def opened(found: RayCluster, count: int) -> None:
            with standby_hosts(
                found, count, [], listen=None, folder=None, insecure=IS_ROOT, tell=lambda _: None
            ):
                pass

        with pytest.raises(HostError, match="has 3 of the 4 hosts"):
            opened(cluster, 3)
        with pytest.raises(HostError, match="this node is not a host for trials"):
            opened(RayCluster(tuple(replace(host, is_lab=False) for host in cluster.hosts)), 1)


def test_where_a_host_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WALPROOF_LISTEN", raising=False)
    assert listen_address(None, "10.0.0.7", insecure=False) == "10.0.0.7"
    assert listen_address("lo", "10.0.0.7", insecure=False) == "127.0.0.1"
    assert listen_address("127.0.0.0/8", "10.0.0.7", insecure=False) == "127.0.0.1"
    for given, said in {
        "eth77": 'no interface "eth77"',
        "203.0.113.8/32": "no address of",
    }.items():
        with pytest.raises(HostError, match=said):
            listen_address(given, "10.0.0.7", insecure=False)
    for address in ("8.8.8.8", "0.0.0.0"):
        with pytest.raises(HostError, match="no private address"):
            listen_address(None, address, insecure=False)
    monkeypatch.setenv("WALPROOF_LISTEN", "127.0.0.9")
    assert listen_address("lo", "10.0.0.7", insecure=False) == "127.0.0.9"


def test_no_port_is_taken_away_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that was free when it was looked for need not be when it is listened at."""
    with socket.create_server(("127.0.0.2", 0)) as other:
        taken = other.getsockname()[1]
        monkeypatch.setattr("walproof.hosts.network.free_port", lambda _: taken, raising=False)
        with closing(Answering("127.0.0.2")) as answering:
            assert answering.place[1] not in (0, taken)
    with pytest.raises(HostError, match=r"could not listen at 192\.0\.2\.1: "):
        Answering("192.0.2.1")


def test_a_network_is_measured_for_who_has_the_token() -> None:
    answering = Answering("127.0.0.2")
    try:
        found = measure(answering.place, "127.0.0.3")
        assert 0 < found.round_trip_ms < 1000
        assert found.bytes_per_s > 1e6
        host, port, _ = answering.place
        with pytest.raises(HostError, match="could not measure the network"):
            measure((host, port, b"x" * 32), "127.0.0.3")
    finally:
        answering.close()
    with pytest.raises(HostError, match="could not measure the network"):
        measure(answering.place, "127.0.0.3")


def test_a_request_cannot_choose_its_name() -> None:
    from cryptography import x509

    _, request = make_key()
    signed = x509.load_pem_x509_certificate(Authority().sign(request, "standby-1.walproof.internal").encode())
    names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["standby-1.walproof.internal"]


def test_what_needs_hosts_says_so(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(STUDY.format(duration="1s"))
    pg = ["--pg", with_tls()[-1].bindir]
    for options, said in {
        ("run", "small.toml", "--between", *pg): "--ray HOST:PORT names the cluster",
        ("run", "wal-level", "--between"): "has no standbys",
        ("run", "small.toml", "--listen", "lo", *pg): "--listen is for studies between hosts",
        (
            "run",
            "small.toml",
            "--between",
            "--hosts",
            "2",
            "--ray",
            "127.0.0.1:1",
            *pg,
        ): "--hosts means nothing",
    }.items():
        done = walproof(*options, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr.replace("\n", " "), done.stderr
    dry = walproof("run", "small.toml", "--between", *pg, "--dry-run", cwd=tmp_path)
    assert "plain, between hosts" in dry.stdout
    assert "emulated, between hosts" not in dry.stdout

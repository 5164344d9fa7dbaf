"""Servers that refuse to stream: what they said, and a hint that fits. TLS where the server has it."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.recorded import SETTINGS, conninfo_of, recorded_server, take
from walproof.errors import ProbeError
from walproof.facts import Install
from walproof.lab.capture import Beginning, CaptureOrder
from walproof.postgres.cluster import Cluster
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]

# Of nobody: made for this test.
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgt5L0lMlDu7zxbiV6
o040CcTMUmw6t4+oNUw7JrKIx7OhRANCAASIbmjAqoa94cpGQ4pmdqqdPnbbgmOG
9tzH8N62Ic5P+YNF61QlzURPJoKsYG3E2XhOQsyLb9WFtPnnTDEke7MO
-----END PRIVATE KEY-----
"""
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBfzCCASWgAwIBAgIUC24ekOrsmm7bFMb5b6MufdnDu4AwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMzEzMzk0MVoYDzIxMjYxMDMw
MTMzOTQxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASIbmjAqoa94cpGQ4pmdqqdPnbbgmOG9tzH8N62Ic5P+YNF61QlzURP
JoKsYG3E2XhOQsyLb9WFtPnnTDEke7MOo1MwUTAdBgNVHQ4EFgQUDJwqEvfPNomc
sAXmMw3r5Lm4m24wHwYDVR0jBBgwFoAUDJwqEvfPNomcsAXmMw3r5Lm4m24wDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEAgP1tB1PFumtEG9K5R0U5
QNVO6tEs8Q8GkqL4THvVIbMCIA+Ydm5ayxDwNzBRTChRVnkZA3d8UVXldjsGWN7a
tBoa
-----END CERTIFICATE-----
"""


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    with recorded_server(install, workspace) as made:
        yield made


def _refusal(conninfo: str, folder: Path) -> ProbeError:
    with pytest.raises(ProbeError) as caught:
        take(CaptureOrder(conninfo, 2, folder))
    assert "secret" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"
    assert not any(folder.iterdir()), "the same command can be given again"
    return caught.value


def _restart(cluster: Cluster, **settings: str) -> None:
    cluster.stop("fast")
    cluster.start({**SETTINGS, **settings})


def test_each_refusal_has_its_hint(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.connect() as connection:
        connection.execute("CREATE ROLE plain LOGIN PASSWORD 'secret'")
        connection.execute("GRANT pg_monitor TO plain")
    _restart(cluster, log_connections="on")
    refused = _refusal(conninfo_of(cluster, "plain"), tmp_path / "a")
    assert "REPLICATION" in (refused.hint or ""), refused.detail
    inside = re.findall(r"connection authorized: user=plain database=(\S+)", cluster.log_text())
    assert set(inside) == {"postgres"}, "no catalogs of others are read in vain"
    _restart(cluster, max_wal_senders="0")
    refused = _refusal(conninfo_of(cluster), tmp_path / "b")
    assert "raise max_wal_senders" in (refused.hint or ""), refused.detail
    _restart(cluster, max_replication_slots="0")
    refused = _refusal(conninfo_of(cluster), tmp_path / "c")
    assert "raise max_replication_slots" in (refused.hint or ""), refused.detail
    _restart(cluster, max_replication_slots="1")
    with cluster.connect() as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('theirs')")
        refused = _refusal(conninfo_of(cluster), tmp_path / "d")
        assert "raise max_replication_slots" in (refused.hint or ""), refused.detail
        connection.execute("SELECT pg_drop_replication_slot('theirs')")
    rules = cluster.data / "pg_hba.conf"
    rules.write_text("local all all trust\n")
    _restart(cluster)
    refused = _refusal(conninfo_of(cluster), tmp_path / "e")
    assert "pg_hba.conf" in (refused.hint or ""), refused.detail
    assert "replication" in (refused.hint or "")
    _restart(cluster, wal_level="minimal", max_wal_senders="0")
    assert _refusal(conninfo_of(cluster), tmp_path / "f").hint


@pytest.mark.pg(">= 16")
def test_a_standby_is_refused(cluster: Cluster, workspace: Workspace, tmp_path: Path) -> None:
    standby = Standby(cluster, workspace, "behind")
    standby.build()
    standby.start({})
    try:
        assert _refusal(conninfo_of(standby), tmp_path / "a").message == "the server is a standby"
    finally:
        standby.stop("immediate")


def test_a_hint_names_ssl_where_ssl_is_the_reason(cluster: Cluster, tmp_path: Path) -> None:
    """Over TCP. WAL is encrypted where the server can, with the default sslmode; else the hint says why."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        cluster.port = free.getsockname()[1]
    conninfo = f"host=localhost hostaddr=127.0.0.1 port={cluster.port} user=recorder dbname=postgres"
    _restart(cluster, listen_addresses="127.0.0.1")
    refused = _refusal(f"{conninfo} sslmode=require", tmp_path / "a")
    assert "sslmode=require" in (refused.hint or ""), refused.detail
    assert "no SSL" in (refused.hint or "")
    with cluster.connect() as connection:
        row = connection.execute("SHOW ssl_library").fetchone()
    assert row is not None
    rules = cluster.data / "pg_hba.conf"
    if not row[0]:
        # Rules for encrypted sessions only are ignored by a server that cannot encrypt.
        rules.write_text("local all all trust\nhostssl all,replication all 127.0.0.1/32 trust\n")
        _restart(cluster, listen_addresses="127.0.0.1")
        refused = _refusal(f"{conninfo} sslmode=disable", tmp_path / "b")
        assert "sslmode=disable" in (refused.hint or ""), refused.detail
        assert "hostssl" in (refused.hint or "")
        return
    owner = cluster.data.stat()
    for name, text in (("server.key", KEY), ("server.crt", CERTIFICATE)):
        (cluster.data / name).write_text(text)
        (cluster.data / name).chmod(0o600)
        os.chown(cluster.data / name, owner.st_uid, owner.st_gid)
    rules.write_text("local all all trust\nhostssl all,replication all 127.0.0.1/32 trust\n")
    _restart(cluster, listen_addresses="127.0.0.1", ssl="on")
    told: list[Beginning] = []
    take(CaptureOrder(conninfo, 2, tmp_path / "c"), tell=told.append)
    assert told[0].is_encrypted
    root = tmp_path / "root.crt"
    root.write_text(CERTIFICATE)
    strict = f"{conninfo} sslmode=verify-full sslrootcert={root}"
    take(CaptureOrder(strict, 2, tmp_path / "d"), tell=told.append)
    assert told[1].is_encrypted
    refused = _refusal(f"{conninfo} sslmode=disable", tmp_path / "e")
    assert "sslmode=require" in (refused.hint or ""), refused.detail
    # The one session may, the other may not.
    rules.write_text(
        "local all all trust\nhostssl all all 127.0.0.1/32 trust\n"
        "hostnossl replication all 127.0.0.1/32 trust\n"
    )
    _restart(cluster, listen_addresses="127.0.0.1", ssl="on")
    refused = _refusal(f"{conninfo} sslmode=require", tmp_path / "f")
    assert "encrypted by SSL (sslmode=require)" in (refused.hint or ""), refused.detail


@pytest.mark.pg(">= 18")
def test_a_password_file_and_a_service_hold_for_wal(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for the database that the user names is enough, as it is for psql."""
    rules = cluster.data / "pg_hba.conf"
    rules.write_text("local all postgres trust\nlocal all,replication all scram-sha-256\n")
    _restart(cluster)
    passwords, services = tmp_path / "passwords", tmp_path / "services"
    passwords.write_text("*:*:postgres:recorder:secret\n*:*:template1:recorder:secret\n")
    passwords.chmod(0o600)
    services.write_text(
        f"[shop]\nhost={cluster.sockets}\nport={cluster.port}\nuser=recorder\ndbname=postgres\n"
    )
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    assert take(CaptureOrder("service=shop", 1, tmp_path / "a")).ended_because == "time"
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    assert "PGPASSWORD" in (_refusal("service=shop", tmp_path / "b").hint or "")
    monkeypatch.setenv("PGPASSWORD", "secret")
    assert take(CaptureOrder("service=shop", 1, tmp_path / "c")).ended_because == "time"

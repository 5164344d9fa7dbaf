"""A server that standbys on other hosts reach: one address, TLS with a certificate, passwords, named hosts.

    server.key, server.crt, pg_hba.conf     beside the data directory, so that no base backup has them
    authority.crt, passfile by which a standby knows its upstream, and the upstream the standby

The role of standbys may replicate and read statistics, nothing else. It exists on the primary, and so on
whatever follows it. Nobody else gets in over the network, and no superuser does.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from walproof.errors import ClusterError, one_line
from walproof.facts import Install
from walproof.postgres.cluster import Cluster
from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser

ROLE = "walproof_standby"
_FOLDER = "network"


@dataclass(frozen=True, slots=True)
class Papers:
    """What a server shows to whoever connects, in PEM."""

    name: str
    """The name that its certificate is for."""
    key: str
    certificate: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens."""

    address: str
    port: int
    name: str
    """What its certificate has to say."""


def free_port(address: str) -> int:
    """A TCP port that is free there now. Raises ClusterError."""
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise ClusterError(f"could not listen at {address}: {error.strerror}") from error


def listening(cluster: Cluster, address: str, papers: Papers, clients: Sequence[str]) -> dict[str, str]:
    """Settings with which ``cluster``, which is not started yet, listens at ``address`` for ``clients``.

    Its port becomes a free one of that address. Raises ClusterError.
    """
    cluster.port = free_port(address)
    folder = _folder(cluster.folder, cluster.user)
    lines = ["local all all trust", "local replication all trust"]
    lines += [
        f"hostssl {database} {ROLE} {client}/{ip_address(client).max_prefixlen} scram-sha-256"
        for client in dict.fromkeys(clients)
        for database in ("postgres", "replication")
    ]
    files = {
        "ssl_key_file": ("server.key", papers.key),
        "ssl_cert_file": ("server.crt", papers.certificate),
        "hba_file": ("pg_hba.conf", "\n".join(lines) + "\n"),
    }
    settings = {"listen_addresses": address, "ssl": "on", "ssl_min_protocol_version": "TLSv1.2"}
    for setting, (name, text) in files.items():
        settings[setting] = str(_private(folder / name, text, cluster.user))
    return settings


def make_role(primary: Cluster, password: str) -> None:
    """Make the standbys' role on a running primary. Raises ClusterError."""
    with primary.connect() as session:
        # Only the verifier is sent, so no log has the password.
        verifier = session.pgconn.encrypt_password(password.encode(), ROLE.encode(), b"scram-sha-256")
        try:
            session.execute(
                f"CREATE ROLE {ROLE} LOGIN REPLICATION IN ROLE pg_monitor"
                f" PASSWORD '{verifier.decode()}'".encode()
            )
        except psycopg.Error as error:
            raise ClusterError(f"could not make the role of standbys: {one_line(error)}") from error


@dataclass(frozen=True, slots=True)
class FarUpstream:
    """A server of another host, as a standby sees it (:class:`walproof.postgres.standby.Upstream`)."""

    install: Install
    route: str
    """What ``way_to`` has made."""

    @property
    def conninfo(self) -> str:
        """For sessions with SQL."""
        return f"{self.route} dbname=postgres"

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A session of the standbys' role in autocommit mode. Raises ClusterError."""
        try:
            return psycopg.connect(self.conninfo, autocommit=True)
        except psycopg.Error as error:
            raise ClusterError(f"could not connect to the upstream: {one_line(error)}") from error


def way_to(endpoint: Endpoint, authority: str, password: str, folder: Path, user: ServerUser | None) -> str:
    """Connection string for ``endpoint``, without a database. Its files go into ``folder``, a server's."""
    place = _folder(folder, user)
    known: Mapping[str, str | int] = {
        "host": endpoint.name,
        "hostaddr": endpoint.address,
        "port": endpoint.port,
        "user": ROLE,
        "sslmode": "verify-full",
        "sslrootcert": str(_private(place / "authority.crt", authority, user)),
        # There is none: libpq would look in the home of whoever runs walproof, which the server cannot read.
        "sslcert": str(place / "none.crt"),
        "passfile": str(_private(place / "passfile", f"*:*:*:*:{password}\n", user)),
        "connect_timeout": 10,
        # A network that says nothing ends a base backup, for which the kernel would wait for hours.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
    }
    return make_conninfo("", **known)


def _folder(folder: Path, user: ServerUser | None) -> Path:
    found = folder / _FOLDER
    with acting_as(user):
        found.mkdir(mode=0o700, exist_ok=True)
    return found


def _private(path: Path, text: str, user: ServerUser | None) -> Path:
    """The file, for its owner alone from its first moment on."""
    with acting_as(user):
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return path

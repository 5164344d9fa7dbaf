"""The network between two hosts: the address of each, the time of a round trip, and the throughput.

It is measured with plain TCP, like a replication connection, at the addresses that the servers use:

    ECHO  a byte there and back, many times                                      -> round trip
    SINK  as many bytes as pass in a fixed time; the count of arrivals comes back -> throughput

The listener closes any connection that does not begin with the token of the run.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import statistics
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from walproof.errors import HostError

LISTEN_VARIABLE = "WALPROOF_LISTEN"
"""The address of servers on a host, set when its node is started; it overrides ``--listen``."""
_TOKEN_BYTES = 32
_CHUNK = 256 * 1024
_TRIPS = 60
_WARM_TRIPS = 10
_PASS_S = 0.5
_PATIENCE_S = 20.0
_COUNT = struct.Struct(">Q")
_ECHO, _SINK = b"e", b"s"


@dataclass(frozen=True, slots=True)
class Network:
    """What was measured between this host and another host."""

    round_trip_ms: float
    """Median round trip, in milliseconds."""
    bytes_per_s: float
    """Throughput from this host to the other, the direction of WAL, in bytes a second."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """The measurements by their names in the facts."""
        return {"network_round_trip_ms": self.round_trip_ms, "network_bytes_per_s": self.bytes_per_s}


def listen_address(given: str | None, cluster_address: str, *, insecure: bool) -> str:
    """The address at which servers of this host listen. ``given``: an interface or a network (10.1.0.0/16)
    that has it; None: the address by which the cluster knows this host. Raises HostError."""
    found = os.environ.get(LISTEN_VARIABLE) or (
        cluster_address if given is None else _address_of(given, cluster_address)
    )
    try:
        address = ipaddress.ip_address(found)
    except ValueError:
        raise HostError(f'{LISTEN_VARIABLE}="{found}" is not an address') from None
    if address.is_unspecified or (not address.is_private and not insecure):
        raise HostError(
            f"servers would listen at {found}, which is no private address",
            hint="--listen names an interface or a network (eth1, 10.1.0.0/16) of the study's hosts.",
        )
    return found


def _address_of(given: str, cluster_address: str) -> str:
    interfaces = {
        name: [
            ipaddress.ip_address(entry.address.split("%")[0]) for entry in known if entry.family in _FAMILIES
        ]
        for name, known in psutil.net_if_addrs().items()
    }
    if given in interfaces:
        there = sorted(interfaces[given], key=lambda address: address.version)
    else:
        try:
            network = ipaddress.ip_network(given, strict=False)
        except ValueError:
            raise HostError(
                f'host {cluster_address} has no interface "{given}"',
                detail=f"It has {', '.join(interfaces)}.",
                hint="--listen takes an interface that every host has, or a network such as 10.1.0.0/16.",
            ) from None
        there = [address for known in interfaces.values() for address in known if address in network]
    there = [address for address in there if not address.is_link_local]
    if not there:
        raise HostError(f'host {cluster_address} has no address of "{given}"')
    return str(there[0])


_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def source_towards(address: str) -> str:
    """The address from which this host connects to ``address``, as its routes decide. Raises HostError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Nothing is sent: the kernel only chooses.
            probe.connect((address, 9))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise HostError(f"there is no route to {address}: {error.strerror}") from None


class Answering:
    """Answers measurements at ``address``, in threads, for clients with ``token``, until it is closed."""

    def __init__(self, address: str) -> None:
        """Listen at a port that is free. Raises HostError."""
        self.address = address
        self.token = secrets.token_bytes(_TOKEN_BYTES)
        try:
            self._listening = socket.create_server(
                (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET
            )
        except OSError as error:
            raise HostError(f"could not listen at {address}: {error.strerror}") from error
        self._port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="walproof-network", daemon=True)
        self._thread.start()

    @property
    def place(self) -> tuple[str, int, bytes]:
        """(address, port, token), for ``measure``."""
        return self.address, self._port, self.token

    def close(self) -> None:
        """Stop listening."""
        # close() alone would not wake the thread that accepts.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(_PATIENCE_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if not secrets.compare_digest(_exactly(connection, _TOKEN_BYTES), self.token):
                    return
                if _exactly(connection, 1) == _ECHO:
                    while byte := connection.recv(1):
                        connection.sendall(byte)
                else:
                    count = 0
                    while data := connection.recv(_CHUNK):
                        count += len(data)
                    connection.sendall(_COUNT.pack(count))
            except OSError:
                return


def measure(place: tuple[str, int, bytes], source: str) -> Network:
    """Round trip and throughput from ``source``, an address of this host, to ``place``. Raises HostError."""
    try:
        return Network(_round_trip_ms(place, source), _bytes_per_s(place, source))
    except OSError as error:
        raise HostError(
            f"could not measure the network to {place[0]}: {error.strerror or error}",
            hint="A firewall between the hosts has to let TCP pass to that address, on any port.",
        ) from None


def _opened(place: tuple[str, int, bytes], source: str, what: bytes) -> socket.socket:
    address, port, token = place
    connection = socket.create_connection((address, port), timeout=_PATIENCE_S, source_address=(source, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(token + what)
    return connection


def _round_trip_ms(place: tuple[str, int, bytes], source: str) -> float:
    trips = []
    with _opened(place, source, _ECHO) as connection:
        for _ in range(_WARM_TRIPS + _TRIPS):
            begun = time.perf_counter()
            connection.sendall(b".")
            _exactly(connection, 1)
            trips.append((time.perf_counter() - begun) * 1000)
    return statistics.median(trips[_WARM_TRIPS:])


def _bytes_per_s(place: tuple[str, int, bytes], source: str) -> float:
    # Random bytes, because something on the way might compress.
    chunk = os.urandom(_CHUNK)
    with _opened(place, source, _SINK) as connection:
        begun = time.perf_counter()
        while time.perf_counter() < begun + _PASS_S:
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)
        (count,) = _COUNT.unpack(_exactly(connection, _COUNT.size))
        return float(count / (time.perf_counter() - begun))


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = connection.recv(count - len(found))
        if not piece:
            raise ConnectionError("the other end hung up")
        found += piece
    return found

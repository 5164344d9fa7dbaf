"""A host of standbys: a workspace, papers, one standby at a time. Plain Python; Ray makes an actor of it.

The standby's server, its processes and its files belong to this process: its workspace's watchdog ends and
removes them when the process ends, in whatever way.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walproof.facts import Install
from walproof.hosts.authority import make_key
from walproof.hosts.network import Answering, listen_address, source_towards
from walproof.lab.follower import FollowerHere
from walproof.postgres.cache import cache_folder
from walproof.postgres.far_standby import FarStandby
from walproof.postgres.install import resolve
from walproof.postgres.listening import Endpoint, FarUpstream, Papers, listening, way_to
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.environment import observe_environment

_TOLD = ("cpu", "cores", "memory_bytes", "kernel", "virtualisation", "filesystem", "disk", "disk_model")
"""Facts of a host of standbys."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a host says of itself."""

    address: str
    """At which its servers listen, and from which they connect."""
    request: str
    """To certify its key."""
    place: tuple[str, int, bytes]
    """Where the network to it is measured."""
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Certified:
    """What a host is given for the run."""

    name: str
    certificate: str
    authority: str
    password: str
    """Of the standbys' role."""


@dataclass(frozen=True, slots=True)
class FollowOrder:
    """Which standby a host makes."""

    name: str
    install: str
    """Label."""
    upstream: Endpoint
    primary: Endpoint
    settings: Mapping[str, str]
    clients: tuple[str, ...]
    """Addresses of the hosts whose standbys follow it; without any it listens nowhere."""


class StandbyHost:
    """Makes standbys on this machine."""

    def __init__(self, cluster_address: str, listen: str | None, folder: str | None, insecure: bool) -> None:
        """``cluster_address``: at which the cluster knows this host; ``listen``: as typed; ``folder``: whose
        disk is used, as typed; None: in this host's cache."""
        self._given = (cluster_address, listen, folder, insecure)
        self._opened = ExitStack()
        self._installs: dict[str, Install] = {}
        self._papers: Papers | None = None
        self._certified: Certified | None = None
        self._standby: FarStandby | None = None
        self._follower: FollowerHere | None = None
        self._way_folder: Path | None = None

    def introduce(self, installs: tuple[Install, ...]) -> Introduction:
        """Open a workspace, find the plan's installs, listen for measurements. Raises a WalproofError."""
        cluster_address, listen, folder, insecure = self._given
        self._address = listen_address(listen, cluster_address, insecure=insecure)
        self._key, request = make_key()
        work = cache_folder() / "work" if folder is None else Path(folder) / "walproof-work"
        self._workspace = self._opened.enter_context(Workspace(work, server_user()))
        for install in installs:
            self._installs[install.label] = reachable_install(resolve(install), self._workspace.user)
        answering = self._opened.enter_context(closing(Answering(self._address)))
        facts = observe_environment(work)
        told = {name: facts[name] for name in _TOLD if name in facts}
        return Introduction(self._address, request, answering.place, told)

    def certify(self, given: Certified) -> None:
        """Take the papers of the run."""
        self._certified = given
        self._papers = Papers(given.name, self._key, given.certificate)

    def source_towards(self, address: str) -> str:
        """From where connections to a server at ``address`` come."""
        return source_towards(address)

    def follow(self, order: FollowOrder) -> Endpoint | None:
        """Make a standby, which streams then; where it listens for others. Raises ClusterError."""
        assert self._papers is not None, "certified"
        assert self._certified is not None, "certified"
        self.leave()
        workspace, given = self._workspace, self._certified
        self._way_folder = workspace.make_folder(f"{order.name}-way")

        def way(endpoint: Endpoint) -> str:
            assert self._way_folder is not None, "made"
            return way_to(endpoint, given.authority, given.password, self._way_folder, workspace.user)

        upstream = FarUpstream(self._installs[order.install], way(order.upstream))
        standby = FarStandby(upstream, workspace, order.name, way(order.primary))
        self._standby = standby
        try:
            standby.build()
            settings = dict(order.settings)
            if order.clients:
                settings |= listening(standby, self._address, self._papers, order.clients)
            standby.start(settings)
        except BaseException:
            self.leave()
            raise
        self._follower = FollowerHere(standby, settings)
        return Endpoint(self._address, standby.port, given.name) if order.clients else None

    def ask(self, what: str, *arguments: Any) -> Any:
        """A method of :class:`walproof.lab.follower.Follower`, of the standby that is here."""
        assert self._follower is not None, "it follows"
        return getattr(self._follower, what)(*arguments)

    def leave(self) -> None:
        """Stop and remove the standby that is here, if any."""
        if self._follower is not None:
            self._follower.end_looking()
        if self._standby is not None:
            self._standby.stop("immediate")
            self._workspace.remove_folder(self._standby.folder)
        if self._way_folder is not None:
            self._workspace.remove_folder(self._way_folder)
        self._follower = self._standby = self._way_folder = None

    def close(self) -> None:
        """Leave nothing here."""
        self.leave()
        self._opened.close()

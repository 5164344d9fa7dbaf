"""A host of standbys: a workspace, papers, and one standby at a time. Plain Python, which Ray makes an actor.

The standby's server, its processes and its files belong to this process. However this process ends, the
watchdog of its workspace ends those processes and removes those files.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walproof.errors import DiskError
from walproof.facts import Install
from walproof.hosts.authority import make_key
from walproof.hosts.network import Answering, listen_address, source_towards
from walproof.lab.follower import FollowerHere
from walproof.postgres.cache import cache_folder
from walproof.postgres.far_standby import FarStandby
from walproof.postgres.install import on_host
from walproof.postgres.listening import Endpoint, FarUpstream, Papers, listening, way_to
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.environment import observe_environment

_TOLD = ("cpu", "cores", "memory_bytes", "kernel", "virtualisation", "filesystem", "disk", "disk_model")
"""The facts that are stored about a host of standbys."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a host says about itself."""

    address: str
    """Address at which its servers listen and from which they connect."""
    request: str
    """Request to certify its key."""
    place: tuple[str, int, bytes]
    """Address, port and token for measuring the network to it."""
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Certified:
    """What a host is given for the run."""

    name: str
    certificate: str
    authority: str
    password: str
    """Password of the standbys' role."""


@dataclass(frozen=True, slots=True)
class FollowOrder:
    """The standby that a host is to make."""

    name: str
    install: str
    """Label of the install."""
    upstream: Endpoint
    primary: Endpoint
    settings: Mapping[str, str]
    clients: tuple[str, ...]
    """Addresses of the hosts whose standbys follow this one; if there are none, it does not listen."""


class StandbyHost:
    """Makes standbys on this machine."""

    def __init__(self, cluster_address: str, listen: str | None, folder: str | None, insecure: bool) -> None:
        """``cluster_address``: the address by which the cluster knows this host. ``listen``: as typed.
        ``folder``: the folder whose disk is used, as typed; None: this host's cache."""
        self._given = (cluster_address, listen, folder, insecure)
        self._opened = ExitStack()
        self._installs: dict[str, Install] = {}
        self._papers: Papers | None = None
        self._certified: Certified | None = None
        self._standby: FarStandby | None = None
        self._follower: FollowerHere | None = None
        self._way_folder: Path | None = None

    def introduce(self, installs: tuple[Install, ...]) -> Introduction:
        """Open a workspace, find the plan's installs and listen for measurements. Raises a WalproofError."""
        cluster_address, listen, folder, insecure = self._given
        if folder is not None and not Path(folder).is_dir():
            # It would be made, and a disk that is not mounted there would not be the one that is measured.
            raise DiskError(
                f'folder "{folder}" of --on does not exist', hint="It has to be a folder on every host."
            )
        self._address = listen_address(listen, cluster_address, insecure=insecure)
        self._key, request = make_key()
        work = cache_folder() / "work" if folder is None else Path(folder) / "walproof-work"
        self._workspace = self._opened.enter_context(Workspace(work, server_user()))
        for install in on_host(installs):
            self._installs[install.label] = reachable_install(install, self._workspace.user)
        answering = self._opened.enter_context(closing(Answering(self._address)))
        facts = observe_environment(work)
        told = {name: facts[name] for name in _TOLD if name in facts}
        return Introduction(self._address, request, answering.place, told)

    def certify(self, given: Certified) -> None:
        """Take the papers of the run."""
        self._certified = given
        self._papers = Papers(given.name, self._key, given.certificate)

    def source_towards(self, address: str) -> str:
        """The address from which this host connects to a server at ``address``."""
        return source_towards(address)

    def follow(self, order: FollowOrder) -> Endpoint | None:
        """Make a standby, which then streams. Returns where it listens for others. Raises ClusterError."""
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
        """Call a method of :class:`walproof.lab.follower.Follower` of the standby on this host."""
        assert self._follower is not None, "a standby follows"
        return getattr(self._follower, what)(*arguments)

    def leave(self) -> None:
        """Stop and remove the standby on this host, if there is one."""
        if self._follower is not None:
            self._follower.end_looking()
        if self._standby is not None:
            self._standby.stop("immediate")
            self._workspace.remove_folder(self._standby.folder)
        if self._way_folder is not None:
            self._workspace.remove_folder(self._way_folder)
        self._follower = self._standby = self._way_folder = None

    def close(self) -> None:
        """Remove everything from this host."""
        self.leave()
        self._opened.close()

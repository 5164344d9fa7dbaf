"""Standbys on other hosts of a Ray cluster; the primary runs where walproof does, and so does the study.

    this host     walproof: study, store, load, primary       bundle 0 of a placement group
    other hosts   an actor each: a `StandbyHost`              bundles 1 to N, STRICT_SPREAD

Only the standbys are elsewhere, so such a run is conducted, stored, stopped and resumed like any other.
Actors end with walproof, and what they started ends with them.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from walproof.errors import DiskError, HostError, InstallError, WalproofError
from walproof.facts import Install
from walproof.hosts.authority import Authority, make_key
from walproof.hosts.cluster import WITH_SERVERS, Host, RayCluster
from walproof.hosts.far_follower import ActorCall, FarFollower, told
from walproof.hosts.network import Network, listen_address, measure
from walproof.hosts.standby_host import Certified, FollowOrder, Introduction, StandbyHost
from walproof.lab.follower import Follower
from walproof.lab.joining import Joining
from walproof.postgres.chain import PRIMARY, StandbyPlan, inherited
from walproof.postgres.cluster import Cluster as Server
from walproof.postgres.listening import Endpoint, Papers, listening, make_role
from walproof.sentences import say_count
from walproof.units import format_bytes

_DOMAIN = "walproof.internal"
"""The domain of names in certificates, which nobody owns on the internet."""
_FREE_PATIENCE_S = 60.0
_CLOSE_PATIENCE_S = 60.0
_LEAVE_PATIENCE_S = 10.0


@contextmanager
def standby_hosts(
    cluster: RayCluster,
    count: int,
    installs: Sequence[Install],
    *,
    listen: str | None,
    folder: str | None,
    insecure: bool,
    tell: Callable[[str], None],
) -> Iterator[StandbyHosts]:
    """Reserve ``count`` hosts for standbys, apart from this host and from each other, while the block lasts.

    Raises HostError, or the error that keeps a host from making standbys.
    """
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    here, others = _apart(cluster, ray.get_runtime_context().get_node_id(), count)
    chosen = {"ray.io/node-id": f"in({','.join(host.node_id for host in others)})"}
    group = placement_group(
        [{"walproof_host": 1}] * (1 + count),
        strategy="STRICT_SPREAD",
        bundle_label_selector=[{"ray.io/node-id": here.node_id}, *[chosen] * count],
    )
    actors: list[Any] = []
    try:
        if not group.wait(_FREE_PATIENCE_S):
            raise HostError(
                f"{1 + count} hosts were not free within {_FREE_PATIENCE_S:.0f} s",
                detail=f"A host has one study at a time; this host and {count} others are needed at once.",
                hint='"ray status" shows what holds each walproof_host.',
            )
        placed = ray.util.placement_group_table(group)["bundles_to_node_id"]
        hosts = {host.node_id: host for host in others}
        make: Any = ray.remote(num_cpus=0, resources={"walproof_host": 1}, max_restarts=0)(StandbyHost)
        for index in range(1, 1 + count):
            actors.append(
                make.options(
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group, index),
                    runtime_env=WITH_SERVERS,
                ).remote(hosts[placed[index]].address, listen, folder, insecure)
            )
        names = [hosts[placed[index]].machine.name for index in range(1, 1 + count)]
        tell(f"primary: {here.machine.name}; standbys: {', '.join(names)}")
        address = listen_address(listen, here.address, insecure=insecure)
        yield StandbyHosts(address, names, actors, installs)
    finally:
        _close(ray, actors)
        remove_placement_group(group)


def _apart(cluster: RayCluster, node_id: str, count: int) -> tuple[Host, list[Host]]:
    """This host, and one node of each other machine that was started for trials. Raises HostError."""
    hint = "A host is a machine whose node was started with --resources='{\"walproof_host\": 1}'."
    here = next((host for host in cluster.hosts if host.node_id == node_id), None)
    if here is None or not here.is_lab:
        raise HostError(
            "the primary runs where walproof is started, and this node is not a host for trials", hint=hint
        )
    others: dict[str, Host] = {}
    for host in cluster.hosts:
        if host.is_lab and host.machine.boot_id != here.machine.boot_id:
            others.setdefault(host.machine.boot_id, host)
    if len(others) < count:
        raise HostError(
            f"the cluster has {1 + len(others)} of the {1 + count} hosts that the study needs",
            detail=f"A primary and {count} standbys need different machines.",
            hint=hint,
        )
    return here, list(others.values())


def _close(ray: Any, actors: Sequence[Any]) -> None:
    """Let every host remove what it has made, then end its process."""
    with contextlib.suppress(ray.exceptions.RayError, ValueError):
        closing = [actor.close.remote() for actor in actors]
        ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_PATIENCE_S) if closing else None
    for actor in actors:
        with contextlib.suppress(ray.exceptions.RayError, ValueError):
            ray.kill(actor, no_restart=True)


@dataclass(frozen=True, slots=True)
class _Far:
    """A host of a standby."""

    name: str
    told: ActorCall
    introduction: Introduction
    certified: Certified

    @property
    def address(self) -> str:
        """Address of its servers."""
        return self.introduction.address


class StandbyHosts:
    """The standby hosts as a run uses them (:class:`walproof.lab.joining.OtherHosts`)."""

    def __init__(
        self, address: str, names: Sequence[str], actors: Sequence[Any], installs: Sequence[Install]
    ) -> None:
        """``address``: where the primary listens on this host. Raises a WalproofError."""
        authority = Authority()
        password = secrets.token_urlsafe(32)
        key, request = make_key()
        primary = f"{PRIMARY}.{_DOMAIN}"
        self.address = address
        self.papers = Papers(primary, key, authority.sign(request, primary))
        self.password = password
        self.hosts: list[_Far] = []
        for number, (name, actor) in enumerate(zip(names, actors, strict=True), 1):
            ask = told(actor, name)
            introduction = _introduced(name, ask, installs)
            server = f"standby-{number}.{_DOMAIN}"
            certified = Certified(
                server, authority.sign(introduction.request, server), authority.certificate, password
            )
            ask("certify", certified)
            self.hosts.append(_Far(name, ask, introduction, certified))

    def joining(self) -> Joining:
        """The joining of standbys for one trial."""
        return _Joined(self)

    def network(self, number: int) -> Network:
        """The network from this host to host ``number``. Raises HostError."""
        return measure(self.hosts[number].introduction.place, self.address)

    def facts(self) -> Mapping[str, str]:
        """Facts about the hosts, without names or addresses, because facts go into reports."""
        found = {"standbys": f"on {say_count(len(self.hosts), 'other host')}"}
        for number, host in enumerate(self.hosts, 1):
            network = self.network(number - 1)
            found[f"network_to_standby_{number}"] = (
                f"round trip {network.round_trip_ms:.3g} ms, {format_bytes(network.bytes_per_s)}/s"
            )
            found |= {f"standby_{number}_{name}": text for name, text in host.introduction.facts.items()}
        return found


def _introduced(name: str, ask: ActorCall, installs: Sequence[Install]) -> Introduction:
    """What the host of that name says about itself. Raises a WalproofError."""
    try:
        introduction: Introduction = ask("introduce", tuple(installs))
    except (DiskError, InstallError) as error:
        # The words are of the host's folders, and nothing else tells them from this machine's.
        raise type(error)(f"host {name}: {error.message}", detail=error.detail, hint=error.hint) from None
    return introduction


class _Joined:
    """The standby hosts as one trial uses them (:class:`walproof.lab.joining.Joining`)."""

    def __init__(self, hosts: StandbyHosts) -> None:
        self._hosts = hosts
        self._network: Network | None = None

    def settings_for(self, primary: Server) -> Mapping[str, str]:
        """Settings with which the primary listens for the study's hosts alone."""
        hosts = self._hosts
        clients = [host.told("source_towards", hosts.address) for host in hosts.hosts]
        return listening(primary, hosts.address, hosts.papers, clients)

    @contextmanager
    def joined(
        self, primary: Server, plans: Sequence[StandbyPlan], settings: Mapping[str, str]
    ) -> Iterator[Mapping[str, Follower]]:
        """Start each standby on a separate host, and remove them when the block ends."""
        hosts = dict(zip((plan.name for plan in plans), self._hosts.hosts, strict=False))
        assert len(hosts) == len(plans), "the plan was checked to have enough hosts"
        self._network = self._hosts.network(0)
        make_role(primary, self._hosts.password)
        endpoints = {PRIMARY: Endpoint(self._hosts.address, primary.port, self._hosts.papers.name)}
        try:
            for plan in plans:
                followers = [hosts[other.name] for other in plans if other.upstream == plan.name]
                address = hosts[plan.name].address
                listens_for = tuple(follower.told("source_towards", address) for follower in followers)
                order = FollowOrder(
                    plan.name, primary.install.label, endpoints[plan.upstream], endpoints[PRIMARY],
                    {**inherited(settings), **plan.settings}, listens_for,
                )  # fmt: skip
                if (endpoint := hosts[plan.name].told("follow", order)) is not None:
                    endpoints[plan.name] = endpoint
            yield {name: FarFollower(host.told) for name, host in hosts.items()}
        except BaseException:
            # The first error matters more than any that follows from it. A host that takes a base backup does
            # one after the other: it leaves when the backup ends, at the latest with its primary, after this.
            for host in reversed(hosts.values()):
                with contextlib.suppress(WalproofError):
                    host.told("leave", patience_s=_LEAVE_PATIENCE_S)
            raise
        for host in reversed(hosts.values()):
            host.told("leave")

    def slow_down(self) -> None:
        """Do nothing: the network is real."""

    def sever(self) -> None:
        """Do nothing: a real network is not cut, and what the kernel was given still arrives."""

    def metrics(self) -> Mapping[str, float]:
        """Measurements of the network to the first host, taken before the load."""
        return {} if self._network is None else self._network.metrics

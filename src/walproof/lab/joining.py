"""How standbys are joined to their primary: on this machine, or, injected by cli, on other hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol

from walproof.lab.follower import Follower, FollowerHere
from walproof.postgres.chain import Chain, StandbyPlan
from walproof.postgres.cluster import Cluster
from walproof.postgres.link import Link
from walproof.postgres.workspace import Workspace


class Joining(Protocol):
    """One trial's way from a primary to its standbys."""

    def settings_for(self, primary: Cluster) -> Mapping[str, str]:
        """Settings that the primary needs in addition to its own, to be reached by the standbys."""

    def joined(
        self, primary: Cluster, plans: Sequence[StandbyPlan], settings: Mapping[str, str]
    ) -> AbstractContextManager[Mapping[str, Follower]]:
        """Standbys of the running ``primary``, started with ``settings``, by name: they stream when the block
        begins and are gone when it ends. Raises ClusterError; HostError where a host is lost."""

    def slow_down(self) -> None:
        """Put the emulated way between the servers, which are streaming; do nothing if the way is real."""

    def sever(self) -> None:
        """Cut the way, because the primary's machine is about to end: nothing more arrives over an emulated
        way."""

    def metrics(self) -> Mapping[str, float]:
        """What was measured of the way, for the trial's facts."""


class OtherHosts(Protocol):
    """Hosts for standbys, on which nothing else of walproof runs meanwhile."""

    def joining(self) -> Joining:
        """For one trial."""

    def facts(self) -> Mapping[str, str]:
        """Facts about the hosts and the network between them, for the run's environment."""


class JoinedHere:
    """Standbys on this machine, over a unix socket or over a slower link."""

    def __init__(
        self, workspace: Workspace, delay_s: float, bytes_per_s: int | None, *, delay_at_once: bool = False
    ) -> None:
        """``delay_s``: one way; ``bytes_per_s``: each way, None is no limit; ``delay_at_once``: the delay is
        there before ``slow_down``, and a link even without one, to be severed."""
        self._workspace = workspace
        self._delay_s, self._bytes_per_s = delay_s, bytes_per_s
        self._delay_at_once = delay_at_once
        self._link: Link | None = None

    def settings_for(self, primary: Cluster) -> Mapping[str, str]:
        """None."""
        return {}

    @contextmanager
    def joined(
        self, primary: Cluster, plans: Sequence[StandbyPlan], settings: Mapping[str, str]
    ) -> Iterator[Mapping[str, Follower]]:
        """Standbys that follow the primary do so over the link; those of a cascade do without it."""
        with ExitStack() as stack:
            for plan in plans:
                # Also of one that does not start: those of the next trial have the same names.
                stack.callback(self._workspace.remove_folder, self._workspace.folder / plan.name)
            if self._delay_at_once or self._delay_s or self._bytes_per_s is not None:
                link = Link(self._workspace, primary, delay_s=self._delay_s if self._delay_at_once else 0.0)
                self._link = stack.enter_context(link)
            route = None if self._link is None else self._link.route
            routed = [replace(plan, route=route) if plan.follows_primary else plan for plan in plans]
            chain = stack.enter_context(Chain(primary, self._workspace, routed, settings))
            yield {plan.name: FollowerHere(chain[plan.name], plan.settings) for plan in plans}

    def slow_down(self) -> None:
        """Slow the link down only now, because a stream begins with a whole segment."""
        if self._link is not None:
            self._link.shape(delay_s=self._delay_s, bytes_per_s=self._bytes_per_s)

    def sever(self) -> None:
        """Cut the link."""
        if self._link is not None:
            self._link.sever()

    def metrics(self) -> Mapping[str, float]:
        """Nothing, because what is emulated is known."""
        return {}

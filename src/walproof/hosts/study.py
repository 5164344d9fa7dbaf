"""Whole runs of one plan, one on each host at a time; comparisons stay inside a host.

A task holds the host's ``walproof_host``, so no other trial of the cluster runs beside it. Two nodes may be
on one machine (raylets in containers): of nodes with the same boot id, one is taken. What a host had stored
when its process or its machine was lost is kept, and the same run continues there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from walproof.errors import HostError, WalproofError
from walproof.hosts.cluster import WITH_SERVERS, Host, RayCluster, last_line, signals_heard

Order = TypeVar("Order")
Tell = Callable[[str], None]
"""Takes a line that says what became of a host."""

_TRIES = 3
"""How often a host is tried whose process is lost."""


class HostAnswer(NamedTuple):
    """What became of a host."""

    host: Host
    answer: str | None
    reason: str | None
    """Why there is no answer."""


def choose(cluster: RayCluster, count: int | None, tell: Tell) -> list[Host]:
    """One node for each machine that was started for trials. Raises HostError for fewer than ``count``."""
    chosen: dict[str, Host] = {}
    for host in cluster.hosts:
        if not host.is_lab:
            continue
        other = chosen.setdefault(host.machine.boot_id, host)
        if other is not host:
            tell(
                f"{host.machine.name} ({host.address}) is the same machine as {other.machine.name}: left out"
            )
    found = list(chosen.values())
    if not found or (count is not None and len(found) < count):
        raise HostError(
            f"the cluster has {len(found)} of the {count or 1} hosts that the study needs",
            detail=f"It has {len(cluster.hosts)} nodes in all.",
            hint="A host is a machine whose node was started with --resources='{\"walproof_host\": 1}'.",
        )
    names = [host.machine.name for host in found]
    if len(set(names)) < len(names):
        raise HostError(
            "two hosts have the same name",
            detail=", ".join(f"{host.machine.name} ({host.address})" for host in found),
            hint="WALPROOF_MACHINE, set when a node is started, names its host.",
        )
    return found[:count]


def on_hosts(
    hosts: Sequence[Host],
    work: Callable[[Order], str],
    orders: Sequence[Order],
    tell: Tell,
    *,
    tries: int = _TRIES,
    again: Callable[[Order], Order] | None = None,
) -> list[HostAnswer]:
    """Run ``work(order)`` on all hosts at the same time. A host that fails is left out, and ``tell`` says so.

    ``work`` is a function of a module: the hosts find it by its name. ``again`` makes the order of a host
    whose process was lost; None: it is the first one.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task: Any = ray.remote(num_cpus=0, resources={"walproof_host": 1}, max_retries=0)(work)

    def start(index: int, order: Order) -> Any:
        node = NodeAffinitySchedulingStrategy(hosts[index].node_id, soft=False)
        return task.options(scheduling_strategy=node, runtime_env=WITH_SERVERS).remote(order)

    under_way = {start(index, orders[index]): (index, 1) for index in range(len(hosts))}
    found: dict[int, HostAnswer] = {}
    while under_way:
        # An unlimited wait would not notice signals.
        with signals_heard():
            (done, _) = ray.wait(list(under_way), num_returns=1, timeout=1.0)
        for reference in done:
            index, begun = under_way.pop(reference)
            host = hosts[index]
            try:
                found[index] = HostAnswer(host, ray.get(reference), None)
                tell(f"{host.machine.name}: done")
            except ray.exceptions.WorkerCrashedError:
                if begun < tries:
                    tell(f"{host.machine.name}: its process was lost and is started again")
                    order = orders[index] if again is None else again(orders[index])
                    under_way[start(index, order)] = (index, begun + 1)
                    continue
                found[index] = HostAnswer(host, None, f"its process was lost {tries} times")
            except ray.exceptions.RayTaskError as error:
                found[index] = HostAnswer(host, None, _reason(error))
            except ray.exceptions.RayError as error:
                found[index] = HostAnswer(host, None, said_loss(error))
            if (reason := found[index].reason) is not None:
                tell(f"{host.machine.name} is left out: {reason}")
    return [found[index] for index in range(len(hosts))]


def _reason(error: Any) -> str:
    cause = getattr(error, "cause", None)
    if isinstance(cause, WalproofError):
        return " ".join(part for part in (cause.message, cause.detail) if part)
    return last_line(error)


def said_loss(error: BaseException) -> str:
    """Why there is no answer when the cluster itself says so. Ray's words on the first two are of its own
    processes, addresses and options."""
    from ray.exceptions import LocalRayletDiedError, NodeDiedError, OutOfMemoryError

    if isinstance(error, (LocalRayletDiedError, NodeDiedError)):
        return "it was lost: its node of the cluster ended or cannot be reached"
    if isinstance(error, OutOfMemoryError):
        return "its memory ran out, and Ray ended the run there"
    return f"it was lost: {last_line(error)}"

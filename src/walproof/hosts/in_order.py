"""Tasks of one core each, a bounded number at a time; answers come in the order of the orders."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from walproof.errors import HostError

if TYPE_CHECKING:
    from ray import ObjectRef

_Order = TypeVar("_Order")
_Answer = TypeVar("_Answer")

IN_FLIGHT_PER_CORE = 3
LOST = 3
"""How often a task whose process or machine was lost is run again."""
_WAIT_S = 1.0
"""An unlimited wait would not notice signals."""


def in_order(
    work: Callable[[_Order], _Answer], orders: Iterable[_Order], cores: int
) -> Iterator[tuple[_Order, _Answer]]:
    """Yield each order with ``work(order)``, computed by some host of the cluster.

    ``work`` is a function of a module: the hosts find it by its name. Raises HostError when a task failed or
    was lost too often.
    """
    import ray

    task: Any = ray.remote(num_cpus=1, max_retries=LOST)(work)
    most = max(1, cores) * IN_FLIGHT_PER_CORE
    under_way: deque[tuple[_Order, ObjectRef[_Answer]]] = deque()

    def first() -> tuple[_Order, _Answer]:
        order, reference = under_way.popleft()
        while not ray.wait([reference], num_returns=1, timeout=_WAIT_S)[0]:
            pass
        return order, ray.get(reference)

    try:
        for order in orders:
            under_way.append((order, task.remote(order)))
            if len(under_way) >= most:
                yield first()
        while under_way:
            yield first()
    except ray.exceptions.RayError as error:
        raise lost(error) from None
    finally:
        for _, reference in under_way:
            ray.cancel(reference)


def lost(error: BaseException) -> HostError:
    """The error for a task that did not end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return HostError(
        "a task of the cluster failed",
        detail=lines[-1] if lines else type(error).__name__,
        hint="Every host has to see the archive under the same path. Without --ray, the command reads it on "
        "this machine.",
    )

"""A standby on another host, as the lab sees it: each question is a call to that host's actor."""

from __future__ import annotations

import math
import time
from typing import Any, Protocol

from walproof.errors import HostError, WalproofError
from walproof.hosts.cluster import last_line
from walproof.lab.follower import Follower
from walproof.probe.stream import StandbyLook
from walproof.units import Lsn
from walproof.workload.books import Books
from walproof.workload.ledger import Record

_LOOK_S = 1.0
"""An unlimited wait would not notice signals."""


class ActorCall(Protocol):
    """Calls a method of a host's actor and waits for its answer."""

    def __call__(self, method: str, *arguments: Any, patience_s: float = math.inf) -> Any:
        """Raises what the method raised, or HostError when the host is lost or takes longer than that."""


def told(actor: Any, name: str) -> ActorCall:
    """A caller of the actor on the host called ``name``."""
    import ray

    def call(method: str, *arguments: Any, patience_s: float = math.inf) -> Any:
        deadline = time.monotonic() + patience_s
        try:
            reference = getattr(actor, method).remote(*arguments)
            while not ray.wait([reference], timeout=_LOOK_S)[0]:
                if time.monotonic() > deadline:
                    raise HostError(f"host {name} did not answer within {patience_s:.0f} s")
            return ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, WalproofError):
                raise cause from None
            raise
        except ray.exceptions.RayActorError as error:
            raise HostError(
                f"host {name}, which has a standby, was lost",
                detail=last_line(error),
                hint="Finished trials are stored, and the same command continues.",
            ) from None
        except ray.exceptions.RayError as error:
            raise HostError(f"host {name} could not be asked", detail=last_line(error)) from None

    return call


class FarFollower(Follower):
    """Forwards every question to the host of the standby."""

    def __init__(self, host: ActorCall) -> None:
        self._told = host

    def _ask(self, what: str, *arguments: Any) -> Any:
        return self._told("ask", what, *arguments)

    def wait_for_replay(self, lsn: Lsn) -> None:
        """Wait on that host until its standby has replayed ``lsn``."""
        self._ask("wait_for_replay", lsn)

    def received(self) -> Lsn:
        """The end of what that standby has received."""
        return Lsn(self._ask("received"))

    def begin_looking(self, replay_cpu_share: float) -> None:
        """Begin looking on that host."""
        self._ask("begin_looking", replay_cpu_share)

    def look(self) -> StandbyLook:
        """One call for each look, for the session and /proc together."""
        seen: StandbyLook = self._ask("look")
        return seen

    def end_looking(self) -> None:
        """End looking on that host."""
        self._ask("end_looking")

    def begin_cpu(self) -> None:
        """Begin counting CPU time on that host."""
        self._ask("begin_cpu")

    def end_cpu(self) -> float:
        """CPU use, of that machine's cores."""
        return float(self._ask("end_cpu"))

    def promote(self) -> float:
        """Promote, timed by that machine's clock."""
        return float(self._ask("promote"))

    def kill(self) -> None:
        """Kill the standby on that host."""
        self._ask("kill")

    def check_books(self, known: Record) -> Books:
        """Send the record there. Its times, by this clock, are only compared with each other."""
        books: Books = self._ask("check_books", known)
        return books

    def log_tail(self) -> str:
        """The end of that standby's log."""
        return str(self._ask("log_tail"))

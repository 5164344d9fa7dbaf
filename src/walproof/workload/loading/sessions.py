"""The clients of a load as walproof sees them: they are started, released at one moment, and waited for."""

from __future__ import annotations

import contextlib
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from walproof.errors import WorkloadError
from walproof.privilege.environment import child_environment
from walproof.privilege.user import server_user, to_words
from walproof.workload.loading.client import Order, SessionOutcome, order_line, read_outcome

_READY_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """All sessions together."""

    began_s: float
    """time.monotonic() when the first began, and when the last ended."""
    ended_s: float
    cpu_s: float
    """CPU of all client processes while they loaded."""


class LoadSessions:
    """Client processes, one for each order. A context manager that leaves none behind."""

    def __init__(self, orders: Sequence[Order]) -> None:
        self._clients: list[subprocess.Popen[str]] = []
        self._orders = orders

    def __enter__(self) -> LoadSessions:
        """Start them and return when each has its rows and its connection. Raises WorkloadError."""
        try:
            for order in self._orders:
                client = subprocess.Popen(
                    # -P: without it, whatever lies in the current folder is imported first.
                    [sys.executable, "-P", "-m", "walproof.workload.loading.client", order.folder,
                     *to_words(server_user())],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd="/",
                    env=child_environment(),
                )  # fmt: skip
                self._clients.append(client)
                _tell(client, order_line(order))
            self._each("ready", "did not become ready", _READY_PATIENCE_S)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End those that still run."""
        self.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids."""
        return tuple(client.pid for client in self._clients)

    def go(self) -> None:
        """Let all begin. Raises WorkloadError."""
        for client in self._clients:
            _tell(client, "go\n")

    def wait(self, patience_s: float) -> Loaded:
        """Wait until all have ended. Raises WorkloadError with the first complaint of a session."""
        found: list[SessionOutcome] = [read_outcome(line) for line in self._lines(patience_s)]
        for outcome in found:
            if outcome.error is not None:
                raise WorkloadError(f"the load failed: {outcome.error}")
        return Loaded(
            min(report.began_s for report in found),
            max(report.ended_s for report in found),
            sum(report.cpu_s for report in found),
        )

    def wait_for_half(self, patience_s: float) -> None:
        """Wait until every session that is to be broken off stands still in its middle. Raises
        WorkloadError."""
        self._each("half", "did not reach its middle", patience_s)

    def close(self) -> None:
        """End every client."""
        for client in self._clients:
            client.kill()
        for client in self._clients:
            client.wait()
            for pipe in (client.stdin, client.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _each(self, word: str, failing: str, patience_s: float) -> None:
        for line in self._lines(patience_s):
            if line.strip() != word:
                said = read_outcome(line).error if line.startswith("{") else None
                raise WorkloadError(f"a loading session {failing}: {said or 'it ended'}")

    def _lines(self, patience_s: float) -> list[str]:
        """The next line of each client. Raises WorkloadError when one is late."""
        deadline = time.monotonic() + patience_s
        lines = []
        for client in self._clients:
            assert client.stdout is not None
            with selectors.DefaultSelector() as selector:
                selector.register(client.stdout, selectors.EVENT_READ)
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise WorkloadError(f"a load did not end within {patience_s:.0f} s")
            line = client.stdout.readline()
            if not line:
                raise _ended(client)
            lines.append(line)
        return lines


def _tell(client: subprocess.Popen[str], line: str) -> None:
    """Write the line to a client. Raises WorkloadError if it has ended."""
    assert client.stdin is not None
    try:
        client.stdin.write(line)
        client.stdin.flush()
    except BrokenPipeError:
        raise _ended(client) from None


def _ended(client: subprocess.Popen[str]) -> WorkloadError:
    return WorkloadError(f"a loading session ended with status {client.wait()}")

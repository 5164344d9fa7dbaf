"""One session that loads: a process of its own, so that its CPU is its own and many can work at once.

    -> the order, a line of JSON        reads its rows, connects
    <- "ready"
    -> "go"                             loads
    <- "half" and waits for ever, when it is to be broken off; else the outcome, a line of JSON

It ends when its standard input is closed: nothing of it outlives walproof. Started by root it becomes the
servers' user before it reads or connects; not sooner, because that user may be unable to read our modules.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from walproof.errors import WorkloadError, one_line
from walproof.facts import LoadFeed
from walproof.privilege.user import become, from_words
from walproof.workload.loading import arrow
from walproof.workload.loading.feeds import FEEDS, READY_BYTES
from walproof.workload.loading.load_target import LoadTarget
from walproof.workload.loading.rows import Rows, value_loaders


@dataclass(frozen=True, slots=True)
class Order:
    """What a session is to do."""

    conninfo: str
    folder: str
    """Folder with the prepared rows."""
    feed: LoadFeed
    batch_rows: int | None
    start: int
    stop: int
    is_broken_off: bool
    target: LoadTarget


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """What a session did. Times are of time.monotonic(), which all processes of a machine share."""

    began_s: float
    ended_s: float
    cpu_s: float
    error: str | None = None


def order_line(order: Order) -> str:
    """The order, as a line of JSON."""
    return json.dumps(asdict(order)) + "\n"


def read_order(line: str) -> Order:
    """From a line of JSON."""
    data = json.loads(line)
    target: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.pop("target").items()
    }
    return Order(**data, target=LoadTarget(**target))


def main() -> None:
    """Do what standard input orders."""
    order = read_order(sys.stdin.readline())
    feed = FEEDS[order.feed]
    # Both import modules, which the servers' user may be unable to read.
    loaders = None if order.feed in READY_BYTES else value_loaders(order.target.bases)
    if order.feed == "adbc":
        arrow.load_driver()
    user = from_words(sys.argv[2:])
    if user is not None:
        become(user)
    rows = Rows(
        Path(order.folder),
        order.start,
        order.stop,
        loaders=loaders,
        halt=_halt if order.is_broken_off else None,
    )
    try:
        session = psycopg.connect(order.conninfo, autocommit=True)
    except psycopg.Error as error:
        _say(json.dumps(asdict(SessionOutcome(0.0, 0.0, 0.0, one_line(error)))))
        return
    _say("ready")
    if sys.stdin.readline() != "go\n":
        return
    # From here on, a closed input ends the process, whatever it is doing.
    threading.Thread(target=_end_with_input, daemon=True).start()
    began_s, cpu_s, said = time.monotonic(), time.process_time(), None
    try:
        feed(session, order.target, rows, order.batch_rows)
    except psycopg.Error as error:
        said = error.diag.message_primary or one_line(error)
        if error.diag.context:
            said += f" ({error.diag.context.splitlines()[0]})"
    except WorkloadError as error:
        said = error.message
    outcome = SessionOutcome(began_s, time.monotonic(), time.process_time() - cpu_s, said)
    session.close()
    _say(json.dumps(asdict(outcome)))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _halt() -> None:
    _say("half")
    threading.Event().wait()


def _end_with_input() -> None:
    import os

    sys.stdin.read()
    os._exit(1)


def read_outcome(line: str) -> SessionOutcome:
    """From a line of JSON."""
    return SessionOutcome(**json.loads(line))


if __name__ == "__main__":
    main()

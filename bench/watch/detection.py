"""How soon ``walproof watch`` names a trouble, and that it names nothing of a healthy pair.

    PYTHONPATH=. python bench/watch/detection.py [--pg 18] [--healthy 3600] [--only "idle slot,..."]

A primary and a standby, both watched, under a load of about 2 MB of WAL a second. First nothing is wrong for
--healthy seconds. Then one trouble after the other begins, is named within 30 s, ends, and is named no more.
Status 1 where one is not, or where something is named that is not wrong.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.live.pair import WATCHER, Pair, running_pair, watcher, writing
from tests.postgres.replication import SETTINGS, run
from walproof.cli.watch_order import ServerOrder, WatchOrder
from walproof.cli.watched import Fleet
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

NAMED_S = 30.0
GONE_S = 180.0
LOAD_BYTES_PER_S = 2_000_000
_ROWS = 300_000
TABLES = (
    "CREATE TABLE orders (id uuid PRIMARY KEY, n int)",
    f"INSERT INTO orders SELECT gen_random_uuid(), n FROM generate_series(1, {_ROWS}) n",
    "CREATE TABLE old (n int, filler text) WITH (autovacuum_enabled = off)",
    f"INSERT INTO old SELECT n, repeat('o', 200) FROM generate_series(1, {4 * _ROWS}) n",
    # Else VACUUM sets hint bits first, whose images are no records that freeze.
    "SELECT count(*) FROM old",
    "CREATE TABLE wide (n int, filler text) WITH (autovacuum_enabled = off)",
    f"INSERT INTO wide SELECT n, repeat('w', 200) FROM generate_series(1, {4 * _ROWS}) n",
    "CREATE TABLE few (n int)",
    "INSERT INTO few SELECT generate_series(1, 1000)",
    "CHECKPOINT",
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A trouble: what is done to a pair while a block lasts, and the begin of the concern's key."""

    name: str
    concern: str
    made: Callable[[Pair, Path], AbstractContextManager[None]]
    says: str = ""
    """What its sentence has."""


@contextmanager
def _archiver_stuck(pair: Pair, flag: Path) -> Iterator[None]:
    flag.touch()
    try:
        run(pair.primary, "SELECT pg_switch_wal()")
        yield
    finally:
        flag.unlink()


@contextmanager
def _idle_slot(pair: Pair, flag: Path) -> Iterator[None]:
    run(pair.primary, "SELECT pg_create_physical_replication_slot('etl', true)")
    try:
        yield
    finally:
        run(pair.primary, "SELECT pg_drop_replication_slot('etl')")


@contextmanager
def _narrow_link(pair: Pair, flag: Path) -> Iterator[None]:
    pair.link.shape(bytes_per_s=300_000)
    try:
        yield
    finally:
        pair.link.shape()


@contextmanager
def _long_query(pair: Pair, flag: Path) -> Iterator[None]:
    with pair.standby.connect() as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT count(*) FROM few")
        run(pair.primary, "UPDATE few SET n = n + 1", "VACUUM few")
        yield
        session.execute("ROLLBACK")


@contextmanager
def _repeated(pair: Pair, *statements: str) -> Iterator[None]:
    stopping = threading.Event()

    def write() -> None:
        while not stopping.is_set():
            run(pair.primary, *statements)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _uuid_index(pair: Pair, flag: Path) -> AbstractContextManager[None]:
    # The index is small: with a checkpoint after each, pages are written for the first time again and again.
    insert = "INSERT INTO orders SELECT gen_random_uuid(), n FROM generate_series(1, 2000) n"
    return _repeated(pair, insert, "CHECKPOINT")


def _freezing(pair: Pair, flag: Path) -> AbstractContextManager[None]:
    return _repeated(
        pair, "VACUUM (FREEZE) old",
        f"INSERT INTO old SELECT n, repeat('o', 200) FROM generate_series(1, {_ROWS // 10}) n",
    )  # fmt: skip


def _bulk_update(pair: Pair, flag: Path) -> AbstractContextManager[None]:
    return _repeated(pair, "UPDATE wide SET n = n + 1", "VACUUM wide")


TROUBLES = (
    Trouble("stuck archiver", "archiver", _archiver_stuck, "stuck"),
    Trouble("idle slot", "slot etl", _idle_slot, "Nobody reads"),
    Trouble("narrow link", "standby ", _narrow_link, "network"),
    Trouble("long query on the standby", "standby ", _long_query, "conflict"),
    Trouble("uuid index", "index ", _uuid_index, "random order"),
    Trouble("bulk UPDATE", "bulk update ", _bulk_update, "wide"),
    Trouble("freezing", "freezing ", _freezing, "old"),
)


def main() -> None:
    """A line for each trouble."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--pg", default="18")
    parser.add_argument("--healthy", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--only", default="", help="troubles, with commas between them")
    parser.add_argument("--on", type=Path, default=Path("/var/tmp/walproof-watch"))
    given = parser.parse_args()
    user = server_user()
    install = reachable_install(find(given.pg), user)
    with Workspace(given.on, user) as workspace:
        flag = workspace.make_folder("flags") / "stuck"
        settings = {
            **SETTINGS, "archive_mode": "on", "max_replication_slots": "10", "max_wal_size": "1GB",
            "archive_command": f"while test -e {flag}; do sleep 0.2; done",
            "max_standby_streaming_delay": "-1",
        }  # fmt: skip
        with running_pair(install, workspace, settings) as pair:
            run(pair.primary, f"ALTER ROLE {WATCHER} REPLICATION", *TABLES)
            pair.catch_up()
            servers = (
                ServerOrder(watcher(pair.primary), "primary"),
                ServerOrder(watcher(pair.standby), "standby", streams=False),
            )
            with Fleet(WatchOrder(servers)) as fleet, writing(pair.primary, LOAD_BYTES_PER_S):
                _stay_calm(fleet, given.healthy)
                chosen = [
                    trouble for trouble in TROUBLES if not given.only or trouble.name in given.only.split(",")
                ]
                missed = [trouble.name for trouble in chosen if not _is_named(fleet, trouble, pair, flag)]
    if missed:
        raise SystemExit(f"not named within {NAMED_S:.0f} s: {', '.join(missed)}")


def _said(fleet: Fleet) -> dict[str, str]:
    """Return key -> sentence for every concern."""
    return {concern.key: concern.sentence for view in fleet.views(2.0) for concern in view.concerns}


def _stay_calm(fleet: Fleet, seconds: float) -> None:
    _until(fleet, lambda said: not said, GONE_S)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        if said := _said(fleet):
            raise SystemExit(f"named of a healthy pair: {said}")
        time.sleep(1.0)
    print(f"healthy for {seconds:.0f} s: nothing is named", flush=True)


def _is_named(fleet: Fleet, trouble: Trouble, pair: Pair, flag: Path) -> bool:
    def is_it(said: dict[str, str]) -> bool:
        return any(key.startswith(trouble.concern) and trouble.says in text for key, text in said.items())

    with trouble.made(pair, flag):
        took_s = _until(fleet, is_it, 2 * NAMED_S)
        said = _said(fleet)
    text = "not named" if took_s is None else f"named after {took_s:.1f} s"
    print(f"{trouble.name}: {text}; said: {said}", flush=True)
    gone_s = _until(fleet, lambda said: not said, GONE_S)
    print(f"  over: {'still named' if gone_s is None else f'named no more after {gone_s:.1f} s'}", flush=True)
    return took_s is not None and took_s <= NAMED_S


def _until(fleet: Fleet, is_so: Callable[[dict[str, str]], bool], patience_s: float) -> float | None:
    """Wait for a condition; return the seconds that it took, or None if it did not come true."""
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + patience_s:
        if is_so(_said(fleet)):
            return time.monotonic() - begun_s
        time.sleep(0.3)
    return None


if __name__ == "__main__":
    main()

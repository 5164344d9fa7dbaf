"""Crashes beside what ``walproof watch`` forecast just before: does the band hold, how far off is it?

    PYTHONPATH=. python bench/watch/crashes.py [--crashes 100] [--minutes 50] [--pg 15,18] [--on FOLDER]
    PYTHONPATH=. python bench/watch/crashes.py --summary

Five loads run on servers that are watched, each to a distance of its own. Every other crash is a kill -9 in
place: the server syncs its data directory, replays and is back, with what the watch had said a moment before
beside it. The others are copies of the files, recovered three times with a warm cache, whose spread is what
the machine itself repeats by. Each crash is appended to bench/watch/crashes.jsonl when it is over; the same
command goes on where it was stopped, and --minutes ends it between two crashes. Costs are those of a
calibration of this machine (bench/watch/calibration-VERSION.json), which is made where it is missing.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from statistics import median
from typing import Any

from bench.recovery.workloads import WORKLOADS
from bench.rows import read_rows
from bench.watch.loaded import LoadedServer, is_at, loaded_server, until, watching
from walproof.facts import Install
from walproof.facts.calibration import write_calibration
from walproof.facts.recovery_log import RecoveryTimes, read_recovery_log
from walproof.facts.watch import CrashClock
from walproof.lab.recovery.calibration import calibrate
from walproof.lab.recovery.crash import recover, take_crash_image
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

HERE = Path("bench/watch")
LOADS = ("tpcb", "orders", "bulk", "purge", "toast")
REPEATS = 3
SETTINGS = {
    "fsync": "on", "synchronous_commit": "off", "max_wal_size": "20GB", "checkpoint_timeout": "1h",
    "shared_buffers": "128MB", "log_checkpoints": "on", "max_wal_senders": "10",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Order:
    """A crash to be made."""

    pg: str
    load: str
    number: int

    @property
    def way(self) -> str:
        """``in place`` or ``copy``, in turns."""
        return "in place" if (self.number + LOADS.index(self.load)) % 2 == 0 else "copy"

    def distance_bytes(self, least_mb: int, most_mb: int) -> int:
        """WAL since the redo point, the same for the same crash whenever it is made."""
        return random.Random(repr(self)).randint(least_mb, most_mb) << 20


def main() -> None:
    """Make the crashes that are missing, or sum up what there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="15,18", help="versions, with commas between them")
    parser.add_argument("--crashes", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="begin no crash after so long")
    parser.add_argument("--on", type=Path, default=Path("/var/tmp/walproof-watch"))
    parser.add_argument("--calibration-share", type=float, default=1.0, help="of the calibration's load")
    parser.add_argument("--least-mb", type=int, default=64, help="WAL since the redo point")
    parser.add_argument("--most-mb", type=int, default=400)
    parser.add_argument("--out", type=Path, default=HERE / "crashes.jsonl")
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    if not given.summary:
        _make(given)
    summarise(_stored(given.out))


def orders(versions: list[str], crashes: int) -> list[Order]:
    """The crashes, those of a server together; of every server as many, or one more."""
    servers = [(pg, load) for pg in versions for load in LOADS]
    every = (Order(pg, load, number) for number in range(crashes) for pg, load in servers)
    chosen = list(islice(every, crashes))
    return sorted(chosen, key=lambda order: (servers.index((order.pg, order.load)), order.number))


def _make(given: argparse.Namespace) -> None:
    until_s = None if given.minutes is None else time.monotonic() + 60 * given.minutes
    done = {(row["pg"], row["load"], row["number"]) for row in _stored(given.out)}
    missing = [
        order
        for order in orders(given.pg.split(","), given.crashes)
        if (order.pg, order.load, order.number) not in done
    ]
    user = server_user()
    with Workspace(given.on, user) as workspace:
        for pg, of_version in groupby(missing, key=lambda order: order.pg):
            install = reachable_install(find(pg), user)
            calibration = _calibrated(install, workspace, given.out.parent, given.calibration_share)
            for load, of_load in groupby(of_version, key=lambda order: order.load):
                if until_s is not None and time.monotonic() > until_s:
                    return
                workload = next(known for known in WORKLOADS if known.name == load)
                with loaded_server(install, workspace, workload, SETTINGS) as server:
                    for order in of_load:
                        if until_s is not None and time.monotonic() > until_s:
                            return
                        begun_s = time.monotonic()
                        distance = order.distance_bytes(given.least_mb, given.most_mb)
                        row = crash(server, order, distance, workspace, calibration)
                        row["took_s"] = time.monotonic() - begun_s
                        with given.out.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                        print(_line(row), flush=True)


def _calibrated(install: Install, workspace: Workspace, folder: Path, share: float) -> Path:
    path = folder / f"calibration-{install.version_num // 10000}.json"
    if not path.exists():
        write_calibration(
            path, calibrate(install, workspace, lambda what: print(what, flush=True), share=share)
        )
    return path


def crash(
    server: LoadedServer, order: Order, distance_bytes: int, workspace: Workspace, calibration: Path
) -> dict[str, Any]:
    """Carry out a crash; return its measured times and the forecast before it."""
    with server.cluster.connect() as session:
        session.execute("CHECKPOINT")
    end = server.lsn() + distance_bytes
    with watching(server.conninfo, calibration=calibration) as fleet:
        while server.lsn() < end:
            server.burst(2)
            fleet.views()
        view = until(fleet, is_at(server.lsn()))
        assert view.clock is not None
        row = {
            "pg": order.pg, "version": server.cluster.install.version, "load": order.load,
            "number": order.number, "way": order.way, **_said(view.clock),
        }  # fmt: skip
        if order.way == "copy":
            image = take_crash_image(server.cluster, workspace.make_folder("image"))
        else:
            server.cluster.kill()
            killed_s = time.monotonic()
    if order.way == "copy":
        try:
            settings = {name: value for name, value in server.settings.items() if name != "max_wal_senders"}
            found = [recover(image, workspace, settings).times for _ in range(REPEATS)]
        finally:
            workspace.remove_folder(image.folder)
        return {**row, "measured": [_measured(recovery) for recovery in found]}
    server.cluster.forget_postmaster()
    server.cluster.start(server.settings)
    back_s = time.monotonic() - killed_s
    return {**row, "away_s": back_s, "measured": [_measured(read_recovery_log(server.cluster.log_text()))]}


def _said(clock: CrashClock) -> dict[str, Any]:
    assert clock.sync is not None
    return {
        "distance_bytes": clock.distance_bytes, "costs": clock.costs,
        "said": {"seconds": clock.warm.seconds, "low": clock.warm.low, "high": clock.warm.high},
        "said_redo_s": clock.redo_s, "said_checkpoint_s": clock.checkpoint_s,
        "said_sync": {"seconds": clock.sync.span.seconds, "low": clock.sync.span.low,
                      "high": clock.sync.span.high},
        "files": clock.sync.files, "dirty_bytes": clock.sync.dirty_bytes, "method": clock.sync.method,
    }  # fmt: skip


def _measured(times: RecoveryTimes) -> dict[str, Any]:
    return {
        "total_s": times.total_s, "before_redo_s": times.before_redo_s, "redo_s": times.redo_elapsed_s,
        "redo_cpu_s": times.cpu_s,
        "checkpoint_s": times.checkpoint.total_s if times.checkpoint else None,
    }  # fmt: skip


def _stored(path: Path) -> list[dict[str, Any]]:
    return read_rows(path) if path.exists() else []


def judged(row: dict[str, Any]) -> tuple[dict[str, float], float]:
    """(what was said: seconds, low, high; the median of what was measured).

    A copy is on the disk when it is recovered: of its sync nothing was said.
    """
    said = row["said"]
    if row["way"] == "copy":
        said = {key: said[key] - row["said_sync"][key] for key in said}
        return said, median(times["total_s"] - times["before_redo_s"] for times in row["measured"])
    return said, row["measured"][0]["total_s"]


def _line(row: dict[str, Any]) -> str:
    said, measured = judged(row)
    held = "holds" if said["low"] <= measured <= said["high"] else "does not hold"
    return (
        f"{row['version']:6} {row['load']:7} {row['way']:8} {row['distance_bytes'] / 1e6:6.0f} MB  "
        f"said {said['seconds']:6.2f} s ({said['low']:.2f} to {said['high']:.2f})  "
        f"measured {measured:6.2f} s  {held}  ({row['took_s']:.0f} s)"
    )


def summarise(rows: list[dict[str, Any]]) -> None:
    """Print counts and medians of all and of each way, then those of the sync and of the repeats."""
    for name, some in (("all", rows), *((way, [row for row in rows if row["way"] == way])
                                        for way in ("in place", "copy"))):  # fmt: skip
        pairs = [judged(row) for row in some]
        if not pairs:
            continue
        held = sum(said["low"] <= measured <= said["high"] for said, measured in pairs)
        errors = [abs(said["seconds"] / measured - 1) for said, measured in pairs]
        print(f"{name}: {len(pairs)} crashes, the band holds in {held}, median error {median(errors):.1%}")
    syncs = [
        (row["said_sync"], row["measured"][0]["before_redo_s"]) for row in rows if row["way"] == "in place"
    ]
    if syncs:
        held = sum(said["low"] <= measured <= said["high"] for said, measured in syncs)
        ratios = [said["seconds"] / measured for said, measured in syncs if measured > 0]
        print(
            f"sync before redo: {len(syncs)} in place, the band holds in {held}"
            + (f", forecast over measured {min(ratios):.2f} to {max(ratios):.2f}, median {median(ratios):.2f}"
               if ratios else "")
        )  # fmt: skip
    spreads = list(_spreads(rows))
    if spreads:
        print(f"repeats of a copy: the longest is longer than the shortest by {median(spreads):.1%} (median)")


def _spreads(rows: list[dict[str, Any]]) -> Iterator[float]:
    for row in rows:
        times = [times["total_s"] - times["before_redo_s"] for times in row["measured"]]
        if len(times) > 1 and min(times) > 0:
            yield max(times) / min(times) - 1


if __name__ == "__main__":
    main()

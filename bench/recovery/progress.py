"""What ``walproof recovery progress`` says on the way, beside what then happened.

    PYTHONPATH=. python bench/recovery/progress.py [--pg 15,18] [--megabytes 600] [--minutes N] [--out FILE]

Five loads run on servers that never checkpoint; a copy of the files of each is recovered with a warm and with
a cold cache, while it is followed as by the command. After each tenth of the time that the recovery took, the
time that was said to be left is compared with the time that was left; beside it stands what the bytes that
are left would take at the mean speed so far. Costs are the shipped ones, as on a machine that was never
calibrated. A recovery is a line of JSON in --out when it is over; the same command goes on where it was
stopped, and sums up what there is.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.recovery.workloads import WORKLOADS
from bench.rows import read_rows
from bench.watch.loaded import loaded_server
from walproof.analysis.forecast import Costs
from walproof.analysis.recovery_progress import recovery_progress
from walproof.cli.recovery_progress import predicted_course
from walproof.errors import ClusterError
from walproof.facts.recovering import RecoveryPhase, RecoverySight
from walproof.lab.recovery.crash import Cache, CrashImage, recover, take_crash_image
from walproof.postgres.control_file import read_redo
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.recovering import RecoveringServer

LOADS = ("tpcb", "orders", "bulk", "purge", "toast")
BUFFERS_MB = 128
SETTINGS = {
    "fsync": "on", "synchronous_commit": "off", "max_wal_size": "20GB", "checkpoint_timeout": "1h",
    "shared_buffers": f"{BUFFERS_MB}MB", "log_checkpoints": "on",
}  # fmt: skip
LOOK_S = 0.05
TENTHS = range(1, 10)


def main() -> None:
    """Carry out the recoveries that are missing, and sum up all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="15,18", help="versions, with commas between them")
    parser.add_argument("--megabytes", type=int, default=600, help="WAL since the redo point")
    parser.add_argument("--minutes", type=float, help="begin no load after so long")
    parser.add_argument("--on", type=Path, default=Path("/var/tmp/walproof-progress"))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("progress.jsonl"))
    given = parser.parse_args()
    rows = read_rows(given.out) if given.out.exists() else []
    done = {(row["pg"], row["load"]) for row in rows}
    begun_s, user = time.monotonic(), server_user()
    with Workspace(given.on, user) as workspace:
        for pg in given.pg.split(","):
            for load in LOADS:
                is_late = given.minutes is not None and time.monotonic() - begun_s > 60 * given.minutes
                if (pg, load) in done or is_late:
                    continue
                for row in recoveries(pg, load, given.megabytes, workspace):
                    rows.append(row)
                    with given.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(f"{pg} {load} {row['cache']}: {row['took_s']:.1f} s", flush=True)
    summarise(rows)


def recoveries(pg: str, load: str, megabytes: int, workspace: Workspace) -> list[dict[str, Any]]:
    """Fill a server, copy it, and follow the recoveries of the copy."""
    install = reachable_install(find(pg), workspace.user)
    workload = next(known for known in WORKLOADS if known.name == load)
    with loaded_server(install, workspace, workload, SETTINGS) as server:
        with server.cluster.connect() as session:
            session.execute("CHECKPOINT")
        end = server.lsn() + (megabytes << 20)
        while server.lsn() < end:
            server.burst(2)
        image = take_crash_image(server.cluster, workspace.make_folder("image"))
    try:
        return [_followed(image, cache, pg, load, workspace) for cache in (Cache.WARM, Cache.COLD)]
    finally:
        workspace.remove_folder(image.folder)


def _followed(image: CrashImage, cache: Cache, pg: str, load: str, workspace: Workspace) -> dict[str, Any]:
    data = workspace.folder / "recovery" / "data"
    sights: list[RecoverySight] = []
    following = threading.Thread(target=_follow, args=(data, sights), daemon=True)
    following.start()
    recover(image, workspace, SETTINGS, cache)
    following.join(30)
    redo, timeline = read_redo(image.folder / "data")
    buffers = (BUFFERS_MB << 20) // 8192
    course = predicted_course(image.folder / "data" / "pg_wal", redo, timeline, buffers, Costs())
    begun = next(at for at, sight in enumerate(sights) if sight.segment is not None)
    over_s = sights[-1].at_s
    took_s = over_s - sights[begun].at_s
    moments = []
    for tenth in TENTHS:
        until_s = sights[begun].at_s + took_s * tenth / 10
        seen = [sight for sight in sights if sight.at_s <= until_s]
        said = recovery_progress(course, seen)
        assert said.left is not None
        at = course.end if said.at is None else said.at
        bytes_per_s = (at - course.start) / (seen[-1].at_s - sights[begun].at_s)
        moments.append({
            "tenth": tenth, "phase": said.phase.value, "done": said.done, "said_s": said.left.seconds,
            "low_s": said.left.low, "high_s": said.left.high, "left_s": over_s - seen[-1].at_s,
            "by_bytes_s": (course.end - at) / bytes_per_s if bytes_per_s > 0 else None,
        })  # fmt: skip
    return {
        "pg": pg, "version": image.install.version, "load": load, "cache": cache.value, "took_s": took_s,
        "wal_bytes": course.end - course.start, "moments": moments,
    }  # fmt: skip


def _follow(data: Path, sights: list[RecoverySight]) -> None:
    """Look from the moment that there is a server until it is ready or gone."""
    server = None
    while not sights or sights[-1].phase is not RecoveryPhase.OVER:
        try:
            server = server or RecoveringServer(data)
            sights.append(server.look())
        except ClusterError:
            if sights:
                return
        time.sleep(LOOK_S)


def summarise(rows: list[dict[str, Any]]) -> None:
    """Print for each tenth of the time: the median error, and how often the band held."""
    for cache in ("warm", "cold"):
        some = [row for row in rows if row["cache"] == cache]
        if not some:
            continue
        took_s = [row["took_s"] for row in some]
        print(f"{cache} cache: {len(some)} recoveries, {min(took_s):.1f} to {max(took_s):.1f} s")
        for tenth in TENTHS:
            moments = [moment for row in some for moment in row["moments"] if moment["tenth"] == tenth]
            held = sum(moment["low_s"] <= moment["left_s"] <= moment["high_s"] for moment in moments)
            print(
                f"  after {tenth * 10} %: off by {_error(moments, 'said_s')} in the median (by bytes: "
                f"{_error(moments, 'by_bytes_s')}), the band holds in {held} of {len(moments)}"
            )


def _error(moments: list[dict[str, Any]], name: str) -> str:
    known = [moment for moment in moments if moment[name] is not None]
    errors = [abs(moment[name] / moment["left_s"] - 1) for moment in known]
    return f"{median(errors):.0%}" if errors else "unknown"


if __name__ == "__main__":
    main()

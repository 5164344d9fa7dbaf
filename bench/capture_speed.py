"""How fast WAL is received: walproof against pg_receivewal, from the same server over TCP on this machine.

    PYTHONPATH=. python bench/capture_speed.py [--pg 18] [--rounds N] [--megabytes N] [--work DIR]

A server of the bench's own keeps a backlog of WAL for a slot. In each round both receive all of it, from a
copy of that slot, in random order: pg_receivewal of the server's version, and walproof's own receiver. Both
flush each segment to the disk that holds the folders. Each is a process of its own; of walproof's, Python's
start and imports are left out. Printed are the ratio of wall times and the CPU of each.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import secrets
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.wal.server import BINDIRS, Server
from walproof.analysis.interval import mean_interval
from walproof.lab.receiver import SegmentReceiver
from walproof.lab.segments import SegmentFolder
from walproof.probe.bursts import BurstStream, may_rest
from walproof.probe.connection import connect_foreign, streaming_parameters
from walproof.settings.session import PATIENCE_S
from walproof.units import Lsn

SEGMENT = 16 << 20
PATIENT_S = 600.0


def main() -> None:
    """Print each round, then the ratio of times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="18", choices=[version for version in BINDIRS if int(version) >= 15])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--receive", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.receive is not None:
        receive(*arguments.receive)
        return
    # An address of this machine that nobody else listens on, instead of another port.
    address = f"127.{secrets.randbelow(250) + 2}.{secrets.randbelow(250)}.{secrets.randbelow(250) + 2}"
    settings = {"listen_addresses": address, "max_wal_size": "32GB", "wal_level": "replica"}
    wall: dict[str, list[float]] = {"pg_receivewal": [], "walproof": []}
    cpu: dict[str, list[float]] = {name: [] for name in wall}
    with Server(BINDIRS[arguments.pg]) as server:
        server.stop()
        server.configure(settings)
        server.start()
        start, end = fill(server, arguments.megabytes)
        dice, order = random.Random(1), list(wall)
        for number in range(-1, arguments.rounds):  # the first round warms up
            dice.shuffle(order)
            for name in order:
                folder = arguments.work / f"walproof-capture-speed-{secrets.token_hex(4)}"
                folder.mkdir()
                try:
                    seconds, spent = take(name, server, address, folder, start, end)
                    assert (
                        len([path for path in folder.iterdir() if len(path.name) == 24])
                        == (end - start) // SEGMENT
                    )
                finally:
                    shutil.rmtree(folder)
                if number >= 0:
                    wall[name].append(seconds)
                    cpu[name].append(spent)
                    print(f"round {number}: {name} {seconds:.2f} s, CPU {spent:.2f} s", flush=True)
    show(end - start, wall, cpu)


def fill(server: Server, megabytes: int) -> tuple[Lsn, Lsn]:
    """Write a backlog that a slot keeps; return its segments."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE t (i int, s text)")
        connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
        connection.execute("SELECT pg_create_physical_replication_slot('backlog', true)")
    begun = server.insert_lsn()
    while server.insert_lsn() - begun < megabytes << 20:
        with server.connect() as connection:
            connection.execute("INSERT INTO t SELECT g, repeat('x', 300) FROM generate_series(1, 100000) g")
    with server.connect() as connection:
        connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
    end = server.insert_lsn()
    return Lsn(begun - begun % SEGMENT), Lsn(end - end % SEGMENT)


def take(name: str, server: Server, address: str, folder: Path, start: Lsn, end: Lsn) -> tuple[float, float]:
    """Receive the backlog; return seconds of wall time and of CPU."""
    slot = f"round_{secrets.token_hex(4)}"
    with server.connect() as connection:
        connection.execute("SELECT pg_copy_physical_replication_slot('backlog', %s)", [slot])
    conninfo = f"host={address} user=postgres dbname=postgres"
    if name == "walproof":
        command = [sys.executable, __file__, "--receive", conninfo, str(folder), str(start), str(end)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        measured = json.loads(done.stdout)
        seconds, spent = float(measured["seconds"]), float(measured["cpu_s"])
    else:
        program = str(server.bindir / "pg_receivewal")
        command = [
            program,
            "-D",
            str(folder),
            "-d",
            conninfo,
            f"--slot={slot}",
            f"--endpos={end}",
            "--no-loop",
        ]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with server.connect() as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    return seconds, spent


def receive(conninfo: str, folder: str, start: str, end: str) -> None:
    """Receive as ``wal capture`` does; runs in a process of its own."""
    first, last = Lsn.parse(start), Lsn.parse(end)
    began, spent = time.monotonic(), time.process_time()
    with connect_foreign(conninfo) as control:
        parameters = streaming_parameters(conninfo, control, PATIENCE_S)
        with (
            BurstStream(
                parameters, "walproof_bench", rests=may_rest(control), timeout_s=PATIENCE_S
            ) as stream,
            SegmentFolder(Path(folder), 1, SEGMENT, first) as segments,
        ):
            stream.start(first, 1)
            with SegmentReceiver(stream, segments, PATIENCE_S, lambda: None) as receiver:
                receiver.wait_for(last, PATIENT_S)
                receiver.stop()
                assert receiver.position >= last, receiver.ended
    print(json.dumps({"seconds": time.monotonic() - began, "cpu_s": time.process_time() - spent}))


def show(count: int, wall: dict[str, list[float]], cpu: dict[str, list[float]]) -> None:
    """Print medians, and the ratio of rates with its interval."""
    print(f"\n{count / 1e6:.0f} MB, {len(wall['walproof'])} rounds")
    for name, times in wall.items():
        middle = statistics.median(times)
        print(
            f"  {name:<14} {middle:.2f} s ({min(times):.2f}-{max(times):.2f}),"
            f" {count / middle / 1e6:.0f} MB/s, CPU {statistics.median(cpu[name]):.2f} s"
        )
    logs = [math.log(a / b) for a, b in zip(wall["pg_receivewal"], wall["walproof"], strict=True)]
    interval = mean_interval(logs)
    if interval is not None:
        ratio = interval.exp()
        print(
            f"  rate of walproof / rate of pg_receivewal: {math.exp(statistics.fmean(logs)):.2f} "
            f"({ratio.low:.2f} to {ratio.high:.2f}, 95 %)"
        )


if __name__ == "__main__":
    main()

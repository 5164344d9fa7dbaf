"""What reading an archive from an object store takes: memory, and time beside the client library alone.

    PYTHONPATH=. python bench/objects/speed.py
    PYTHONPATH=. python bench/objects/speed.py --objects 0 --paced 40 20
    PYTHONPATH=. python bench/objects/speed.py --objects 2000 --segments 4 --rounds 1

An S3 server (moto) runs on loopback, in a process of its own, with two archives: 1 GB in 64 plain segments of
16 MB, a record on every page, so that decoding costs as little as it can; and 50,000 small objects, each a
segment of 1 MB that was switched at once, packed with gzip. ``--paced MB MS`` takes another server, which
costs little CPU; each of its answers begins after MS milliseconds and flows at MB/s, as with real stores.
Every round has each reader once, in an order drawn anew:

- ``library`` fetches whole objects with the client library, ten at a time, and does nothing with them;
- ``reader`` is what fetches for walproof's decoder, asked for every byte by as many threads, and no more;
- ``wal stats`` and ``wal verify`` decode, too; ``stats here`` and ``verify here`` decode the same files in a
  folder. On two cores, which the server needs as well, a store's time is that of fetching and decoding.

Printed are medians of seconds (from before the listing on, without the start of Python) and the ratio of the
library's time to each reader's, within rounds, with the least and the largest. The server's time, on the same
cores, is in every figure but those of a folder. Memory is the peak resident set of the process.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

from bench.objects.filled import MB, Filling, filled_server
from bench.objects.paced import paced_server
from tests.wal.places.server import S3, url

SEED = 27
# A command that has read a store leaves by os._exit.
_TIMED = """
import atexit, os, sys, time
def begin():
    began, leave = time.monotonic(), os._exit
    def tell():
        peak = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
        print(time.monotonic() - began, int(peak) >> 10, file=sys.stderr, flush=True)
    def tell_and_leave(status):
        tell()
        leave(status)
    atexit.register(tell)
    os._exit = tell_and_leave
"""
LIBRARY = """
from concurrent.futures import ThreadPoolExecutor
import obstore
from walproof.wal.places.client import open_client
bucket, prefix = sys.argv[1][5:].split("/", 1)
begin()
client = open_client("s3", bucket)
keys = [one["path"] for chunk in obstore.list(client, prefix) for one in chunk]
with ThreadPoolExecutor(10) as threads:
    print(sum(threads.map(lambda key: len(obstore.get(client, key).bytes()), keys)))
"""
READER = """
import os, threading
import obstore
from walproof.wal.places.opened import open_places
from walproof.wal.places.window import PIECE_BYTES
begin()
with open_places(sys.argv[1:]) as (place,):
    found = place.source()
    threads = place.read_by(len(os.sched_getaffinity(0)))
    step = max(1, (16 << 20) // max(size for _, size, _ in found.objects))
    parts = iter([found.objects[at : at + step] for at in range(0, len(found.objects), step)])
    read, lock = [], threading.Lock()
    def work():
        while True:
            with lock:
                part = next(parts, None)
            if part is None:
                return
            for path, size, _ in part:
                for number in range(-(-size // PIECE_BYTES)):
                    read.append(len(found.reader.piece(path, number)))
    working = [threading.Thread(target=work) for _ in range(threads)]
    for one in working: one.start()
    for one in working: one.join()
    print(sum(read))
"""
WALPROOF = """
import obstore, walproof.wal.totals, walproof.wal.verify.verify, walproof.report.wal.view
from walproof.cli import main
begin()
main()
"""
Readers = dict[str, tuple[str, list[str]]]


def run(program: str, words: list[str], server: S3) -> tuple[float, int]:
    """Run a reader; return seconds and peak MB."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _TIMED + program, *words],
        env={**os.environ, **server.environment()}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(f"{words}: status {done.returncode}\n{done.stderr}")
    took_s, peak_mb = done.stderr.split()[-2:]
    return float(took_s), int(peak_mb)


def measure(server: S3, filling: Filling, folder: Path, rounds: int, chosen: Sequence[str]) -> None:
    """A line for each reader."""
    filling.write(folder)
    address = url(filling.prefix)
    readers: Readers = {
        "library": (LIBRARY, [address]),
        "reader": (READER, [address]),
        "wal stats": (WALPROOF, ["wal", "stats", "--json", address]),
        "wal verify": (WALPROOF, ["wal", "verify", "--json", address]),
        "stats here": (WALPROOF, ["wal", "stats", "--json", str(folder)]),
        "verify here": (WALPROOF, ["wal", "verify", "--json", str(folder)]),
    }
    readers = {name: reader for name, reader in readers.items() if not chosen or name in chosen}
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    peaks_mb: dict[str, list[int]] = {name: [] for name in readers}
    drawn = random.Random(SEED)
    for _ in range(rounds):
        for name in drawn.sample(list(readers), len(readers)):
            took_s, peak_mb = run(*readers[name], server)
            seconds[name].append(took_s)
            peaks_mb[name].append(peak_mb)
    for name, took in seconds.items():
        text = f"{filling.prefix:6} {name:11} {median(took):8.2f} s  {max(peaks_mb[name]):5} MB"
        if alone := seconds.get("library"):
            ratios = sorted(library / walproof for library, walproof in zip(alone, took, strict=True))
            text += f"  {median(ratios):5.2f} of the library's rate ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(text, flush=True)
    shutil.rmtree(folder)


def served(filling: Filling, folder: Path, paced: Sequence[int]) -> AbstractContextManager[S3]:
    """Run the server for an archive."""
    if not paced:
        return filled_server([filling])
    return paced_server(filling, folder / f"paced-{filling.prefix}", *paced)


def main() -> None:
    """Print a line for each archive and reader."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--segments", type=int, default=64)
    parser.add_argument("--objects", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5, help="of the large segments")
    parser.add_argument("--rounds-small", type=int, default=1, metavar="N", help="of the small ones")
    parser.add_argument("--readers", default="", help="with commas between them; all by default")
    parser.add_argument(
        "--paced", type=int, nargs=2, metavar=("MB", "MS"),
        default=(),
        help="in place of moto a store whose answers begin after MS milliseconds and flow at MB/s",
    )  # fmt: skip
    arguments = parser.parse_args()
    chosen = list(filter(None, arguments.readers.split(",")))
    fillings = (
        (Filling("large", arguments.segments, 16 * MB, True), arguments.rounds),
        (Filling("small", arguments.objects, MB, False), arguments.rounds_small),
    )
    with tempfile.TemporaryDirectory() as folder:
        for filling, rounds in fillings:
            if filling.count and rounds:
                with served(filling, Path(folder), arguments.paced) as server:
                    measure(server, filling, Path(folder) / filling.prefix, rounds, chosen)


if __name__ == "__main__":
    main()

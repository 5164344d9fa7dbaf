"""What reading an archive from an object store takes: memory, and time beside the client library alone.

    PYTHONPATH=. python bench/objects/speed.py
    PYTHONPATH=. python bench/objects/speed.py --objects 2000 --segments 4

An S3 server (moto) runs on loopback, in a process of its own. There are two archives: 1 GB in 64 plain
segments of 16 MB, and 50,000 small objects, each a segment of 1 MB that was switched at once, packed with
gzip. Both are sound: page headers, links and checksums are those of PostgreSQL 18. ``library`` fetches the
same objects with as many requests at a time and does nothing with them; ``pieces`` asks for 4 MiB at a time,
as walproof does (for each of which moto copies the whole object). Memory is the peak resident set of
a process of its own; the time of the S3 server is in every figure.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.wal.damage import crc32c
from tests.wal.places.server import S3, s3_server, url
from walproof.units import Lsn
from walproof.wal.segment import segment_name

MB, PAGE = 1 << 20, 8192
UPLOADS = 4
SYSTEM = 7_000_000_000_000_000_001
MAGIC, LONG_HEADER = 0xD118, 0x0002
SWITCH = 0x40

LIBRARY = """
import sys
from concurrent.futures import ThreadPoolExecutor
import obstore
from walproof.wal.places.client import open_client
bucket, prefix = sys.argv[1][5:].split("/", 1)
client = open_client("s3", bucket)
keys = [one["path"] for chunk in obstore.list(client, prefix) for one in chunk]
with ThreadPoolExecutor(10) as threads:
    print(sum(threads.map(lambda key: len(obstore.get(client, key).bytes()), keys)))
"""
PIECES = """
import sys
from concurrent.futures import ThreadPoolExecutor
import obstore
from walproof.wal.places.client import open_client
bucket, prefix = sys.argv[1][5:].split("/", 1)
client = open_client("s3", bucket)
PIECE = 4 << 20
pieces = [
    (one["path"], start, min(one["size"], start + PIECE))
    for chunk in obstore.list(client, prefix) for one in chunk for start in range(0, one["size"], PIECE)
]
with ThreadPoolExecutor(10) as threads:
    read = lambda one: len(obstore.get_range(client, one[0], start=one[1], end=one[2]))
    print(sum(threads.map(read, pieces)))
"""
WALPROOF = "from walproof.cli import main; main()"


def segment(number: int, first: int, size: int) -> bytes:
    """The segment of that number: one record, which switches to the next."""
    start = number * size
    header = b"".join(
        value.to_bytes(length, "little")
        for value, length in (
            (MAGIC, 2), (LONG_HEADER, 2), (1, 4), (start, 8), (0, 8), (SYSTEM, 8), (size, 4), (PAGE, 4),
        )
    )  # fmt: skip
    previous = 0 if number == first else start - size + len(header)
    record = (24).to_bytes(4, "little") + bytes(4) + previous.to_bytes(8, "little") + bytes([SWITCH, 0, 0, 0])
    record += crc32c(record).to_bytes(4, "little")
    return (header + record).ljust(size, b"\0")


def upload(server: S3, prefix: str, count: int, size: int, *, packed: bool) -> None:
    """So many segments, beginning with the third."""

    def put(number: int) -> None:
        data = segment(number, 2, size)
        name = segment_name(Lsn(number * size), 1, size)
        server.put(f"{prefix}/{name}{'.gz' if packed else ''}", gzip.compress(data, 1) if packed else data)

    with ThreadPoolExecutor(UPLOADS) as threads:
        for _ in threads.map(put, range(2, 2 + count)):
            pass


def measure(server: S3, prefix: str) -> None:
    """A line for each reader."""
    environment = {**os.environ, **server.environment()}
    for name, program, words in (
        ("library", LIBRARY, [url(prefix)]),
        ("pieces", PIECES, [url(prefix)]),
        ("wal stats", WALPROOF, ["wal", "stats", "--json", url(prefix)]),
        ("wal verify", WALPROOF, ["wal", "verify", "--json", url(prefix)]),
    ):
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", program, *words], env=environment, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took_s, peak_mb = time.monotonic() - began, usage.ru_maxrss >> 10
        print(f"{prefix:6} {name:10} {took_s:8.2f} s  {peak_mb:5} MB  exit {process.returncode}", flush=True)


def main() -> None:
    """Print a line for each archive and reader."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--segments", type=int, default=64)
    parser.add_argument("--objects", type=int, default=50_000)
    arguments = parser.parse_args()
    with s3_server() as server:
        for prefix, count, size, packed in (
            ("large", arguments.segments, 16 * MB, False),
            ("small", arguments.objects, MB, True),
        ):
            if count:
                upload(server, prefix, count, size, packed=packed)
                measure(server, prefix)


if __name__ == "__main__":
    main()

"""What it costs to follow a server's WAL: CPU for each GB that arrives, and memory of 2 million pages.

    PYTHONPATH=. python bench/stream_speed.py --wal FOLDER ...
    PYTHONPATH=. python bench/stream_speed.py --pages

bench/wal_speed.py --keep makes a folder of images and one of records; with --pages this program makes WAL
that names 2 million pages.

WAL is fed in pieces of 128 kB, with a snapshot for each 50 MB: a server that writes 50 MB/s, asked every
second. Printed are CPU seconds of the whole process for a GB, and what that is of a core at 50 MB/s. Reading
the files is not part of it.
"""

from __future__ import annotations

import argparse
import random
import resource
import struct
import time
from pathlib import Path

from tests.wal.damage import crc32c
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.stream import WalStream

PIECE = 128 << 10
SECOND = 50_000_000
BUFFERS = 16384
SEGMENT = 16 << 20
PAGE = 8192
MAGIC = 0xD118  # of 18
REFERENCES = 32


def main() -> None:
    """Print a line for each recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--wal", type=Path, nargs="*", default=[], help="folders of plain segments")
    parser.add_argument("--pages", action="store_true", help="2 million pages, in order and at random")
    options = parser.parse_args()
    for folder in options.wal:
        follow(folder)
    if options.pages:
        for spread in (1, 10):
            name_pages(2_000_000, spread)


def follow(folder: Path) -> None:
    """CPU for a recording, from its first location on."""
    written = stats(folder)
    size = written.segment_size
    stream = WalStream(buffers=[BUFFERS], segment_size=size, redo=written.start)
    cpu = snapshots = 0.0
    fed, due = 0, SECOND
    at = written.start // size * size
    for path in sorted(path for path in folder.iterdir() if len(path.name) == 24):
        data = path.read_bytes()[: written.end - at]
        began = time.process_time()
        for piece in range(0, len(data), PIECE):
            stream.observe(Lsn(at + piece), data[piece : piece + PIECE])
        cpu += time.process_time() - began
        at, fed = at + len(data), fed + len(data)
        if fed >= due:
            began = time.process_time()
            stream.snapshot()
            snapshots += time.process_time() - began
            due += SECOND
    last = stream.snapshot()
    of_a_core = (cpu + snapshots) / fed * SECOND
    images = last.all.image_bytes / max(1, last.all.combined_bytes)
    print(
        f"{folder.name}: {fed / 1e9:.2f} GB, {last.all.records} records, {images:.0%} images, "
        f"{'no clock' if last.clock is None else f'{last.clock.pages} pages'}: "
        f"{cpu / fed * 1e9:.2f} s/GB, snapshots {snapshots / fed * 1e9:.3f} s/GB: "
        f"{of_a_core:.1%} of a core at 50 MB/s; simulations {last.memory_bytes / 1e6:.0f} MB"
    )


def name_pages(count: int, spread: int) -> None:
    """Memory for WAL that names this many pages, each drawn from ``spread``."""
    chosen = random.Random(1)
    blocks = chosen.sample(range(count * spread), count) if spread > 1 else list(range(count))
    wal = pages_of(records_of(blocks))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stream = WalStream(buffers=[2 * 1024 * 1024], segment_size=SEGMENT, redo=Lsn(SEGMENT))
    for at in range(0, len(wal), PIECE):
        stream.observe(Lsn(SEGMENT + at), wal[at : at + PIECE])
    began = time.process_time()
    last = stream.snapshot()
    took = time.process_time() - began
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert last.clock is not None
    print(
        f"{last.clock.pages} pages, one of {spread} in their files: "
        f"simulations {last.memory_bytes / 1e6:.0f} MB, "
        f"process grew by {(after - before) * 1024 / 1e6:.0f} MB; "
        f"a snapshot takes {took * 1e3:.1f} ms"
    )


def records_of(blocks: list[int]) -> list[bytes]:
    """Records of Generic that refer to 32 blocks each, without links and checksums."""
    records = []
    for first in range(0, len(blocks), REFERENCES):
        body = bytearray()
        for number, block in enumerate(blocks[first : first + REFERENCES]):
            body += struct.pack("<BBH", number, 0x80 if number else 0, 0)
            body += b"" if number else struct.pack("<III", 1663, 5, 16384)
            body += struct.pack("<I", block)
        records.append(bytes(body))
    return records


def pages_of(bodies: list[bytes]) -> bytes:
    """Return WAL that holds the records, from the first page of a segment on."""
    wal, previous = bytearray(), 0
    for body in bodies:
        if len(wal) % PAGE == 0:
            wal += page_header(len(wal), 0)
        lsn = SEGMENT + len(wal)
        head = struct.pack("<IIQBBH", 24 + len(body), 0, previous, 0, 20, 0)
        rest = head + struct.pack("<I", crc32c(body + head)) + body
        rest += bytes(-len(rest) % 8)
        left = 24 + len(body)
        while rest:
            if len(wal) % PAGE == 0:
                wal += page_header(len(wal), left)
            room = PAGE - len(wal) % PAGE
            wal += rest[:room]
            rest, left = rest[room:], left - room
        previous = lsn
    return bytes(wal)


def page_header(at: int, left: int) -> bytes:
    """Header of the page at that offset, on which a record continues with this many bytes."""
    is_long = at % SEGMENT == 0
    info = (2 if is_long else 0) | (1 if left > 0 else 0)
    header = struct.pack("<HHIQII", MAGIC, info, 1, SEGMENT + at, max(0, left), 0)
    return header + (struct.pack("<QII", 7, SEGMENT, PAGE) if is_long else b"")


if __name__ == "__main__":
    main()

"""An S3 server (moto) that has archives from the beginning: put into its memory, not sent to it.

Sending 50,000 objects takes moto longer than every reader together. All segments are sound: page headers,
links and checksums are those of PostgreSQL 18.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.wal.damage import crc32c
from tests.wal.places.server import BUCKET, S3, serving
from walproof.units import Lsn
from walproof.wal.segment import segment_name

MB, PAGE = 1 << 20, 8192
SYSTEM = 7_000_000_000_000_000_001
MAGIC, LONG_HEADER = 0xD118, 0x0002
SWITCH, NOOP, LONG_DATA = 0x40, 0x20, 254
FIRST = 2
"""Number of the first segment."""
_ACCOUNT = "123456789012"
"""moto's own."""


@dataclass(frozen=True, slots=True)
class Filling:
    """An archive."""

    prefix: str
    count: int
    """Segments."""
    size: int
    """Bytes of one of them."""
    is_full: bool
    """Plain, a record on every page; else packed with gzip, switched after the first record."""

    def names(self) -> list[str]:
        """Return the names of the files."""
        ending = "" if self.is_full else ".gz"
        numbers = range(FIRST, FIRST + self.count)
        return [segment_name(Lsn(number * self.size), 1, self.size) + ending for number in numbers]

    def files(self) -> Iterator[bytes]:
        """Return the bytes of the files, in the same order."""
        rest = gzip.compress(bytes(self.size - PAGE), 1)
        for number in range(FIRST, FIRST + self.count):
            if self.is_full:
                yield _full(number, self.size)
            else:
                # Two streams in one file, the second of which is the same in all.
                yield gzip.compress(_switched(number, self.size), 1) + rest

    def write(self, folder: Path) -> None:
        """Write the same files into a folder."""
        folder.mkdir()
        for name, data in zip(self.names(), self.files(), strict=True):
            (folder / name).write_bytes(data)


def _page_header(address: int, size: int) -> bytes:
    is_first = address % size == 0
    fields = [(MAGIC, 2), (LONG_HEADER if is_first else 0, 2), (1, 4), (address, 8), (0, 8)]
    if is_first:
        fields += [(SYSTEM, 8), (size, 4), (PAGE, 4)]
    return b"".join(value.to_bytes(length, "little") for value, length in fields)


def _record(info: int, previous: int, data: bytes, data_checksum: int) -> bytes:
    """Bytes of a record of the resource manager XLOG."""
    header = (24 + len(data)).to_bytes(4, "little") + bytes(4) + previous.to_bytes(8, "little")
    header += bytes([info, 0, 0, 0])
    return header + crc32c(header, data_checksum).to_bytes(4, "little") + data


def _switched(number: int, size: int) -> bytes:
    """The first page of a segment that has one record, which switches to the next."""
    start = number * size
    header = _page_header(start, size)
    previous = 0 if number == FIRST else start - size + len(header)
    return (header + _record(SWITCH, previous, b"", 0)).ljust(PAGE, b"\0")


def _data(length: int) -> tuple[bytes, int]:
    """Contents of a record of this length, with their checksum."""
    contents = bytes(number * 37 % 251 for number in range(length - 24 - 5))
    data = bytes([LONG_DATA]) + len(contents).to_bytes(4, "little") + contents
    return data, crc32c(data)


_LENGTHS = {header: _data(PAGE - header) for header in (24, 40)}


def _full(number: int, size: int) -> bytes:
    """A segment with a record on every page, which fills it."""
    pages = []
    start = number * size
    previous = 0 if number == FIRST else start - PAGE + 24
    for address in range(start, start + size, PAGE):
        header = _page_header(address, size)
        pages.append(header + _record(NOOP, previous, *_LENGTHS[len(header)]))
        previous = address + len(header)
    return b"".join(pages)


@contextmanager
def filled_server(fillings: Sequence[Filling]) -> Iterator[S3]:
    """Run the server, in a process of its own, which ends with this one."""
    words = [
        f"{archive.prefix},{archive.count},{archive.size},{int(archive.is_full)}" for archive in fillings
    ]
    with serving("-m", "bench.objects.filled", *words) as server:
        yield server


def _serve(fillings: Sequence[Filling]) -> None:
    import logging

    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    backend = s3_backends[_ACCOUNT]["aws"]
    backend.create_bucket(BUCKET, "us-east-1")
    for filling in fillings:
        for name, data in zip(filling.names(), filling.files(), strict=True):
            backend.put_object(BUCKET, f"{filling.prefix}/{name}", data, disable_notification=True)
    print(server.get_host_and_port()[1], flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    _serve(
        [
            Filling(prefix, int(count), int(size), is_full == "1")
            for prefix, count, size, is_full in (word.split(",") for word in sys.argv[1:])
        ]
    )

"""A store on loopback that costs little CPU, and whose answers can be as slow as those of real stores.

It speaks as much of S3 as the reading of one archive needs: listings on one page, and ranges of objects that
still have their mark. Each answer begins after a delay and then flows at its own rate, so that whoever asks
for more at once gets more.

    python -m bench.objects.paced FOLDER MB_PER_S DELAY_MS

prints the port, and ends when its standard input is closed.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from bench.objects.filled import MB, Filling
from tests.wal.places.server import BUCKET, S3, serving

_CHUNK_BYTES = 512 << 10


@contextmanager
def paced_server(filling: Filling, folder: Path, mb_per_s: int, delay_ms: int) -> Iterator[S3]:
    """Run the server in its own process, over an archive that is written below a folder."""
    (folder / BUCKET).mkdir(parents=True)
    filling.write(folder / BUCKET / filling.prefix)
    with serving("-m", "bench.objects.paced", str(folder), str(mb_per_s), str(delay_ms)) as server:
        yield server


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, root: Path, bytes_per_s: int, delay_s: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root, self.bytes_per_s, self.delay_s = root, bytes_per_s, delay_s

    def handle_error(self, *_: object) -> None:
        """Raise nothing where a client leaves early, as one does that has read enough."""
        if not isinstance(sys.exception(), ConnectionError):
            raise


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self._answer(is_head=True)

    def do_GET(self) -> None:
        self._answer(is_head=False)

    def _answer(self, *, is_head: bool) -> None:
        time.sleep(self.server.delay_s)
        address = urlsplit(self.path)
        asked = parse_qs(address.query)
        path = self.server.root / address.path.strip("/")
        if "list-type" in asked:
            body = _listing(self.server.root / BUCKET, asked.get("prefix", [""])[0]).encode()
            self._head(200, len(body))
            self.wfile.write(body)
            return
        if not path.is_file():
            self._head(404, 0)
            return
        mark, size = _mark(path), path.stat().st_size
        if self.headers.get("If-Match") not in (None, mark):
            self._head(412, 0)
            return
        start, end = 0, size
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end = int(found[1]), min(size, int(found[2] or size) + 1)
        ranges = {"Content-Range": f"bytes {start}-{end - 1}/{size}"} if found else {}
        modified = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
        self._head(
            206 if found else 200, end - start,
            {"ETag": mark, "Last-Modified": f"{modified:%a, %d %b %Y %H:%M:%S GMT}", **ranges},
        )  # fmt: skip
        if not is_head:
            self._send(path, start, end)

    def _head(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, path: Path, start: int, end: int) -> None:
        began, position = time.monotonic(), start
        with path.open("rb") as file:
            while position < end:
                count = min(end - position, _CHUNK_BYTES)
                position += os.sendfile(self.connection.fileno(), file.fileno(), position, count)
                due = began + (position - start) / self.server.bytes_per_s
                time.sleep(max(0.0, due - time.monotonic()))


def _mark(path: Path) -> str:
    status = path.stat()
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


def _listing(bucket: Path, prefix: str) -> str:
    """An answer of ListObjectsV2."""
    contents = "".join(
        f"<Contents><Key>{key}</Key>"
        f"<LastModified>{datetime.fromtimestamp(int(path.stat().st_mtime), UTC):%Y-%m-%dT%H:%M:%S.000Z}"
        f"</LastModified><ETag>{_mark(path).replace(chr(34), '&quot;')}</ETag>"
        f"<Size>{path.stat().st_size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for path in sorted(bucket.rglob("*"))
        if path.is_file() and (key := str(path.relative_to(bucket))).startswith(prefix)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{bucket.name}</Name><Prefix>{prefix}</Prefix><KeyCount>{contents.count('<Key>')}</KeyCount>"
        f"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
    )


def _serve(folder: str, mb_per_s: str, delay_ms: str) -> None:
    server = _Server(Path(folder), int(mb_per_s) * MB, int(delay_ms) / 1000)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    _serve(*sys.argv[1:])

"""An S3 server on loopback: moto in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

BUCKET = "wal-archive"
KEY_ID, KEY = "CANARYKEYID0001", "canary/secret+key/0002"
"""Credentials that no message, fact or log may hold."""

# Ends with whoever started it: its stdin is closed then.
_PROGRAM = """
import logging, sys
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@dataclass(frozen=True)
class S3:
    """A server with one bucket."""

    port: int

    def environment(self, port: int | None = None) -> dict[str, Any]:
        """What a client needs to know; of another port, as one that stands before it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_REGION": "us-east-1",
        }

    def put(self, key: str, data: bytes) -> None:
        """Store an object."""
        obstore.put(self._client(), key, data)

    def remove(self, key: str) -> None:
        """Remove an object."""
        obstore.delete(self._client(), key)

    def upload(self, folder: Path, prefix: str) -> None:
        """Every file of a folder, below a prefix."""
        upload(self.put, folder, prefix)

    def make_bucket(self) -> None:
        """The bucket that the others use."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{BUCKET}", method="PUT")
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    def _client(self) -> S3Store:
        return S3Store(
            BUCKET, endpoint=f"http://127.0.0.1:{self.port}", access_key_id=KEY_ID, secret_access_key=KEY,
            region="us-east-1", client_options={"allow_http": True},
        )  # fmt: skip


def upload(put: Callable[[str, bytes], None], folder: Path, prefix: str) -> None:
    """Store every file of a folder, below a prefix."""
    for path in sorted(folder.rglob("*")):
        key = f"{prefix}/{path.relative_to(folder)}"
        if path.is_file():
            put(key, path.read_bytes())
        elif not any(path.iterdir()):
            put(f"{key}/backup.manifest", b"")  # a store has no empty folders


def url(prefix: str) -> str:
    """The address of what is below a prefix."""
    return f"s3://{BUCKET}/{prefix}"


@contextmanager
def s3_server() -> Iterator[S3]:
    """Run the server."""
    with serving("-P", "-c", _PROGRAM) as server:
        server.make_bucket()
        yield server


@contextmanager
def serving(*program: str) -> Iterator[S3]:
    """Run a program of Python that prints the port of its server, and ends when its stdin is closed."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            yield S3(int(process.stdout.readline()))
        finally:
            process.stdin.close()
            process.wait(60)


def without_credentials(*texts: str) -> None:
    """Nothing that a server or client was given stands in what users see."""
    for text in texts:
        for secret in (KEY_ID, KEY, "X-Amz-Signature", "AWS4-HMAC-SHA256", "Authorization"):
            assert secret not in text, text

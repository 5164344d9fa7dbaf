"""Object stores on this machine: real servers of other projects, each through its own package client.

moto and S3Proxy speak S3, Azurite is Microsoft's server of Blob Storage, fake-gcs-server stands for Google's.
Everything listens on loopback, keeps its objects below one folder and ends with its block.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import quote

import obstore
from obstore.store import AzureStore, S3Store

from tests.wal.places.server import BUCKET, KEY, KEY_ID, s3_server, upload

S3PROXY = "2.6.0"
AZURITE = "3.37.0"
FAKE_GCS = "v1.49.3"
_START_S = 60.0
_AZURITE_ACCOUNT = "devstoreaccount1"
# The account that Azurite has out of the box; Microsoft's documentation of the emulator prints its key.
_AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Served:
    """A server with one bucket."""

    scheme: str
    environment: Mapping[str, str]
    client: S3Store | AzureStore | None
    uploads: str = ""
    """Address, but for the object's name, that objects are posted to where no client writes them."""

    def url(self, prefix: str) -> str:
        """Return the address of everything below a prefix."""
        return f"{self.scheme}://{BUCKET}/{prefix}"

    def put(self, key: str, data: bytes) -> None:
        """Store an object."""
        if self.client is not None:
            obstore.put(self.client, key, data)
            return
        request = urllib.request.Request(f"{self.uploads}{quote(key, safe='')}", data=data, method="POST")
        request.add_header("Content-Type", "application/octet-stream")
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    def upload(self, folder: Path, prefix: str) -> None:
        """Store every file of a folder below a prefix."""
        upload(self.put, folder, prefix)


Server = Callable[[Path, Path], AbstractContextManager[Served]]
"""Called with the folder of programs and one for objects."""


@contextmanager
def moto(_programs: Path, _objects: Path) -> Iterator[Served]:
    """Run moto, the server that the tests use."""
    with s3_server() as server:
        yield _s3(server.port)


@contextmanager
def s3proxy(programs: Path, objects: Path) -> Iterator[Served]:
    """Run S3Proxy over a folder. Needs java and mvn."""
    jar = programs / f"s3proxy-{S3PROXY}-jar-with-dependencies.jar"
    if not jar.exists():
        artifact = f"org.gaul:s3proxy:{S3PROXY}:jar:jar-with-dependencies"
        _fetch(["mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={programs}"])
    port = _free_port()
    (objects / BUCKET).mkdir(parents=True)
    conf = objects.with_suffix(".properties")
    conf.write_text(
        f"s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={KEY_ID}\ns3proxy.credential={KEY}\n"
        f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={objects}\n"
        "jclouds.identity=unused\njclouds.credential=unused\n"
    )
    command = ["java", "-Xmx512m", "-jar", str(jar), "--properties", str(conf)]
    with _running(command, f"http://127.0.0.1:{port}/"):
        yield _s3(port)


@contextmanager
def azurite(programs: Path, objects: Path) -> Iterator[Served]:
    """Run Azurite's blob service. Needs npm."""
    program = programs / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        (programs / "azurite").mkdir(parents=True, exist_ok=True)
        _fetch(
            [
                "npm",
                "install",
                "--silent",
                "--no-audit",
                "--prefix",
                str(programs / "azurite"),
                f"azurite@{AZURITE}",
            ]
        )
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}/{_AZURITE_ACCOUNT}"
    environment = {
        "AZURE_STORAGE_ACCOUNT_NAME": _AZURITE_ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": _AZURITE_KEY,
        "AZURE_STORAGE_ENDPOINT": endpoint,
    }  # fmt: skip
    command = [
        str(program), "--silent", "--skipApiVersionCheck", "--disableTelemetry", "--blobHost", "127.0.0.1",
        "--blobPort", str(port), "--location", str(objects),
    ]  # fmt: skip
    with _running(command, endpoint):
        client = AzureStore(
            BUCKET, account_name=_AZURITE_ACCOUNT, account_key=_AZURITE_KEY, endpoint=endpoint,
            client_options={"allow_http": True},
        )  # fmt: skip
        _make_container(endpoint)
        yield Served("az", environment, client)


@contextmanager
def fake_gcs(programs: Path, objects: Path) -> Iterator[Served]:
    """Run fake-gcs-server over a folder. Needs go."""
    program = programs / "fake-gcs-server"
    if not program.exists():
        _fetch(
            ["go", "install", f"github.com/fsouza/fake-gcs-server@{FAKE_GCS}"], GOBIN=str(programs.absolute())
        )
    port = _free_port()
    (objects / BUCKET).mkdir(parents=True)
    base = f"http://127.0.0.1:{port}"
    command = [
        str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host",
        f"127.0.0.1:{port}", "-backend", "filesystem", "-filesystem-root", str(objects),
    ]  # fmt: skip
    environment = {"GOOGLE_BASE_URL": base, "GOOGLE_SKIP_SIGNATURE": "true"}
    with _running(command, f"{base}/storage/v1/b"):
        yield Served("gs", environment, None, f"{base}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name=")


SERVERS: dict[str, Server] = {
    "moto": moto, "s3proxy": s3proxy, "azurite": azurite, "fake-gcs-server": fake_gcs,
}  # fmt: skip


def _s3(port: int) -> Served:
    endpoint = f"http://127.0.0.1:{port}"
    environment = {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_REGION": "us-east-1",
    }  # fmt: skip
    client = S3Store(
        BUCKET, endpoint=endpoint, access_key_id=KEY_ID, secret_access_key=KEY, region="us-east-1",
        client_options={"allow_http": True},
    )  # fmt: skip
    return Served("s3", environment, client)


def _make_container(endpoint: str) -> None:
    """Make a container by a request that we sign: Azurite's client library would be a dependency."""
    date = formatdate(usegmt=True)
    resource = f"/{_AZURITE_ACCOUNT}/{_AZURITE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n{resource}"
    signed = hmac.new(base64.b64decode(_AZURITE_KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date, "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey {_AZURITE_ACCOUNT}:{base64.b64encode(signed).decode()}",
    }  # fmt: skip
    request = urllib.request.Request(f"{endpoint}/{BUCKET}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def _fetch(command: list[str], **environment: str) -> None:
    if shutil.which(command[0]) is None:
        raise SystemExit(f"{command[0]} is not on PATH")
    subprocess.run(command, check=True, env={**os.environ, **environment}, timeout=900)


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


@contextmanager
def _running(command: list[str], address: str) -> Iterator[None]:
    """Run a server until the block is left; it is up when ``address`` gives any answer."""
    with TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            deadline = time.monotonic() + _START_S
            while True:
                if process.poll() is not None or time.monotonic() > deadline:
                    said.seek(0)
                    raise SystemExit(f"{command[0]} did not start:\n{said.read().decode()[-2000:]}")
                try:
                    urllib.request.urlopen(address, timeout=5).close()
                    break
                except urllib.error.HTTPError:
                    break
                except OSError:
                    time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(30)

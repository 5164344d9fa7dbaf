"""ARCHITECTURE.md is short and true: levels are those of the test, paths are there, decisions are dated."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.test_architecture import LEVELS, LIVE, OFFLINE

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
DECISIONS = ROOT / "docs" / "decisions"
_PATH = re.compile(r"`((?:[\w.<>*-]+/)*[\w.<>*-]+(?:/|\.(?:py|rs|csv|toml|md|json)))`")


def test_it_has_at_most_200_lines_that_fit() -> None:
    lines = PAGE.splitlines()
    assert len(lines) <= 200
    assert max(map(len, lines)) <= 110


def test_its_levels_are_numbered_without_a_gap_and_are_those_that_imports_are_checked_by() -> None:
    rows = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|(.*)\|$", PAGE, re.MULTILINE)
    assert [int(row[0]) for row in rows] == list(range(len(rows)))
    told = {name: int(level) for level, *cells in rows for name in re.findall(r"`(\w+)`", "".join(cells))}
    assert told == LEVELS
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[1])} == LIVE
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[3])} == OFFLINE


def _places(path: str, folders: list[str]) -> list[Path]:
    """What the path may mean: from the root, from the package, or in a folder that the same item names."""
    roots = [root / folder for root in (ROOT, ROOT / "src" / "walproof") for folder in ("", *folders)]
    return [place for root in roots for place in root.glob(path.rstrip("/"))]


def test_every_path_is_there() -> None:
    missing = []
    page = PAGE.replace("<kind>", "throughput").replace("<name>", "durability")
    for item in re.split(r"^(?=- |\d\. |\*\*)", page, flags=re.MULTILINE):
        folders: list[str] = []
        for path in _PATH.findall(item) + re.findall(r"`(crates/[\w/-]+)`", item):
            if "/" in path:
                folder = path if "." not in Path(path).name else str(Path(path).parent)
                folders += [folder, f"{folder}/src"]
        missing += [path for path in _PATH.findall(item) if not _places(path, folders)]
    assert missing == []


@pytest.mark.parametrize("name", ["experiments", "wal", "power-cuts", "machines"])
def test_a_decision_has_its_date_and_what_lost(name: str) -> None:
    text = (DECISIONS / f"{name}.md").read_text(encoding="utf-8")
    decisions = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
    assert len(decisions) >= 5
    for decision in decisions:
        first = " ".join(decision.split())
        assert re.match(r"\*\*[^*]+\*\*[^(.]*\((?:[^)]*, )?2\d{3}-\d\d-\d\d\)", first), first[:100]
        assert "*Lost*: " in first, first[:100]


def test_dependencies_say_what_they_are_for() -> None:
    page = (DECISIONS / "dependencies.md").read_text(encoding="utf-8").lower()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[\[>=<]", dependency)[0] for dependency in project["dependencies"]}
    assert {name for name in names if name.removesuffix("-python") not in page} == set()

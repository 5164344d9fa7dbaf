"""What each command imports. Modules are counted, in a process of its own; no time decides.

An import is CPU that every start of the command pays: numpy and scipy 200 ms, the reports of studies as much.
``bench/start_up.py`` has the times.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import walproof
from tests.cli.command import environment
from tests.golden.unpack import unpack
from tests.report.facts import durability, keep

HEAVY = {
    "adbc_driver_postgresql", "altair", "jinja2", "mcp", "numpy", "obstore", "pandas", "polars", "psutil",
    "psycopg", "pyarrow", "ray", "rich", "scipy", "sqlalchemy", "statsmodels", "vl_convert",
}  # fmt: skip
"""Third-party packages that take more than 10 ms. Without pydantic: typer reads options with it."""
COMMON = {"checked", "errors", "files", "sentences", "units"}
"""Small parts that every other may import."""
STUDIES = {"advise", "analysis", "facts", "report", "settings", "wal", "_native"}
FORECAST = {"analysis", "facts", "probe", "report", "settings", "wal", "_native"}

# Command; heavy packages and parts of walproof that it may import, besides cli and COMMON; how many of
# walproof's modules at most. Nothing else is imported. WAL is a segment, STORE a folder with a finished run.
COMMANDS: list[tuple[str, set[str], set[str], int]] = [
    ("--version", set(), set(), 13),
    ("--help", set(), {"settings"}, 46),
    ("wal --help", set(), set(), 20),
    ("wal stats --json WAL", set(), {"report", "wal", "_native"}, 37),
    ("wal stats --csv WAL", set(), {"report", "wal", "_native"}, 37),
    ("wal records -n 1 WAL", set(), {"wal", "_native"}, 34),
    ("wal records -n 1 --json WAL", set(), {"wal", "_native"}, 34),
    ("web --help", set(), set(), 20),
    ("mcp --help", set(), set(), 20),
    ("wal verify --help", set(), set(), 20),
    ("wal verify --json WAL", set(), {"report", "wal", "_native"}, 58),
    ("wal whatif --help", set(), set(), 20),
    ("wal whatif --json WAL", set(), STUDIES, 105),
    ("recovery --help", set(), set(), 16),
    ("recovery predict --help", set(), set(), 16),
    ("recovery predict --json --start 0/A00028 WAL", set(), FORECAST, 60),
    ("runs --out STORE", {"sqlalchemy"}, {"facts", "settings"}, 30),
    ("show last --out STORE", {"numpy", "rich", "scipy", "sqlalchemy"}, STUDIES, 183),
    ("report last --format md --out STORE", {"numpy", "rich", "scipy", "sqlalchemy"}, STUDIES, 185),
]

LISTING = """
import json, sys
from walproof.cli import main
listing = sys.argv.pop(1)
try:
    main()
finally:
    with open(listing, "w") as stream:
        json.dump(sorted(sys.modules), stream)
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    wal, out = tmp_path_factory.mktemp("wal"), tmp_path_factory.mktemp("out")
    unpack(17, wal)
    keep(durability(), out / "walproof.sqlite")
    return {"WAL": str(wal / "00000001000000000000000A"), "STORE": str(out)}


@pytest.mark.parametrize(
    ("command", "heavy", "parts", "most"), COMMANDS, ids=[command[0] for command in COMMANDS]
)
def test_a_command_imports_its_own_parts(
    places: dict[str, str], tmp_path: Path, command: str, heavy: set[str], parts: set[str], most: int
) -> None:
    listing = tmp_path / "modules.json"
    words = [places.get(word, word) for word in command.split()]
    done = subprocess.run(
        [sys.executable, "-P", "-c", LISTING, str(listing), *words],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=environment(XDG_DATA_HOME=str(tmp_path)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    modules = json.loads(listing.read_text())
    loaded = [name for name in modules if name.split(".")[0] == "walproof"]
    found = {name.split(".")[1] for name in loaded if "." in name} - {"cli"} - COMMON
    assert {name.split(".")[0] for name in modules} & HEAVY <= heavy
    assert found <= parts
    assert len(loaded) <= most, "\n".join(loaded)


def test_the_version_is_that_of_the_package() -> None:
    """It is written twice: reading it from the installed package would cost 25 ms at every start."""
    root = Path(__file__).parents[2]
    assert walproof.__version__ == tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]

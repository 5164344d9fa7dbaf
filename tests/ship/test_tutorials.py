"""Commands of the tutorials that need no server do what is said; bench/ship/tutorials.py runs them all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ship.pages import runnable
from tests.cli.command import environment
from tests.golden.unpack import unpack
from tests.report.facts import durability, keep

TUTORIALS = Path(__file__).parent.parent.parent / "docs" / "tutorials"
OFFLINE = ("walproof report ", "walproof runs", "walproof show ", "walproof studies ", "walproof wal ")
SAYS = {
    "walproof runs": "durability",
    "walproof show last": "synchronous_commit=off",
    "walproof report last --format md": "synchronous_commit=off",
    "walproof wal stats shop.recording --by relation": "What is in 2.11 MB of WAL?",
    "walproof wal whatif shop.recording": "max_wal_size",
}
"""Words of what a command prints; one that writes a file prints nothing."""
LINES = [
    line for page in sorted(TUTORIALS.glob("*.md")) for line in runnable(page) if line.startswith(OFFLINE)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the first tutorial's study, and WAL in place of the second's recording."""
    made = tmp_path_factory.mktemp("tutorials")
    (made / "shop.recording").mkdir()
    unpack(17, made / "shop.recording")
    keep(durability(), made / "walproof-out" / "walproof.sqlite")
    return made


@pytest.mark.parametrize("line", LINES)
def test_a_command_without_a_server(line: str, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, cwd=folder,
        env=environment(PATH=path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if ">" in line:
        assert (folder / line.split()[-1]).stat().st_size > 500
    else:
        assert SAYS[line] in done.stdout


def test_every_one_of_them_is_in_a_tutorial() -> None:
    assert set(SAYS) <= set(LINES)

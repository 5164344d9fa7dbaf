"""What a shell is offered for values that are known without a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("run durab", "durability"),
        ("studies durab", "durability"),
        ("show la", "last"),
        ("report la", "last"),
        ("runs stop la", "last"),
        ("advise --platform patr", "patroni"),
        ("tune --platform patr", "patroni"),
        ("wal stats --by rel", "relation"),
        ("compare --set wal_comp", "wal_compression="),
        ("wal whatif --set max_wal_size=4GB,wal_comp", "max_wal_size=4GB,wal_compression="),
    ],
)
def test_values_are_completed(words: str, offered: str, tmp_path: Path) -> None:
    asked = {
        **environment(), "_WALPROOF_COMPLETE": "complete_zsh",
        "_TYPER_COMPLETE_ARGS": f"walproof {words}",
    }  # fmt: skip
    code = "import sys; sys.argv = ['walproof']; from walproof.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=asked, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert f'"{offered}"' in done.stdout
    assert done.stderr == ""

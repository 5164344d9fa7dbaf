"""A command that is forked says what one says that a new Python runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, walproof
from walproof.facts.store import Store


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("runs",), ("runs", "--out", "elsewhere"), ("wal", "stats", "no such"), ("rums",)],
)
def test_a_fork_says_what_a_new_process_says(arguments: tuple[str, ...], tmp_path: Path) -> None:
    forked = walproof(*arguments, cwd=tmp_path, COLUMNS="70", WALPROOF_OUT="here")
    new = subprocess.run(
        [sys.executable, "-m", "walproof", *arguments],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=environment(COLUMNS="70", WALPROOF_OUT="here"),
    )  # fmt: skip
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)
    assert forked.stdout or forked.stderr


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    """One that would serve for ever: were it not killed, this test would not end either."""
    (tmp_path / "walproof-out").mkdir()
    Store(tmp_path / "walproof-out" / "walproof.sqlite").close()
    with pytest.raises(subprocess.TimeoutExpired):
        walproof("web", "--address", "127.0.0.1:0", cwd=tmp_path, timeout_s=2)

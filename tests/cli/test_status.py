"""With which status commands exit: what the page says is what the code has, and a defect says so."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import walproof
from tests.cli.command import environment
from walproof.cli.status import SIGNAL_BASE, ExitStatus
from walproof.facts.store import Store

SOURCE = Path(walproof.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "exit-status.md"
DEFECT = """
import sys
from walproof.cli import main
import walproof.facts.store
def broken(self):
    raise KeyError(f"no such thing in {sys.argv[-1]}")
walproof.facts.store.Store.runs = broken
main()
"""


def test_the_page_has_every_status() -> None:
    rows = re.findall(r"^\| (\S+)(?: \+ number)? \|", PAGE.read_text(), re.MULTILINE)
    numbers = [row for row in rows if row.isdigit()]
    assert numbers == [*(str(int(Statu)) for Statu in ExitStatus), str(SIGNAL_BASE)]


def test_statuses_are_written_once() -> None:
    """No command exits with a number of its own."""
    found = []
    for path in (SOURCE / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("typer.Exit", "sys.exit", "SystemExit")
                and any(isinstance(arg, ast.Constant) for arg in node.args)
            ):
                found.append(f"{path.name}:{node.lineno}")
    assert not found


def test_a_defect_asks_for_a_report(tmp_path: Path) -> None:
    """Status 70, no bare traceback, the places in the source, and no name of a user's folder."""
    Store(tmp_path / "a.sqlite").close()
    done = subprocess.run(
        [sys.executable, "-c", DEFECT, "runs", "--store", str(tmp_path / "a.sqlite")],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment(),
    )  # fmt: skip
    assert done.returncode == int(ExitStatus.DEFECT), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("walproof: error: unexpected KeyError: ")
    assert "raised KeyError" in done.stderr
    assert re.search(r"walproof/cli/runs\.py:\d+ in runs", done.stderr)
    assert "Please report it" in done.stderr
    assert str(SOURCE.parent) not in done.stderr


def test_a_defect_tells_no_secret(tmp_path: Path) -> None:
    told = DEFECT.replace("no such thing in {sys.argv[-1]}", "postgresql://u:canary@h/d and {sys.argv[-1]}")
    done = subprocess.run(
        [sys.executable, "-c", told, "runs", "--store", "postgresql://u:canary@h/d"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=environment(PGPASSWORD="canary-too"),
    )  # fmt: skip
    assert "canary" not in done.stderr


def test_a_signal_is_told_as_shells_do(tmp_path: Path) -> None:
    Store(tmp_path / "a.sqlite").close()
    code = "import os, signal\nfrom walproof.cli import main\nimport walproof.facts.store\n"
    code += "walproof.facts.store.Store.runs = lambda self: os.kill(os.getpid(), signal.SIGTERM)\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-c", code, "runs", "--store", "a.sqlite"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**environment(), "A": os.sep},
    )  # fmt: skip
    assert done.returncode == SIGNAL_BASE + signal.SIGTERM

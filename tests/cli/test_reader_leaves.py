"""A command whose reader has seen enough goes on, and exits with what it found."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from walproof.cli import power_cut

_PLAIN = "sys.stdout.write('x' * 1_000_000)"
_SMALL = "sys.stdout.write('x')"
_RICH = "from walproof.cli.options import result_console; result_console().print('x\\n' * 100_000)"


@pytest.mark.parametrize("printed", [_PLAIN, _SMALL, _RICH])
@pytest.mark.parametrize("both", [False, True])
def test_a_reader_that_leaves_changes_no_status(tmp_path: Path, printed: str, *, both: bool) -> None:
    """Of stdout, or of both streams: ``2>&1 | head``."""
    text = (
        "import pathlib, sys\n"
        "from walproof.cli import print_error\n"
        "from walproof.cli.streams import open_streams, reader_may_leave\n"
        "open_streams(print_error)\n"
        f"with reader_may_leave():\n    {printed}\n"
        "sys.stderr.write('report: here\\n')\n"
        "pathlib.Path('written').write_text('')\n"
        "sys.stdout.write('y')\n"
        "sys.exit(11)\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", text], stdout=writer, stderr=writer if both else subprocess.PIPE,
            cwd=tmp_path, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (11, None if both else b"report: here\n")
    assert (tmp_path / "written").exists(), "what follows the output is done"


class _Left(io.StringIO):
    """A pipe whose reader is gone."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, text: str, /) -> int:
        raise BrokenPipeError

    def fileno(self) -> int:
        return self._number


def test_another_verdict_is_the_status_though_nobody_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    then: Any = SimpleNamespace(state="recovered")
    now: Any = SimpleNamespace(state="lost commits")
    cut: Any = None
    found = power_cut._Again("18.4", {}, cut, then, now)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(power_cut, "say_server_user", lambda: None)
    monkeypatch.setattr(power_cut, "_cut_again", lambda *given, **words: found)
    monkeypatch.setattr(power_cut, "_passed_text", lambda found: "text")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR | os.O_CREAT)
    try:
        monkeypatch.setattr(sys, "stdout", _Left(pipe))
        with pytest.raises(typer.Exit) as left:
            power_cut.replay("1/2", out=tmp_path)
    finally:
        monkeypatch.undo()
        os.close(pipe)
    assert left.value.exit_code == 1


def test_a_command_whose_status_is_an_answer_lets_its_reader_leave() -> None:
    """Else a closed pipe ends it with 0, whatever it found."""
    source = Path(power_cut.__file__).parent
    texts = {path.name: path.read_text(encoding="utf-8") for path in source.glob("*.py")}
    texts["replica.py"] += texts["watch_loop.py"]  # which prints for it
    asked = {name: text for name, text in texts.items() if "Exit(ExitStatus.CHECK_FAILED)" in text}
    assert {"power_cut.py", "replica.py", "tune.py", "verify.py", "workload.py"} <= asked.keys()
    assert [name for name, text in asked.items() if "reader_may_leave()" not in text] == []


def test_other_exits_are_not_swallowed() -> None:
    from walproof.cli.streams import reader_may_leave

    with pytest.raises(SystemExit), reader_may_leave():
        raise SystemExit(3)

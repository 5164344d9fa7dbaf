"""A command whose reader has seen enough goes on, and exits with what it found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_other_exits_are_not_swallowed() -> None:
    from walproof.cli.streams import reader_may_leave

    with pytest.raises(SystemExit), reader_may_leave():
        raise SystemExit(3)

"""Runs the command line as a user does: a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WALPROOF_OUT", "WALPROOF_STORE"))}
    return {**kept, **changes}


def walproof(
    *arguments: str, cwd: Path, timeout_s: float = 110.0, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end."""
    return subprocess.run(
        [sys.executable, "-m", "walproof", *arguments],
        capture_output=True, text=True, check=False, cwd=cwd, timeout=timeout_s, env=environment(**changes),
    )  # fmt: skip


def start(arguments: Sequence[str], cwd: Path, errors: Path) -> subprocess.Popen[bytes]:
    """Start with the signals of a shell's foreground job, stderr into a file."""
    with errors.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "walproof", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream, cwd=cwd, env=environment(),
            # A test run in the background would hand its ignored SIGINT down.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip

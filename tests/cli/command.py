"""Runs the command line as a user does: a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WALPROOF_OUT", "WALPROOF_STORE"))}
    return {**kept, **changes}


def walproof(
    *arguments: str, cwd: Path, timeout_s: float = 300.0, **changes: str
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


def wait_until_handling(process: subprocess.Popen[bytes]) -> None:
    """Return when the command handles signals (or has ended): before that Python itself answers them."""
    hangup_caught = 1 << (signal.SIGHUP - 1)  # the last handler that is installed
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
        if int(caught, 16) & hangup_caught:
            return
        time.sleep(0.01)

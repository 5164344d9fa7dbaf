"""Runs the command line as a user does: a process of its own."""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WALPROOF_OUT", "WALPROOF_STORE"))}
    return {**kept, **changes}


def walproof(
    *arguments: str, cwd: Path, timeout_s: float = 300.0, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end: a fork of a process that has imported walproof, or a new Python where that is to start
    in another way."""
    if any(name.startswith("PYTHON") for name in changes):
        return subprocess.run(
            [sys.executable, "-m", "walproof", *arguments],
            capture_output=True, text=True, check=False, cwd=cwd, timeout=timeout_s,
            env=environment(**changes),
        )  # fmt: skip
    wanted = {"arguments": arguments, "cwd": str(cwd), "environment": environment(**changes)}
    pipes = [os.pipe() for _ in ("stdout", "stderr", "answers")]
    with Path(os.devnull).open("rb") as nothing:
        streams = [nothing.fileno(), *(write for _, write in pipes)]
        socket.send_fds(_starter(), [json.dumps(wanted).encode()], streams)
    for _, write in pipes:
        os.close(write)
    with ThreadPoolExecutor(len(pipes)) as readers, os.fdopen(pipes[-1][0]) as answers:
        pid = int(answers.readline())
        said = [readers.submit(_read, read) for read, _ in pipes[:-1]]
        status = readers.submit(answers.readline)
        if wait([*said, status], timeout_s).not_done:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(arguments, timeout_s)
        stdout, stderr = (text.result() for text in said)
        return subprocess.CompletedProcess(
            arguments, os.waitstatus_to_exitcode(int(status.result())), stdout, stderr
        )


def _read(descriptor: int) -> str:
    with os.fdopen(descriptor) as stream:
        return stream.read()


@functools.cache
def _starter() -> socket.socket:
    """What commands are asked of (tests/cli/starter.py has the protocol)."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        starter = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.starter", str(its.fileno())],
            stdin=subprocess.DEVNULL, cwd=ROOT, pass_fds=[its.fileno()],
            # Without threads, which a fork would lose.
            env=environment(OPENBLAS_NUM_THREADS="1"),
        )  # fmt: skip

    def end() -> None:
        ours.close()
        starter.wait()

    atexit.register(end)
    return ours


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

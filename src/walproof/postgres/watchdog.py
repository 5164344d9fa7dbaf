"""A process that outlives walproof by a moment and cleans up after it.

Walproof holds the writing end of a pipe that this process reads. When walproof ends in any way, kill -9
included, the kernel closes that end; the watchdog then reaps the workspace and ends. In an orderly exit
the workspace is already gone and nothing is left to do.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from walproof.errors import ClusterError
from walproof.postgres.reaper import leave, reap
from walproof.privilege.environment import child_environment
from walproof.privilege.user import ServerUser, from_words, to_words

_READY = b"it watches\n"
_START_PATIENCE_S = 30.0
_FAILED = "the process that cleans up after a killed walproof did not start"


def start(workspace: Path, sockets: Path, user: ServerUser | None) -> subprocess.Popen[bytes]:
    """Start the watchdog of a workspace. Closing its ``stdin`` makes it clean up and end.

    Raises ClusterError. Whether it watches is known after `wait_ready`.
    """
    try:
        # -P: without it, whatever lies in the current folder is imported first.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "walproof.postgres.watchdog", str(workspace), str(sockets),
             *to_words(user)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Its own session: a Ctrl-C on the terminal, or a signal to walproof's group, does not reach it.
            start_new_session=True,
            cwd="/",
            env=child_environment(),
        )  # fmt: skip
    except OSError as error:
        raise ClusterError(_FAILED, detail=error.strerror) from error


def wait_ready(watchdog: subprocess.Popen[bytes]) -> None:
    """Return when the watchdog watches. Raises ClusterError if it does not: servers would outlive a kill."""
    assert watchdog.stdout is not None
    deadline = time.monotonic() + _START_PATIENCE_S
    poll = select.poll()
    poll.register(watchdog.stdout, select.POLLIN)
    said = b""
    while not said.endswith(_READY):
        has_more = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        piece = os.read(watchdog.stdout.fileno(), 65536) if has_more else b""
        if not piece:
            break
        said += piece
    watchdog.stdout.close()
    if not said.endswith(_READY):
        watchdog.kill()
        watchdog.wait()
        lines = said.decode(errors="replace").splitlines()
        raise ClusterError(
            _FAILED,
            detail=lines[-1] if lines else None,
            hint="It is walproof again, started in another folder: so walproof has to be installed, or in a "
            "folder of PYTHONPATH.",
        )


def _main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    workspace, sockets, owner = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    with contextlib.suppress(OSError):  # walproof was killed before it read that
        os.write(1, _READY)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.stdin.buffer.read()
    if not (workspace.exists() or sockets.exists()) or reap(workspace, sockets, from_words(owner)):
        workspace.with_suffix(".lock").unlink(missing_ok=True)
    leave(workspace.parent.parent)


if __name__ == "__main__":
    _main()

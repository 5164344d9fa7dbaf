"""A process that outlives walproof by a moment and cleans up after it.

Walproof holds the writing end of a pipe that this process reads. When walproof ends in any way, kill -9
included, the kernel closes that end; the watchdog then reaps the workspace and ends. In an orderly exit
the workspace is already gone and nothing is left to do.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from walproof.postgres.reaper import leave, reap
from walproof.privilege.environment import child_environment
from walproof.privilege.user import ServerUser, from_words, to_words


def start(workspace: Path, sockets: Path, user: ServerUser | None) -> subprocess.Popen[bytes]:
    """Start the watchdog of a workspace. Closing its ``stdin`` makes it clean up and end."""
    # -P: without it, whatever lies in the current folder is imported first.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "walproof.postgres.watchdog", str(workspace), str(sockets),
         *to_words(user)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Its own session: a Ctrl-C on the terminal, or a signal to walproof's group, does not reach it.
        start_new_session=True,
        cwd="/",
        env=child_environment(),
    )  # fmt: skip


def _main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    workspace, sockets, owner = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    sys.stdin.buffer.read()
    if not (workspace.exists() or sockets.exists()) or reap(workspace, sockets, from_words(owner)):
        workspace.with_suffix(".lock").unlink(missing_ok=True)
    leave(workspace.parent.parent)


if __name__ == "__main__":
    _main()

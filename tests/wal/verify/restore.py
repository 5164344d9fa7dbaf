"""Restores for real: a base backup, the archive, a recovery target, and what the server says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.wal.server import _as_server
from walproof.privilege.user import server_user

STOPPED = "recovery stopping"
ENDED_BEFORE = "recovery ended before configured recovery target was reached"


def restore(bindir: Path, backup: Path, restore_command: str, folder: Path, settings: dict[str, str]) -> str:
    """Recover a copy of ``backup`` to a target and shut down there; the server's log. ``folder``: new, and
    removed."""
    log = recover(bindir, backup, restore_command, folder, settings)
    shutil.rmtree(folder)
    return log


def recover(bindir: Path, backup: Path, restore_command: str, folder: Path, settings: dict[str, str]) -> str:
    """As ``restore``, but ``folder`` stays: the data directory of a server that was restored."""
    subprocess.run(["cp", "-a", str(backup), str(folder)], check=True)
    folder.chmod(0o700)
    if (user := server_user()) is not None:
        shutil.chown(folder, user.uid, user.gid)
    (folder / "recovery.signal").touch()
    lines = {
        "restore_command": restore_command, "recovery_target_action": "shutdown", "archive_mode": "off",
        "listen_addresses": "", "unix_socket_directories": str(folder), "hot_standby": "off", "fsync": "off",
        "log_timezone": "UTC", "timezone": "UTC", "lc_messages": "C", **settings,
    }  # fmt: skip
    with (folder / "postgresql.conf").open("a") as conf:
        conf.writelines(f"{name} = '{value}'\n" for name, value in lines.items())
    done = subprocess.run(
        [str(bindir / "postgres"), "-D", str(folder)],
        capture_output=True, text=True, check=False, cwd="/", timeout=120, **_as_server(),
    )  # fmt: skip
    return str(done.stderr)


def outcome(log: str) -> str:
    """What became of it, in PostgreSQL's words."""
    for line in log.splitlines():
        if STOPPED in line or ENDED_BEFORE in line:
            return re.sub(r"^.*?(LOG|FATAL):\s+", "", line)
    return log[-2000:]

"""File operations with the rights of the servers' user, in a process that stays root's.

Linux checks the access of a thread to files by the thread's own *filesystem user*, and takes root's power
over files from a thread whose filesystem user is not root (setfsuid(2); capabilities(7), "Effect of user ID
changes on capabilities"). So inside the block a symbolic link, a swapped folder or a hard link that the
servers' user has planted leads to nothing that this user could not reach by itself, and what is made there is
the user's. It is how servers of network filesystems work for their clients.

Only the calling thread changes, but for root's other groups: the whole process gives them up at the first
block, for good (setgroups(2), "C library/kernel differences"). Do not begin threads within the block: they
would keep the rights.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from walproof.errors import InstallError
from walproof.privilege.user import ServerUser

_ASK = -1
"""An invalid number, with which the call changes nothing and returns the current one."""


@contextmanager
def acting_as(user: ServerUser | None) -> Iterator[None]:
    """Within the block this thread reads and writes files as ``user``; None: as ourselves. Raises
    InstallError if the kernel does not allow it, as in a container without that user."""
    if user is None:
        yield
        return
    if os.getgroups():
        # Root's other groups are of no use to root, and would open their files to the block.
        os.setgroups([])
    libc = ctypes.CDLL(None)
    before = libc.setfsuid(_ASK), libc.setfsgid(_ASK)
    try:
        _switch(libc, user.uid, user.gid)
        yield
    finally:
        _switch(libc, *before)


def _switch(libc: ctypes.CDLL, uid: int, gid: int) -> None:
    # Neither call reports an error (setfsuid(2), "BUGS"): ask what has become of it.
    libc.setfsgid(gid)
    libc.setfsuid(uid)
    if (libc.setfsuid(_ASK), libc.setfsgid(_ASK)) != (uid, gid):
        raise InstallError(
            f"files cannot be used as user {uid}, group {gid}",
            detail="The kernel refused to switch the user (setfsuid(2)).",
            hint="Start walproof as an unprivileged user.",
        )

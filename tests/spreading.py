"""Where ext4 puts the clusters of tests.

Without a journal, ext4 gives no inode away that was freed in the last minute, and looks at each of them for
every new file of the same group of blocks (recently_deleted in fs/ext4/ialloc.c). Tests make and remove
clusters of a thousand files all the time: a fifth of their CPU went there. With the attribute T (chattr(1))
each folder in ``running`` gets a group of its own.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress

from walproof.postgres.cache import cache_folder
from walproof.privilege.folders import own_folder
from walproof.privilege.user import server_user

_WORK = ("tests", "work", "interruptions/work")
"""Folders in the cache in which tests have workspaces."""


def spread() -> None:
    """Set the attribute, where the filesystem has it."""
    for name in _WORK:
        work = own_folder(cache_folder() / name, passable=server_user() is not None)
        running = own_folder(work / "running", passable=server_user() is not None)
        with suppress(OSError):
            subprocess.run(["chattr", "+T", running], check=False, capture_output=True)

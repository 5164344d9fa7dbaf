"""An error of SQL on a server that walproof started, or of a machine that has no room, as an error of
walproof's tree.

The lab's own statements and files are right, so what a server or the system says against one comes from what
is being tried: a setting, a full disk, a server that ended.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from walproof.errors import ClusterError, DiskError, one_line

OF_THE_MACHINE = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS,
    errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN,
})  # fmt: skip
"""What the system says where it has no room, no process or no file left; any other error is a defect."""


@contextmanager
def as_failure() -> Iterator[None]:
    """Raise a ClusterError for an error of psycopg in the block, and a DiskError where the machine has no
    room."""
    try:
        yield
    except psycopg.Error as error:
        raise ClusterError(f"a statement failed: {one_line(error)}") from error
    except OSError as error:
        if error.errno not in OF_THE_MACHINE:
            raise
        what = "a file" if error.filename is None else f'"{error.filename}"'
        raise DiskError(f"could not use {what}: {error.strerror}") from error

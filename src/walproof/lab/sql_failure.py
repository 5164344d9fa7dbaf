"""An error of SQL on a server that walproof started, as an error of walproof's tree.

The lab's own statements are right, so what a server says against one comes from what is being tried: a
setting, a full disk, a server that ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from walproof.errors import ClusterError, one_line


@contextmanager
def sql_as_failure() -> Iterator[None]:
    """Raise a ClusterError for an error of psycopg in the block."""
    try:
        yield
    except psycopg.Error as error:
        raise ClusterError(f"a statement failed: {one_line(error)}") from error

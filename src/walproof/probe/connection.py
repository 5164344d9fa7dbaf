"""The connection that a probe observes a server through."""

from __future__ import annotations

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import ProbeError

APPLICATION = "walproof probe"
"""application_name of every probe's session."""


def connect(conninfo: str) -> psycopg.Connection[TupleRow]:
    """Open a session in autocommit mode, so that no snapshot, of data or of statistics, outlives a query.

    Raises ProbeError.
    """
    try:
        connection = psycopg.connect(
            conninfo,
            autocommit=True,
            application_name=APPLICATION,
            connect_timeout=10,
            # A database made with the C locale is SQL_ASCII, and psycopg gives its text as bytes.
            client_encoding="UTF8",
        )
    except psycopg.Error as error:
        raise ProbeError(
            "could not connect to the server that is observed", detail=one_line(error)
        ) from error
    try:
        # A variant may set these; a probe is neither timed out nor made more costly than it has to be.
        for setting in ("statement_timeout = 0", "max_parallel_workers_per_gather = 0", "jit = off"):
            connection.execute(f"SET {setting}")
    except psycopg.Error as error:
        connection.close()
        raise ProbeError("could not prepare a session for observing", detail=one_line(error)) from error
    return connection


def one_line(error: Exception) -> str:
    """The error's text without its line breaks."""
    return " ".join(str(error).split())

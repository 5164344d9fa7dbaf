"""Why a server refused a session, and what to do. Only messages in English are understood.

The texts are those of src/backend/libpq/auth.c, src/backend/utils/init/postinit.c,
src/backend/replication/slot.c, walsender.c, src/backend/tcop/backend_startup.c and
src/interfaces/libpq/fe-connect.c, of 13 to 18.
"""

from __future__ import annotations

import re

_UNENCRYPTED = re.compile(r"\bno encryption\b|\bSSL off\b")
_ENCRYPTED = re.compile(r"\bSSL encryption\b|\bSSL on\b")
_UNDEFINED = re.compile(r'definition of service "[^"]*" not found|service file "[^"]*" not found')

_HINTS = (
    (
        # Options of every session of ours, of which 10 and 11 lack one.
        re.compile(r'unrecognized configuration parameter "(?:jit|tcp_user_timeout)"'),
        "Servers older than PostgreSQL 13 are not looked at.",
    ),
    (
        re.compile(r"the database system is (?:starting up|in recovery mode|not yet accepting connections)"),
        'It recovers from a crash, or starts: "walproof recovery progress DATA" on its machine says how far '
        "it is.",
    ),
    (
        re.compile(
            r"must be superuser or replication role|permission denied to (?:start WAL sender|use replication)"
        ),
        "The role needs the attribute REPLICATION: ALTER ROLE ... REPLICATION.",
    ),
    (
        re.compile(r"exceeds \"?max_wal_senders"),
        "Every walsender is taken: raise max_wal_senders (needs a restart), or end another stream.",
    ),
    (
        re.compile(r"all replication slots are in use|only be used if \"?max_replication_slots"),
        "No replication slot is free: raise max_replication_slots (needs a restart), or drop one not needed.",
    ),
    (
        re.compile(r"only be used if \"?wal_level"),
        "WAL can be streamed with wal_level = replica or logical only (needs a restart).",
    ),
    (
        re.compile(r"unsupported startup parameter"),
        "A connection pooler answered: name the server itself.",
    ),
    (
        re.compile(r"certificate verify failed|root certificate file|does not match host name"),
        "The server's certificate was not accepted (sslmode={mode}): name its authority, sslrootcert=FILE.",
    ),
    (
        re.compile(r"password authentication failed|no password supplied"),
        "Put the password in ~/.pgpass or PGPASSWORD; it then serves the role's WAL stream as well.",
    ),
    (
        re.compile(r'role "[^"]*" does not exist|Peer authentication failed'),
        'Add the role: "user=NAME". Without it libpq takes PGUSER, then the name of the system\'s user.',
    ),
    (
        _UNDEFINED,
        "Services are read from ~/.pg_service.conf, or from the file that PGSERVICEFILE names; "
        "docs/connections.md.",
    ),
)


_TURNED_AWAY = re.compile(
    r"password authentication failed|no password supplied|authentication failed for user|pg_hba\.conf"
    r'|(?:role|database) "[^"]*" does not exist|is not permitted to log in|permission denied for database'
    r"|too many connections for (?:role|database)"
)


def is_turned_away(said: str) -> bool:
    """Whether the server answered, and did not let in who asked: that says nothing of its health."""
    return _TURNED_AWAY.search(said) is not None


def is_undefined(said: str) -> bool:
    """Whether libpq found no such service, so that no server was asked."""
    return _UNDEFINED.search(said) is not None


def hint_for(said: str, sslmode: str) -> str | None:
    """Advice on a refusal, given the words of libpq or of the server; None if none is known.

    ``sslmode``: the mode that was in force.
    """
    if "does not support SSL, but SSL was required" in said:
        return (
            f"The server has no SSL, and sslmode={sslmode} demands it: set ssl = on there, or accept a "
            "connection that is not encrypted with sslmode=prefer."
        )
    if "SSL support is not compiled in" in said:
        return (
            f"The program that asks has no SSL, and sslmode={sslmode} demands it: install PostgreSQL's "
            "own client programs."
        )
    if "pg_hba.conf" in said:
        return _of_rules(said, sslmode)
    for pattern, hint in _HINTS:
        if pattern.search(said):
            return hint.format(mode=sslmode)
    return None


def _of_rules(said: str, sslmode: str) -> str:
    """Advice for a session that no line of pg_hba.conf lets in, or that a line rejects."""
    is_replication = "replication connection" in said
    line = "host replication ROLE ADDRESS scram-sha-256" if is_replication else "one for this role"
    if _UNENCRYPTED.search(said) and not _ENCRYPTED.search(said):
        return (
            f"The session was not encrypted (sslmode={sslmode}). If pg_hba.conf has lines with hostssl only, "
            f"use sslmode=require; else it needs a line: {line}."
        )
    if _ENCRYPTED.search(said) and not _UNENCRYPTED.search(said):
        return (
            f"The session was encrypted by SSL (sslmode={sslmode}). If pg_hba.conf has lines with hostnossl "
            f"only, it must not be: sslmode=disable; else it needs a line: {line}."
        )
    return f"pg_hba.conf needs a line: {line}."

"""The sessions that servers are observed through: of walproof's own servers, and of foreign ones.

A foreign server is one that walproof did not start. Every session there is opened by `connect_foreign` (or,
for WAL, has the parameters of `streaming_parameters`): it cannot write, waits for nothing for long, and ends
on both sides when the network is cut.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
from psycopg import conninfo as conninfos
from psycopg import pq
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

from walproof.errors import ConninfoError, ProbeError, one_line
from walproof.settings.conninfo import ADVICE, concealed, parse
from walproof.settings.refusal import hint_for, is_undefined
from walproof.settings.session import APPLICATION, PATIENCE_S, READ_ONLY, add_options, streaming

OWN_APPLICATION = "walproof probe"
"""application_name of every probe's session on walproof's own servers."""
_CONNECT_PATIENCE_S = "10"
_CANCEL_PATIENCE_S = 2.0
_OLDEST_NUM = 130000
"""Version of the oldest servers that are looked at."""
_DEFAULTS = {
    "application_name": APPLICATION,
    "connect_timeout": _CONNECT_PATIENCE_S,
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": f"{PATIENCE_S * 1000:.0f}",
}
"""Parameters of libpq that apply where the user gave none (manual, "Parameter Key Words")."""
# libpq calls a session read-only when default_transaction_read_only is on, which is our own doing.
_SESSION_ATTRS = {"read-write": "primary", "read-only": "standby"}


def connect(conninfo: str) -> psycopg.Connection[TupleRow]:
    """Open a session on a server of walproof's own, in autocommit mode, so that no snapshot of data or
    statistics outlives a query. Raises ProbeError."""
    try:
        connection = psycopg.connect(
            conninfo,
            autocommit=True,
            application_name=OWN_APPLICATION,
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


class _ForeignSession(psycopg.Connection[TupleRow]):
    """A session whose statement ends on the server with the command that asked, however that was told to end.

    psycopg sees to it for Ctrl-C's own exception alone, and a server that computes does not notice for up to
    ``statement_timeout`` that its client is gone.
    """

    def wait(self, *words: Any, **named: Any) -> Any:
        """As psycopg's, but any interruption cancels the statement, with libpq 17 or newer."""
        try:
            return super().wait(*words, **named)
        except Exception:
            raise
        except BaseException:
            # An older one tries to connect for as long as the kernel does, and hears no signal meanwhile.
            is_active = self.pgconn.transaction_status == pq.TransactionStatus.ACTIVE
            if is_active and psycopg.capabilities.has_cancel_safe():
                with suppress(psycopg.Error, OSError):
                    self.cancel_safe(timeout=_CANCEL_PATIENCE_S)
            raise


def connect_foreign(conninfo: str) -> psycopg.Connection[TupleRow]:
    """Open a session on a server that walproof did not start, in autocommit mode.

    It reads only, finds the server's own functions only, and has time-outs (`READ_ONLY`). What the user gave
    by ``conninfo``, environment or service file holds, except for these settings.
    Raises ConninfoError, ProbeError.
    """
    given = resolve(conninfo)
    try:
        session = _ForeignSession.connect(
            conninfos.make_conninfo(
                conninfo,
                **{name: value for name, value in _DEFAULTS.items() if not given.get(name)},
                options=add_options(given.get("options", ""), READ_ONLY),
                target_session_attrs=_SESSION_ATTRS.get(given.get("target_session_attrs", "")),
                client_encoding="UTF8",
            ),
            autocommit=True,
            # Behind a pooler the next statement may come to another session, which knows no names.
            prepare_threshold=None,
        )
        version_num, version = session.info.server_version, session.info.parameter_status("server_version")
        if version_num < _OLDEST_NUM:
            session.close()
            raise ProbeError(
                f"the server is PostgreSQL {version}, which is too old", detail="Expected 13 or newer."
            )
        if _is_read_only(session):
            return session
        session.close()
    except (psycopg.Error, UnicodeError) as error:  # names of hosts with empty or too long labels
        said = concealed(one_line(error), conninfo)
        # Not "from error": its text is libpq's.
        raise ProbeError(
            "could not connect to the server", detail=said, hint=hint_for(said, given.get("sslmode", ""))
        ) from None
    raise ProbeError(
        "the session is not as it was asked for",
        detail="It may write, and has no time-outs: what stood in between passed the options by.",
        hint="A connection pooler answered: name the server itself.",
    )


def _is_read_only(session: psycopg.Connection[TupleRow]) -> bool:
    """Whether the options of the connection hold. From 14 on the server tells without being asked."""
    told = session.info.parameter_status("default_transaction_read_only")
    if told is None:
        row = session.execute("SHOW default_transaction_read_only").fetchone()
        told = None if row is None else str(row[0])
    return told == "on"


def streaming_parameters(
    conninfo: str, beside: psycopg.Connection[TupleRow], timeout_s: float
) -> dict[str, str]:
    """Parameters of a session that streams WAL from the same server as the session ``beside``.

    The server ends it ``timeout_s`` seconds after the client's last reply. They include a password that
    ``beside`` found in a password file, since libpq would look there for the database "replication"."""
    given = resolve(conninfo)
    info = beside.info
    parameters = {str(name): str(value) for name, value in conninfos.conninfo_to_dict(conninfo).items()}
    parameters |= {name: value for name, value in _DEFAULTS.items() if not given.get(name)}
    parameters |= {
        "host": info.host,
        "hostaddr": info.hostaddr,
        "port": str(info.port),
        "user": info.user,
        "dbname": "replication",
        "replication": "true",
        "options": add_options(given.get("options", ""), streaming(timeout_s, info.server_version)),
        "target_session_attrs": "any",
        "sslmode": given["sslmode"],
        "connect_timeout": given.get("connect_timeout") or _CONNECT_PATIENCE_S,
        "tcp_user_timeout": f"{timeout_s * 1000:.0f}",
    }
    if info.password:
        parameters["password"] = info.password
    return parameters


def resolve(conninfo: str) -> dict[str, str]:
    """What libpq makes of a connection string, the environment and service files. Raises ConninfoError."""
    connection = _begun(conninfo)
    try:
        return {
            option.keyword.decode(): option.val.decode()
            for option in connection.info
            if option.val is not None
        }
    finally:
        connection.finish()


def require_service(conninfo: str) -> None:
    """Refuse a service that is not defined, without asking a server. Raises ConninfoError, ProbeError."""
    connection = _begun(conninfo)
    try:
        said = " ".join(connection.error_message.decode(errors="replace").split())
    finally:
        connection.finish()
    if is_undefined(said):
        raise ProbeError(concealed(said, conninfo), hint=hint_for(said, ""))


def _begun(conninfo: str) -> PGconn:
    """A connection that fails: libpq tells what it reads only for one (PQconninfo), so one is begun, to a
    socket that cannot exist. Raises ConninfoError."""
    parse(conninfo)
    try:
        nowhere = conninfos.make_conninfo(conninfo, host="/dev/null", hostaddr="")
    except psycopg.Error:
        # The text is not repeated: it may hold a password.
        raise ConninfoError("invalid connection string", hint=ADVICE) from None
    return pq.PGconn.connect_start(nowhere.encode())

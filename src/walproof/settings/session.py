"""Settings for sessions on servers that walproof did not start, so that the servers cannot be harmed."""

from __future__ import annotations

from collections.abc import Mapping

APPLICATION = "walproof"
"""application_name if the user gave none."""
PATIENCE_S = 30.0
"""Seconds after which a server gives up on a client that does not answer, and a client on its server."""
LOCK_PATIENCE_S = 5
"""Seconds to wait for a lock: whoever waits makes later sessions wait, too."""

_NETWORK = {
    # The server's kernel gives up on a client that is cut off or reads nothing.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": f"{PATIENCE_S * 1000:.0f}",
}
READ_ONLY: Mapping[str, str] = {
    # Nobody else's object is called in place of the server's own (CVE-2018-1058).
    "search_path": "pg_catalog",
    "default_transaction_read_only": "on",
    "statement_timeout": "60s",
    "lock_timeout": f"{LOCK_PATIENCE_S}s",
    "idle_in_transaction_session_timeout": "60s",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    **_NETWORK,
}
"""For sessions that only ask. All of these exist in 13 to 19, and a user may set them (manual, "Client
Connection Defaults", "Connections and Authentication")."""


def streaming(timeout_s: float, version_num: int) -> Mapping[str, str]:
    """For a session that streams WAL: the server ends it when the client is silent for ``timeout_s`` seconds.

    wal_sender_timeout counts from the client's last reply, even if the client is stopped: its kernel answers
    TCP keepalives, but sends no replies (src/backend/replication/walsender.c, WalSndCheckTimeOut).
    """
    milliseconds = f"{timeout_s * 1000:.0f}"
    # For the time between two commands, when the slot exists and the stream does not. 13 has no such setting.
    idle = {"idle_session_timeout": milliseconds} if version_num >= 140000 else {}
    return {**_NETWORK, **idle, "wal_sender_timeout": milliseconds, "tcp_user_timeout": milliseconds}


def add_options(given: str, settings: Mapping[str, str]) -> str:
    """Value of libpq's parameter ``options``, with ``settings`` appended to it: the last value counts."""
    return " ".join(([given] if given else []) + [f"-c {name}={value}" for name, value in settings.items()])

"""The settings that walproof sets itself, and the reasons: the ground rules of an experiment."""

from __future__ import annotations

_PLACE = "walproof decides where its clusters live"
_SOCKET = "a throw-away cluster listens on a private unix socket only"
_LOG = "walproof reads the server's log, in a form that it chooses"

OWNED: dict[str, str] = {
    "data_directory": _PLACE,
    "config_file": _PLACE,
    "hba_file": _PLACE,
    "ident_file": _PLACE,
    "external_pid_file": _PLACE,
    "listen_addresses": _SOCKET,
    "port": _SOCKET,
    "unix_socket_directories": _SOCKET,
    "unix_socket_permissions": _SOCKET,
    "unix_socket_group": _SOCKET,
    "ssl": _SOCKET,
    "logging_collector": _LOG,
    "log_destination": _LOG,
    "log_directory": _LOG,
    "log_filename": _LOG,
    "log_line_prefix": _LOG,
    "log_timezone": _LOG,
    "lc_messages": _LOG,
    "cluster_name": "walproof marks its own servers with it, so that it can clean up after itself",
    "restart_after_crash": "a crash ends a trial: a server that came back would no longer be the same "
    "subject",
}

FIXED: dict[str, str] = {
    "data_checksums": 'It is chosen at initdb: initdb = ["--data-checksums"], '
    'or from PostgreSQL 18, where it is the default, ["--no-data-checksums"].',
    "wal_segment_size": 'It is chosen at initdb: initdb = ["--wal-segsize=64"].',
    "data_directory_mode": 'It is chosen at initdb: initdb = ["--allow-group-access"].',
    "server_encoding": 'It is chosen at initdb: initdb = ["--encoding=UTF8"].',
    "lc_collate": 'It is chosen at initdb: initdb = ["--lc-collate=C"].',
    "lc_ctype": 'It is chosen at initdb: initdb = ["--lc-ctype=C"].',
    "block_size": "It is chosen when PostgreSQL is built (--with-blocksize).",
    "wal_block_size": "It is chosen when PostgreSQL is built (--with-wal-blocksize).",
    "segment_size": "It is chosen when PostgreSQL is built (--with-segsize).",
}
"""Where the value of a setting that cannot be set comes from."""

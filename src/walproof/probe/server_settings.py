"""The settings of the server that a run used.

The facts go into reports: they name no person, host or address, and hold no secret.
"""

from __future__ import annotations

import psycopg

from walproof.errors import ProbeError, one_line
from walproof.probe.connection import connect

_PRIVATE = (
    "(conninfo|_command$|_file$|_files$|_directory$|_directories$|^listen_addresses$|^cluster_name$|^port$"
    "|passphrase|^krb_|^bonjour|^event_source$|^primary_slot_name$|^external_pid_file$|^application_name$"
    "|^synchronous_standby_names$|^recovery_target"
    "|^unix_socket_|^data_directory_mode$|^log_file_mode$|^num_os_semaphores$|^shared_memory_size)"
)
"""Settings (a regular expression) that name places, hosts or people, may hold a secret, or only repeat what
other settings amount to."""


def server_facts(conninfo: str) -> tuple[dict[str, str], str]:
    """(settings that differ from their boot values, as SHOW prints them with units; text of ``version()``).

    effective_wal_level (from 19) is always included: it differs from wal_level while a logical slot exists.
    Settings of this session or its role and those that name places or may hold secrets are left out.
    Raises ProbeError.
    """
    try:
        with connect(conninfo) as connection:
            settings = connection.execute(
                "SELECT name, current_setting(name) FROM pg_settings"
                " WHERE (setting IS DISTINCT FROM boot_val OR name = 'effective_wal_level')"
                " AND source NOT IN ('client', 'session', 'user')"
                " AND name !~ %s ORDER BY name",
                (_PRIVATE,),
            ).fetchall()
            version = connection.execute("SELECT version()").fetchone()
    except psycopg.Error as error:
        raise ProbeError("could not read the server's settings", detail=one_line(error)) from error
    assert version is not None
    return dict(settings), str(version[0])

"""Hints on refusals, in the words of versions that differ."""

from __future__ import annotations

import pytest

from walproof.settings.refusal import hint_for, is_turned_away

RULE = 'no pg_hba.conf entry for replication connection from host "10.0.0.1", user "r", '


@pytest.mark.parametrize(
    ("said", "sslmode", "hint"),
    [
        (RULE + "SSL off", "disable", "not encrypted (sslmode=disable)"),  # 13
        (RULE + "no encryption", "disable", "not encrypted (sslmode=disable)"),
        (RULE + "SSL on", "require", "encrypted by SSL (sslmode=require)"),  # 13
        (RULE + "SSL encryption", "require", "encrypted by SSL (sslmode=require)"),
        (f"{RULE}SSL encryption FATAL: {RULE}no encryption", "prefer", "needs a line: host replication"),
        ("pg_hba.conf rejects connection for host, no encryption", "disable", "one for this role"),
        ("server does not support SSL, but SSL was required", "verify-full", "sslmode=verify-full demands"),
        ('sslmode value "require" invalid when SSL support is not compiled in', "require", "has no SSL"),
        ("SSL error: certificate verify failed", "verify-ca", "sslmode=verify-ca"),
        ("must be superuser or replication role to start walsender", "prefer", "attribute REPLICATION"),
        ("permission denied to start WAL sender", "prefer", "attribute REPLICATION"),
        ("number of requested standby connections exceeds max_wal_senders", "", "raise max_wal_senders"),
        ('replication slots can only be used if "max_replication_slots" > 0', "", "max_replication_slots"),
        ("replication slots can only be used if wal_level >= replica", "", "wal_level = replica"),
        ('FATAL: unrecognized configuration parameter "jit"', "prefer", "older than PostgreSQL 13"),
        ("unsupported startup parameter: options", "prefer", "pooler"),
        ("FATAL: the database system is starting up", "prefer", "walproof recovery progress DATA"),
        ("FATAL: the database system is in recovery mode", "prefer", "walproof recovery progress DATA"),
        ('password authentication failed for user "r"', "prefer", "~/.pgpass"),
        ('FATAL: role "r" does not exist', "prefer", "user=NAME"),
        ('FATAL: Peer authentication failed for user "r"', "prefer", "user=NAME"),
        ('definition of service "shop" not found', "", "~/.pg_service.conf"),
    ],
)
def test_the_hint_names_the_reason(said: str, sslmode: str, hint: str) -> None:
    assert hint in (hint_for(said, sslmode) or "")


@pytest.mark.parametrize(
    ("said", "is_role_s"),
    [
        ('FATAL:  too many connections for role "watcher"', True),
        ('FATAL:  too many connections for database "shop"', True),
        ("FATAL:  sorry, too many clients already", False),
        ('FATAL:  role "r" does not exist', True),
    ],
)
def test_a_limit_of_the_role_says_nothing_of_the_servers_health(said: str, is_role_s: bool) -> None:
    assert is_turned_away(said) is is_role_s


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert hint_for("could not translate host name", "prefer") is None

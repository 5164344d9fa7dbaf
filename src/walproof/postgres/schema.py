"""The definitions of somebody's database, read by pg_dump: nothing of its rows, nothing is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo

from walproof.errors import ClusterError
from walproof.facts import Install
from walproof.settings.refusal import hint_for
from walproof.settings.session import APPLICATION, LOCK_PATIENCE_S, READ_ONLY, add_options

_PATIENCE_S = 120.0


def without_password(dsn: str) -> str:
    """The same connection string as it may be shown and stored. Raises ClusterError when it is none."""
    kept: dict[str, Any] = {name: value for name, value in _parts(dsn).items() if name != "password"}
    return conninfo.make_conninfo("", **kept)


def dump_schema(dsn: str, installs: Sequence[Install]) -> str:
    """SQL of every definition in the database of ``dsn``, by the pg_dump of PATH or of an install.

    Raises ClusterError, with pg_dump's own words.
    """
    parts = _parts(dsn)
    program = _find_program(installs)
    password = {"PGPASSWORD": str(parts["password"])} if "password" in parts else {}
    command = [program, "--schema-only", "--no-owner", "--no-privileges", "--no-tablespaces"]
    command.append(f"--lock-wait-timeout={LOCK_PATIENCE_S}s")
    # In the connection string, where they hold over those of a service file.
    options = add_options(str(parts.get("options") or os.environ.get("PGOPTIONS", "")), READ_ONLY)
    target = conninfo.make_conninfo(without_password(dsn), options=options)
    try:
        done = subprocess.run(
            [*command, "--dbname", target],
            capture_output=True, text=True, check=False, timeout=_PATIENCE_S,
            env={"PGAPPNAME": APPLICATION, **os.environ, **password, "LC_ALL": "C"},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"pg_dump did not end within {_PATIENCE_S:.0f} s") from error
    if done.returncode != 0:
        sslmode = str(parts.get("sslmode") or os.environ.get("PGSSLMODE", "prefer"))
        raise ClusterError(
            "pg_dump could not read the definitions",
            detail=done.stderr.strip() or None,
            hint=hint_for(done.stderr, sslmode)
            or "pg_dump has to be as new as the server, and --table FILE.sql:NAME takes its output too.",
        )
    return done.stdout


def _parts(dsn: str) -> dict[str, object]:
    try:
        return dict(conninfo.conninfo_to_dict(dsn))
    except psycopg.Error as error:
        # The text is not repeated: it may hold a password.
        raise ClusterError("the part before the last colon is no connection string") from error


def _find_program(installs: Sequence[Install]) -> str:
    found = shutil.which("pg_dump")
    if found is not None:
        return found
    for install in sorted(installs, key=lambda one: -one.version_num):
        program = Path(install.bindir) / "pg_dump"
        if program.exists():
            return str(program)
    raise ClusterError(
        "pg_dump was not found",
        detail="It is neither on PATH nor in a folder of --pg.",
        hint="Run pg_dump --schema-only where the database is, and name its output: --table FILE.sql:NAME.",
    )

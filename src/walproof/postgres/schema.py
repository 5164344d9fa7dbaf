"""The definitions of somebody's database, read by pg_dump: no rows are read, and nothing is changed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg import conninfo as conninfos
from psycopg import pq

from walproof.errors import ClusterError, ConninfoError
from walproof.privilege.environment import foreign_environment
from walproof.settings.conninfo import ADVICE, concealed, parse
from walproof.settings.refusal import hint_for
from walproof.settings.session import APPLICATION, LOCK_PATIENCE_S, READ_ONLY, add_options

_PATIENCE_S = 120.0
_CANCEL_PATIENCE_S = 2.0
_LEFT_OUT = (
    "owner", "privileges", "tablespaces", "publications", "subscriptions", "security-labels",
)  # fmt: skip
_SERVICE = "walproof"


def dump_schema(dsn: str, program: Path) -> str:
    """SQL of every definition in the database of ``dsn``, by the pg_dump ``program``.

    Raises ConninfoError; ClusterError, with pg_dump's own words.
    """
    given = _given(dsn)
    # Of a database in SQL_ASCII nobody knows the encoding; pg_dump hands over its bytes as they are.
    command = [str(program), "--schema-only", "--encoding=UTF8", *(f"--no-{what}" for what in _LEFT_OUT)]
    command.append(f"--lock-wait-timeout={LOCK_PATIENCE_S}s")
    try:
        with _out_of_sight(given) as (variables, files):
            done = _run(command, variables, files)
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"pg_dump did not end within {_PATIENCE_S:.0f} s") from error
    if done.returncode != 0:
        said = concealed(done.stderr.decode(errors="replace").strip(), dsn)
        raise ClusterError(
            "pg_dump could not read the definitions",
            detail=said or None,
            hint=hint_for(said, given.get("sslmode", "prefer")) or _hint(said),
        )
    try:
        return done.stdout.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ClusterError(
            "the definitions are not in UTF-8",
            detail=f"Byte {error.start} of pg_dump's output is 0x{done.stdout[error.start]:02x}.",
            hint="The database is in SQL_ASCII: dump it, and give iconv's output to --table FILE.sql:NAME.",
        ) from error


def _run(
    command: list[str], variables: Mapping[str, str], files: Sequence[int]
) -> subprocess.CompletedProcess[bytes]:
    """Run pg_dump; whatever interrupts that ends its statement on the server. Raises TimeoutExpired."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        pass_fds=files, env=foreign_environment(variables),
    ) as program:  # fmt: skip
        try:
            told, said = program.communicate(timeout=_PATIENCE_S)
        except BaseException:
            try:
                program.send_signal(signal.SIGINT)  # of which it cancels the statement
                with suppress(subprocess.TimeoutExpired):
                    program.wait(_CANCEL_PATIENCE_S)
            finally:
                program.kill()
            raise
    return subprocess.CompletedProcess(command, program.returncode, told, said)


def _given(dsn: str) -> dict[str, str]:
    """All that the connection string, the environment and a service file say, without libpq's defaults.

    libpq tells it of a connection only (PQconninfo). So a connection is begun with a word that libpq refuses
    before it looks for a host. ``sslmode``, which carries that word, is told by a second connection, to a
    socket that cannot exist."""
    parse(dsn)
    compiled = {option.keyword: option.compiled for option in pq.Conninfo.get_defaults()}
    said = {**_told(dsn, sslmode="refused"), "sslmode": _told(dsn, host="/dev/null", hostaddr="")["sslmode"]}
    return {name: value for name, value in said.items() if value.encode() != compiled.get(name.encode())}


def _told(dsn: str, **changes: str) -> dict[str, str]:
    try:
        nowhere = conninfos.make_conninfo(dsn, **changes)
    except psycopg.Error:
        # The text is not repeated: it may hold a password.
        raise ConninfoError("invalid connection string", hint=ADVICE) from None
    connection = pq.PGconn.connect_start(nowhere.encode())
    try:
        told = {
            option.keyword.decode(): option.val.decode()
            for option in connection.info
            if option.val is not None
        }
        if not told:
            # A service that no file defines, for instance.
            said = concealed(connection.error_message.decode(errors="replace").strip(), dsn)
            raise ConninfoError("unusable connection string", detail=said, hint=ADVICE)
    finally:
        connection.finish()
    return told


@contextmanager
def _out_of_sight(given: Mapping[str, str]) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """libpq's variables that say the same, because a command line is shown to every user of the machine, and
    descriptors of the files that they name. What has no variable (``sslpassword``) is put into a service file
    in memory alone: nothing could remove another one after a kill. Raises ClusterError."""
    variables = {
        option.keyword.decode(): option.envvar.decode()
        for option in pq.Conninfo.get_defaults()
        if option.envvar is not None
    }
    wanted = {"application_name": APPLICATION, **given}
    wanted["options"] = add_options(given.get("options", ""), READ_ONLY)
    wanted = {name: value for name, value in wanted.items() if name not in ("service", "servicefile")}
    named = {variables[name]: value for name, value in wanted.items() if name in variables}
    others = [f"{name}={value}\n" for name, value in wanted.items() if name not in variables]
    if not others:
        yield named, ()
        return
    with os.fdopen(_nameless_file(), "w", encoding="utf-8") as file:
        file.write(f"[{_SERVICE}]\n{''.join(others)}")
        file.flush()
        named |= {"PGSERVICEFILE": f"/proc/self/fd/{file.fileno()}", "PGSERVICE": _SERVICE}
        yield named, (file.fileno(),)


def _nameless_file() -> int:
    """Descriptor of an empty file in memory that is gone with whoever has it open. Raises ClusterError."""
    # A Python that was built for an older C library has no memfd_create, and vm.memfd_noexec may forbid it.
    with suppress(AttributeError, OSError):
        return os.memfd_create("pg_service.conf")
    try:
        return os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ClusterError(
            "could not make a file in memory for what pg_dump is told",
            detail=f"/dev/shm: {error.strerror}",
            hint="None is needed where the address has only what libpq has a variable for.",
        ) from error


def _hint(said: str) -> str:
    """What helps where pg_dump could not read the definitions."""
    if "permission denied for" in said:
        return (
            "pg_dump locks every table of the database, which takes SELECT: GRANT pg_read_all_data (14 and "
            "newer), or let a role that may dump it and give --table FILE.sql:NAME."
        )
    if "lock timeout" in said:
        return "Somebody holds a lock on a table of the database: try again."
    return "--table FILE.sql:NAME takes the output of pg_dump --schema-only, too."

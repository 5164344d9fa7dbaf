"""The role that makes and loads the user's tables. It is not a superuser, so nothing of theirs runs as one.

Triggers, defaults and functions in the definitions are the user's own code, or that of whoever wrote the
dump. As superuser they could start programs and read files (COPY FROM PROGRAM, pg_read_file).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from walproof.errors import WorkloadError, one_line
from walproof.sqltext import folded, tokens, visible
from walproof.workload.loading.ddl import DdlStatement, statements
from walproof.workload.loading.table import Session

OWNER = "walproof_owner"
_OF_OWNERS = re.compile(
    r"ALTER [^,]* OWNER TO \S+|GRANT .*|REVOKE .*|ALTER DEFAULT PRIVILEGES .*|COMMENT ON EXTENSION .*"
    r"|(SET|RESET) ((LOCAL|SESSION) )?(SESSION AUTHORIZATION|ROLE)\b.*"
    r"|CREATE POLICY .* TO (?!PUBLIC\b).*"
)
"""Matches the outline of a statement that says who owns things, or who may use them."""
_COPY_IN = re.compile(r"COPY .*\bFROM STDIN\b")
_IDENTIFIER = r'("(?:[^"]|"")+"|[A-Za-z_\x80-\U0010ffff][\w$]*)'
_EXTENSION = re.compile(
    rf"CREATE\s+EXTENSION(?P<exists>\s+IF\s+NOT\s+EXISTS)?\s+(?P<name>{_IDENTIFIER})(?:\s+WITH\b)?"
    rf"(?:\s+SCHEMA\s+(?P<schema>{_IDENTIFIER}))?(?:\s+VERSION\s+(?P<version>{_IDENTIFIER}|'[^'\\]*'))?"
    r"(?P<cascade>\s+CASCADE)?",
    re.IGNORECASE,
)
_AVAILABLE = """
WITH RECURSIVE wanted AS (
  SELECT v.* FROM pg_available_extension_versions v JOIN pg_available_extensions e USING (name)
   WHERE v.name = %(name)s AND v.version = coalesce(%(version)s, e.default_version)
  UNION
  SELECT v.* FROM wanted w CROSS JOIN unnest(w.requires) r
    JOIN pg_available_extensions e ON e.name = r
    JOIN pg_available_extension_versions v ON v.name = e.name AND v.version = e.default_version
   WHERE %(cascade)s
)
SELECT coalesce(bool_or(superuser AND NOT trusted AND NOT installed), false),
       max(schema::text) FILTER (WHERE name = %(name)s)
  FROM wanted
"""
_SAFE = "-c standard_conforming_strings=on"
_AS_SUPERUSER = (
    "With --ddl-as-superuser all of the DDL, and the loads, run as superuser of a throw-away server."
)


@dataclass(frozen=True, slots=True)
class _Extension:
    """CREATE EXTENSION, as far as it is understood: all of it is written anew."""

    name: str
    schema: str | None
    version: str | None
    if_not_exists: bool
    cascade: bool


def loader_conninfo(superuser: str, *, as_superuser: bool) -> str:
    """The connection string of sessions that read and load the user's table, made from that of the superuser.
    Literals in definitions are printed so that they can be read anywhere, whatever the DDL has set for the
    role."""
    role = {} if as_superuser else {"user": OWNER}
    return make_conninfo(superuser, **role, options=_SAFE, client_encoding="UTF8")


def confine_superuser(session: Session) -> None:
    """Let later sessions of this superuser find only the server's own objects by their bare names."""
    session.execute("ALTER ROLE CURRENT_USER SET search_path = pg_catalog")


def superuser_notes(conninfo: str, text: str, *, as_superuser: bool) -> list[str]:
    """Sentences that say which of the DDL will run as superuser. Nothing is run; the server is asked."""
    if as_superuser:
        return ["the DDL and the loads run as superuser of a throw-away server (--ddl-as-superuser)"]
    with psycopg.connect(conninfo, autocommit=True) as session:
        return [
            f"needs a superuser: CREATE EXTENSION {visible(extension.name)} (statement {statement.number}); "
            "it alone runs as superuser of a throw-away server"
            for statement in statements(text)
            if (extension := _extension(statement)) is not None and _needs_superuser(session, extension)[0]
        ]


def apply_ddl(conninfo: str, text: str, *, as_superuser: bool = False) -> None:
    """Run the statements one by one, as a role that is not a superuser and owns what they make. ``conninfo``
    is the superuser's, who makes that role if it is missing, and creates extensions that are not trusted.
    Statements about owners and privileges, and comments on extensions, are left out: a load does not depend
    on them, and the roles are not there. With ``as_superuser`` the superuser runs all of it. Raises
    WorkloadError with the server's complaint and the line."""
    if not as_superuser:
        _make_owner(conninfo)
    with psycopg.connect(loader_conninfo(conninfo, as_superuser=as_superuser), autocommit=True) as session:
        for statement in statements(text):
            if _COPY_IN.match(statement.outline):
                raise WorkloadError(
                    f"DDL, line {statement.line}: COPY FROM STDIN is not supported",
                    hint="pg_dump --schema-only writes none; a CSV of rows goes to --file.",
                )
            with _complaints(statement):
                if not _OF_OWNERS.fullmatch(statement.outline) and not _create_extension(
                    conninfo, session, statement
                ):
                    session.execute(statement.sql.encode())


def _make_owner(conninfo: str) -> None:
    with psycopg.connect(conninfo, autocommit=True) as session:
        role = sql.Identifier(OWNER)
        if session.execute("SELECT FROM pg_roles WHERE rolname = %s", (OWNER,)).fetchone() is None:
            session.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        database = sql.Identifier(session.info.dbname)
        session.execute(sql.SQL("GRANT CREATE, TEMPORARY ON DATABASE {} TO {}").format(database, role))
        # Up to 14 everybody may create in it, from 15 on only its owner; a dump may comment on it.
        session.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(role))


def _create_extension(conninfo: str, session: Session, statement: DdlStatement) -> bool:
    """Create an extension that needs a superuser, if the statement asks for one; return whether it was done.
    The statement is not sent as it is: nothing else that may stand in it is run."""
    extension = _extension(statement)
    if extension is None:
        return False
    needed, own_schema = _needs_superuser(session, extension)
    if not needed:
        return False
    parts: list[sql.Composable] = [sql.SQL("CREATE EXTENSION")]
    parts += [sql.SQL("IF NOT EXISTS")] if extension.if_not_exists else []
    parts.append(sql.Identifier(extension.name))
    schema = extension.schema
    if schema is None and own_schema is None:
        row = session.execute("SELECT current_schema()").fetchone()
        schema = None if row is None else row[0]
    parts += [sql.SQL("SCHEMA"), sql.Identifier(schema)] if schema is not None else []
    parts += [sql.SQL("VERSION"), sql.Literal(extension.version)] if extension.version is not None else []
    parts += [sql.SQL("CASCADE")] if extension.cascade else []
    with psycopg.connect(conninfo, autocommit=True, options="-c search_path=") as superuser:
        superuser.execute(sql.SQL(" ").join(parts))
    return True


def _needs_superuser(session: Session, extension: _Extension) -> tuple[bool, str | None]:
    """(whether only a superuser may create it, the schema that it has to be in, if any)."""
    wanted = {"name": extension.name, "version": extension.version, "cascade": extension.cascade}
    row = session.execute(_AVAILABLE, wanted).fetchone()
    assert row is not None
    return bool(row[0]), row[1]


def _extension(statement: DdlStatement) -> _Extension | None:
    """The extension that a statement creates, if it does nothing else."""
    words = " ".join(token.text for token in tokens(statement.sql) if token.kind not in ("space", "comment"))
    found = _EXTENSION.fullmatch(words)
    if found is None:
        return None
    version = found["version"]
    if version is not None:
        version = version[1:-1] if version.startswith("'") else folded(version)
    return _Extension(
        name=folded(found["name"]),
        schema=None if found["schema"] is None else folded(found["schema"]),
        version=version,
        if_not_exists=found["exists"] is not None,
        cascade=found["cascade"] is not None,
    )


@contextmanager
def _complaints(statement: DdlStatement) -> Iterator[None]:
    """Raise a complaint of the server as WorkloadError, with its line."""
    try:
        yield
    except psycopg.Error as error:
        position = int(error.diag.statement_position or 1)
        line = statement.line + statement.sql[: position - 1].count("\n")
        raise WorkloadError(
            f"DDL, line {line}: {error.diag.message_primary or one_line(error)}",
            detail=error.diag.message_detail or statement.sql.splitlines()[0],
            hint=_hint(error),
        ) from error


def privilege_hint(error: psycopg.Error) -> str | None:
    """What to do about a statement that the role may not run; None for any other error."""
    return _AS_SUPERUSER if error.sqlstate == "42501" else None


def _hint(error: psycopg.Error) -> str | None:
    if (hint := privilege_hint(error)) is not None:
        return hint
    if error.sqlstate in ("0A000", "58P01") and "extension" in str(error):
        return "This PostgreSQL lacks the extension: --pg names another install."
    return error.diag.message_hint

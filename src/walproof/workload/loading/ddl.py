"""SQL of the user's that makes tables: taken apart into statements, so that a complaint has a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from walproof.errors import WorkloadError

_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*)|(?P<block>/\*)|(?P<dollar>\$(?:[A-Za-z_]\w*)?\$)"
    r"|(?P<escape>\b[eE]'(?:[^'\\]|''|\\.)*')|(?P<quote>'(?:[^']|'')*')|(?P<name>\"(?:[^\"]|\"\")*\")"
    r"|(?P<atomic>\bBEGIN\s+ATOMIC\b)|(?P<case>\bCASE\b)|(?P<end>\bEND\b)|(?P<stop>;)",
    re.DOTALL | re.IGNORECASE,
)
_SKIPPED = re.compile(r"\s+|--[^\n]*|(?P<block>/\*)")
_COPY_IN = re.compile(r"\s*COPY\b.*\bFROM\s+STDIN\b", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DdlStatement:
    """One statement of a file."""

    line: int
    """Of its first word, from 1."""
    sql: str


def statements(text: str) -> Iterator[DdlStatement]:
    """The statements of SQL text; psql's own commands (lines that begin with a backslash) are left out.

    Quotes, dollar quotes, nested comments and the bodies of SQL-standard functions are known, nothing more.
    """
    text = re.sub(r"(?m)^\\[^\n]*$", "", text)
    begin = at = depth = 0
    while match := _TOKEN.search(text, at):
        at = match.end()
        if match["dollar"] is not None:
            closing = text.find(match["dollar"], at)
            at = len(text) if closing < 0 else closing + len(match["dollar"])
        elif match["block"] is not None:
            at = _comment_end(text, at)
        elif match["atomic"] is not None:
            depth += 1
        elif match["case"] is not None:
            depth += depth > 0
        elif match["end"] is not None:
            depth -= depth > 0
        elif match["stop"] is not None and depth == 0:
            yield from _statement(text, begin, match.start())
            begin = at
    yield from _statement(text, begin, len(text))


def apply_ddl(conninfo: str, text: str) -> None:
    """Run the statements one by one. Raises WorkloadError with the server's complaint and the line."""
    with psycopg.connect(conninfo, autocommit=True) as session:
        for one in statements(text):
            if _COPY_IN.match(one.sql):
                raise WorkloadError(
                    f"DDL, line {one.line}: COPY FROM STDIN is not supported",
                    hint="pg_dump --schema-only writes none; a CSV of rows goes to --file.",
                )
            try:
                session.execute(one.sql.encode())
            except psycopg.Error as error:
                position = int(error.diag.statement_position or 1)
                line = one.line + one.sql[: position - 1].count("\n")
                raise WorkloadError(
                    f"DDL, line {line}: {error.diag.message_primary or str(error).strip()}",
                    detail=error.diag.message_detail or one.sql.splitlines()[0],
                    hint=_hint(error),
                ) from error


def _hint(error: psycopg.Error) -> str | None:
    if error.sqlstate in ("0A000", "58P01") and "extension" in str(error):
        return "This PostgreSQL lacks the extension: --pg names another install."
    return error.diag.message_hint


def _statement(text: str, begin: int, end: int) -> Iterator[DdlStatement]:
    """What stands there, behind spaces and comments, if anything does."""
    at = begin
    while (skipped := _SKIPPED.match(text, at, end)) is not None:
        at = _comment_end(text, skipped.end()) if skipped["block"] is not None else skipped.end()
    if text[at:end].strip():
        yield DdlStatement(text.count("\n", 0, at) + 1, text[at:end].rstrip())


def _comment_end(text: str, at: int) -> int:
    """Behind the comment that began before ``at``; comments nest."""
    depth = 1
    while depth and (match := re.compile(r"/\*|\*/").search(text, at)):
        depth += 1 if match[0] == "/*" else -1
        at = match.end()
    return at if not depth else len(text)

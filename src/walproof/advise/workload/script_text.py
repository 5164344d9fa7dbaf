"""The text of a statement as a script has it."""

from __future__ import annotations

import re

from walproof.advise.workload.naming import Unreadable
from walproof.sqltext import Token, tokens

_VARIABLE = re.compile(r"(?<!:):[A-Za-z_\x80-\U0010ffff]")
"""What pgbench takes for a variable."""
_COLON = re.compile(r"\\(.)|:", re.DOTALL)


def without_variables(sql: str) -> str:
    """The SQL; colons in quotes are escaped where pgbench would put a variable in their place: it looks for
    ``:name`` without regard to quotes (src/bin/pgbench/pgbench.c, parseQuery)."""
    return "".join(
        _escaped(token) if token.kind in ("literal", "name") and _VARIABLE.search(token.text) else token.text
        for token in tokens(sql)
    )


def _escaped(token: Token) -> str:
    """The literal or name without a colon; other kinds of literals (B'', U&'') stay as they are."""
    text = token.text
    if text.startswith("'"):
        return "E" + text.replace("\\", "\\\\").replace(":", r"\x3a")
    if text.startswith('"'):
        return "U&" + text.replace("\\", "\\\\").replace(":", r"\003a")
    if text[:2] in ("E'", "e'"):
        return _COLON.sub(lambda match: r"\x3a" if match[1] in (None, ":") else match[0], text)
    return text


def guarded(sql: str) -> str:
    """The INSERT, passing over rows that are there. Raises Unreadable for one within another statement."""
    depth, begins, at = 0, False, len(sql.rstrip().removesuffix(";"))
    for token in tokens(sql[:at]):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind == "word":
            begins = begins or token.text.upper() == "INSERT"
            if begins and token.text.upper() == "RETURNING":
                at = token.start
                break
    if not begins:
        raise Unreadable("it inserts, within another statement, rows whose keys may be there already")
    return f"{sql[:at].rstrip()} ON CONFLICT DO NOTHING {sql[at:]}".replace("NOTHING ;", "NOTHING;")

"""The text of a statement as a script has it."""

from __future__ import annotations

from walproof.advise.workload.naming import Unreadable
from walproof.sqltext import tokens


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

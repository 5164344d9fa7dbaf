"""The tree of a statement as pg_stat_statements shows it."""

from __future__ import annotations

import logging
import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from walproof.advise.workload.naming import Unreadable
from walproof.facts.application import MASKED
from walproof.sqltext import tokens

NUMBERED = re.compile("p[0-9]+")
"""The name of a parameter in the tree."""
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)
_LENGTH_MOST = 20_000
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it does not understand is told by us
_TYPED = re.compile(
    r"(interval|date|numeric|uuid|jsonb?|bool(ean)?|inet|bytea|text|timestamptz|double precision|"
    r"time(stamp)?( with(out)? time zone)?)"
)
"""Types of typed literals: ``interval '1 day'``, of which ``interval $1`` becomes, which is no SQL."""
_MORE = ("with", "without", "time", "zone", "precision")


def tree_of(query: str) -> tuple[exp.Expr, str]:
    """The tree, and the text with casts in the place of typed literals."""
    if len(query) > _LENGTH_MOST:
        raise Unreadable("its text is too long")
    if MASKED in query:
        raise Unreadable("it was counted with constants in its text")
    if any(token.kind == "name" and not token.text.startswith('"') for token in tokens(query)):
        # sqlglot reads U&"\0061" as an expression, and the server as a name: it could be any function's.
        raise Unreadable("it has a name that is written with escapes")
    texts = _without_typed(query)
    # sqlglot takes "$1, $" for the begin of dollar quotes, so parameters are named before it reads.
    named = [f" :p{text[1:]} " if is_parameter else text for is_parameter, text in texts]
    try:
        (tree,) = [found for found in sqlglot.parse("".join(named), dialect="postgres") if found is not None]
    except (SqlglotError, ValueError, RecursionError):
        raise Unreadable("its text was not understood") from None
    return tree, "".join(text for _, text in texts)


def _without_typed(query: str) -> list[tuple[bool, str]]:
    """(whether it is a parameter, text) of each token; ``interval $1`` becomes ``$1::interval``."""
    parts: list[tuple[bool, str]] = []
    words: list[str] = []
    begin = 0
    for token in tokens(query):
        if token.kind == "number" and token.text.startswith("$"):
            name = " ".join(words)
            if _TYPED.fullmatch(name):
                del parts[begin:]
                parts += [(True, token.text), (False, f"::{name}")]
            else:
                parts.append((True, token.text))
            words = []
            continue
        if token.kind == "word":
            word = token.text.lower()
            if not (words and word in _MORE and (word != "time" or words[-1] != "time")):
                words, begin = [], len(parts)
            words.append(word)
        elif token.kind != "space":
            words = []
        parts.append((False, token.text))
    return parts


def text_of(tree: exp.Expr) -> str:
    """The statement, ``$1`` in the place of each parameter."""
    written = tree.copy()
    for node in list(written.find_all(exp.Placeholder)):
        node.replace(exp.Parameter(this=exp.Literal.number(str(node.this)[1:])))
    return written.sql(dialect="postgres", comments=False)

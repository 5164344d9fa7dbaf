"""Takes the user's SQL that makes tables apart into statements, so that a complaint has a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile

from walproof.sqltext import Token, tokens

_ROUTINE = re.compile(r"CREATE (OR REPLACE )?(FUNCTION|PROCEDURE)\b")
_UNIMPORTANT = ("space", "comment")
_ROUTINE_WORDS = 4


@dataclass(frozen=True, slots=True)
class DdlStatement:
    """One statement of a file."""

    number: int
    """Its number among all statements, from 1."""
    line: int
    """The line of its first word, from 1."""
    sql: str

    @property
    def outline(self) -> str:
        """Its words in upper case, separated by spaces, with a question mark for each quoted name, literal
        and number. Comments and what stands in parentheses are left out."""
        words, depth = [], 0
        for token in tokens(self.sql):
            if token.text == ")":
                depth -= 1
            elif token.text == "(":
                depth += 1
            elif depth <= 0 and token.kind not in _UNIMPORTANT:
                words.append(token.text.upper() if token.kind in ("word", "other", "colon") else "?")
        return " ".join(words)


def statements(text: str) -> Iterator[DdlStatement]:
    r"""The statements of SQL text, taken apart as psql does.

    psql's own commands that have a line to themselves are left out: a backslash outside of quotes and
    comments that is the first of its line, as in the ``\restrict`` that pg_dump writes.
    """
    number = 0
    for group in _split(text):
        kept = [token for token in group if token.kind != "command" or not _begins_line(text, token.start)]
        kept = list(dropwhile(lambda token: token.kind in _UNIMPORTANT, kept))
        if kept:
            number += 1
            line = text.count("\n", 0, kept[0].start) + 1
            yield DdlStatement(number, line, "".join(token.text for token in kept).rstrip(" \t\r\n\f\v"))


def _split(text: str) -> Iterator[list[Token]]:
    """The tokens of each statement. A semicolon ends one outside of parentheses and of routines' bodies.

    Whether it is in a body is found as psql finds it: BEGIN and END of CREATE FUNCTION or PROCEDURE.
    """
    group: list[Token] = []
    words: list[str] = []
    parentheses = bodies = 0
    for token in tokens(text):
        if token.text == ";" and parentheses == bodies == 0:
            yield group
            group, words = [], []
            continue
        group.append(token)
        if token.text == "(":
            parentheses += 1
        elif token.text == ")":
            parentheses = max(0, parentheses - 1)
        elif token.kind == "word":
            word = token.text.upper()
            if len(words) < _ROUTINE_WORDS:
                words.append(word)
            if parentheses == 0 and _ROUTINE.match(" ".join(words)):
                if word == "BEGIN" or (word == "CASE" and bodies):
                    bodies += 1
                elif word == "END":
                    bodies = max(0, bodies - 1)
    yield group


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()

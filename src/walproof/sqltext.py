"""SQL as psql reads it: its tokens, and text that psql cannot take for anything else.

What comes out of a catalog, a store or a file's name may hold line breaks, quotes, backslashes and dollar
signs. psql obeys a backslash wherever it stands outside of quotes, and replaces ``:name`` there. The rules
are those of src/fe_utils/psqlscan.l with standard_conforming_strings on; a script has to set that itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal, NamedTuple

from walproof.errors import SqlError

Kind = Literal["space", "comment", "literal", "name", "dollar", "word", "number", "colon", "command", "other"]
_WORD = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*"
_TOKEN = re.compile(
    r"(?P<space>[ \t\n\r\f\v]+)"
    r"|(?P<comment>--[^\n\r]*|(?P<block>/\*))"
    r"|(?P<literal>[eE]'(?:[^'\\]|''|\\.)*+'|(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*+')"
    r"|(?P<name>(?:[uU]&)?\"(?:[^\"]|\"\")*+\")"
    r"|(?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$)"
    r"|(?P<open>(?:[eE]|[uU]&)?'|(?:[uU]&)?\")"
    rf"|(?P<word>{_WORD})"
    rf"|(?P<number>\$?[0-9]+(?:{_WORD})?)"
    r"|(?P<colon>::|:=|:)"
    r"|(?P<command>\\[^\n]*)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_BLANK = " \t\n"
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_NO_BLANKS = str.maketrans("", "", _BLANK)
_BARE = ("space", "word", "number", "other")
_PARTS_OF_NAMES = ("name", "word", "space")


class Token(NamedTuple):
    """A piece of SQL. All pieces together are the text."""

    kind: Kind
    """``command``: a backslash outside of quotes, and the rest of its line. ``literal`` has quotes,
    ``dollar`` dollar quotes; ``colon`` is ``:``, ``::`` or ``:=``; ``number`` is a parameter, too."""
    text: str
    start: int
    is_complete: bool
    """The quote or comment that it begins with is closed."""


def tokens(text: str) -> Iterator[Token]:
    """The pieces of SQL text, as psql takes it apart."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, "the last alternative takes any character"
        kind, end, is_complete = match.lastgroup, match.end(), True
        if match["open"] is not None:
            kind = "name" if match["open"].endswith('"') else "literal"
            end, is_complete = len(text), False
        elif match["dollar"] is not None:
            found = text.find(match["dollar"], end)
            is_complete = found >= 0
            end = found + len(match["dollar"]) if is_complete else len(text)
        elif match["block"] is not None:
            kind = "comment"
            end, is_complete = _comment_end(text, end)
        yield Token(kind, text[at:end], at, is_complete)  # type: ignore[arg-type]
        at = end


def _comment_end(text: str, at: int) -> tuple[int, bool]:
    """(after the comment that began before ``at``, whether it is closed); comments nest."""
    depth = 1
    while depth:
        match = _COMMENT_EDGE.search(text, at)
        if match is None:
            return len(text), False
        depth += 1 if match[0] == "/*" else -1
        at = match.end()
    return at, True


def has_control(text: str) -> bool:
    """Whether it holds a control character, another line break, or a code point that no encoding has."""
    return any(unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") for character in text)


def visible(text: str) -> str:
    """The text on one line, its control characters as escapes."""
    return "".join(_escape(character) if has_control(character) else character for character in text)


def setting_name(text: str) -> str:
    """A setting's name; each part in double quotes unless it is a plain word. Raises SqlError."""
    _refuse_control("the name", text)
    return ".".join(
        part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in text.split(".")
    )


def quoted(name: str) -> str:
    """A name in SQL, always in quotes: no list of reserved words is needed."""
    return '"' + name.replace('"', '""') + '"'


def folded(identifier: str) -> str:
    """The name that an identifier in SQL, quoted or bare, has in the catalogs."""
    if identifier.startswith('"'):
        return identifier[1:-1].replace('""', '"')
    return identifier.lower()


def literal(text: str) -> str:
    """The text as a literal on one line: escaped (``E''``) where it holds control characters.

    Raises SqlError for what no literal can hold.
    """
    if any(character == "\0" or unicodedata.category(character) == "Cs" for character in text):
        raise SqlError(f'"{visible(text)}" cannot be written in SQL', detail="No encoding has such a text.")
    quoted = text.replace("'", "''")
    if not has_control(text):
        return f"'{quoted}'"
    return "E'" + visible(quoted.replace("\\", "\\\\")) + "'"


def for_parameters(text: str) -> str:
    """SQL that is run together with parameters: psycopg would take each ``%`` in it for a placeholder."""
    return text.replace("%", "%%")


def dollar_quoted(body: str) -> str:
    """The body in dollar quotes whose tag does not occur in it."""
    tag, number = "$$", 0
    while tag in body:
        number += 1
        tag = f"$walproof{number}$"
    return f"{tag} {body} {tag}"


def statement(text: str) -> str:
    """SQL that is to be run, for a script of psql: it ends with a semicolon, and nothing in it is psql's.

    Literals with line breaks are written on one line. Raises SqlError where psql would see something else:
    for a backslash outside of quotes, an open quote, a name with control characters.
    """
    parts, depth, last = [], 0, ""
    for token in tokens(text.strip(_BLANK).rstrip(";" + _BLANK)):
        _check(token, text)
        part = token.text
        if token.kind == "literal" and part.startswith("'") and has_control(part):
            part = literal(part[1:-1].replace("''", "'"))
        elif part == ":":
            # psql puts the value of a variable in the place of :name, :'name' and :"name".
            part = ": "
        elif token.kind == "other":
            depth = max(0, depth + (part == "(") - (part == ")"))
        parts.append(part)
        last = part if token.kind == "comment" else last if token.kind == "space" else ""
    if depth:
        raise SqlError("SQL has open parentheses", detail=visible(text))
    end = "\n;" if last.startswith("--") else ";"
    return "".join(parts) + end


def identifiers(text: str) -> set[str]:
    """What may be a name in SQL, as the catalogs have it: words outside of quotes, and quoted names."""
    return {folded(token.text) for token in tokens(text) if token.kind in ("word", "name")}


def names(text: str) -> str:
    """The text, when it is nothing but names, dots and commas. Raises SqlError."""
    for token in tokens(text):
        _check(token, text)
        is_part = token.kind in _PARTS_OF_NAMES or token.text in (".", ",")
        if not is_part or "\n" in token.text:
            raise SqlError(f'"{visible(text)}" is not a list of names', detail=f'It holds "{token.text}".')
    return text


def comment(text: str) -> str:
    """The text as comments, two dashes before each of its lines; other control characters as escapes."""
    return "\n".join(f"-- {visible(line)}" if line else "--" for line in text.splitlines() or [""])


def copy_file(path: str) -> str:
    r"""The path as an argument of psql's ``\copy``, which has quotes of its own. Raises SqlError."""
    _refuse_control("the name of file", path)
    # psql looks for a home folder in a quoted name, too.
    path = f"./{path}" if path.startswith("~") else path
    return "'" + path.replace("'", "''") + "'"


def _check(token: Token, text: str) -> None:
    """Raises SqlError when psql would not leave the token alone."""
    if token.kind == "name" and token.is_complete:
        _refuse_control("the name", token.text)
    complaint = _complaint(token)
    if complaint is not None:
        raise SqlError(complaint, detail=f"In: {visible(text)}")


def _complaint(token: Token) -> str | None:
    if token.kind == "command":
        return "SQL holds a backslash outside of quotes, which psql takes for a command of its own"
    if not token.is_complete:
        return "SQL ends within a quote or a comment"
    bare = token.text.translate(_NO_BLANKS) if token.kind in _BARE else ""
    return "SQL holds a control character outside of quotes" if has_control(bare) else None


def _refuse_control(what: str, text: str) -> None:
    if has_control(text):
        raise SqlError(
            f'{what} "{visible(text)}" holds a control character',
            detail="psql reads line by line: what follows a line break could stand as a command.",
            hint="Rename it.",
        )


def _escape(character: str) -> str:
    """As ``E''`` reads it."""
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b"}
    number = ord(character)
    return known.get(character) or (f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}")

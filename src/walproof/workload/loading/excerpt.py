"""What a dump of a whole database says about one table: its definition, and what that needs. A dump is taken
apart into statements. Kept are those that make the table, those that are attached to it (constraints,
defaults, indexes, triggers, partitions), and, from there on, those that make what a kept statement names:
types, functions, sequences, and tables that foreign keys or functions mention, with what is attached to them.
A partition keeps its parent, without which it would be another table. Everything else is dropped, but a
foreign key to the table keeps a table of its columns in the place of the one that has it. pg_dump writes
names with their schema (src/bin/pg_dump), in literals too; bodies of functions, which people wrote,
may leave it out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from walproof.errors import WorkloadError
from walproof.sqltext import Token, folded, quoted, tokens
from walproof.workload.loading.ddl import DdlStatement, statements

_IS_DUMP = re.compile(r"^-- PostgreSQL database (?:cluster )?dump", re.MULTILINE)
_COPY_IN = re.compile(r"COPY .*\bFROM STDIN\b")
_ALWAYS = re.compile(
    r"(?:SET|RESET|SELECT PG_CATALOG \. SET_CONFIG)\b"
    r"|CREATE (?:EXTENSION|(?:OR REPLACE )?(?:TRUSTED )?(?:PROCEDURAL )?LANGUAGE)\b"
)
"""Outlines of statements that a dump begins with. An extension does not say which names it brings."""
_NEVER = re.compile(
    r"(?:CREATE|ALTER) (?:SUBSCRIPTION|PUBLICATION|USER|SERVER|FOREIGN|EVENT|ROLE|DATABASE|SYSTEM)\b"
    r"|SET \w+_TIMEOUT\b"
)
"""Outlines of statements that no load of a table needs. Subscriptions, user mappings and servers hold
passwords; time-outs are the restoring session's, and a newer pg_dump sets some that an older server does not
know."""
_MAKES = re.compile(
    r"CREATE (?:OR REPLACE )?(?:UNLOGGED )?(?:TABLE|SEQUENCE|(?:MATERIALIZED |RECURSIVE )?VIEW|TYPE|DOMAIN"
    r"|FUNCTION|PROCEDURE|AGGREGATE|COLLATION|CONVERSION|TEXT SEARCH \w+|SCHEMA)\b(?: IF NOT EXISTS)?"
)
_TABLE = re.compile(r"CREATE (?:UNLOGGED )?TABLE\b")
_ROUTINE = re.compile(r"CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE)\b")
_OF_TYPES = re.compile(
    r"CREATE (?:CAST|OPERATOR|TRANSFORM|OPERATOR CLASS|OPERATOR FAMILY)\b|ALTER OPERATOR\b"
)
"""Statements that belong to the types and functions that they mention."""
_ATTACHED = re.compile(
    r"ALTER (?:TABLE|SEQUENCE|TYPE|DOMAIN|VIEW|MATERIALIZED VIEW|FUNCTION|PROCEDURE|INDEX)"
    r"\b(?: IF EXISTS\b)?(?: ONLY\b)?"
    r"|CREATE (?:UNIQUE )?INDEX\b.*? ON\b(?: ONLY\b)?"
    r"|CREATE (?:OR REPLACE )?(?:CONSTRAINT )?TRIGGER\b.*? ON\b"
    r"|CREATE POLICY\b.*? ON\b|CREATE STATISTICS\b.*? FROM\b|CREATE (?:OR REPLACE )?RULE\b.*? TO\b"
    r"|COMMENT ON (?:INDEX\b|CONSTRAINT\b.*? ON\b)"
)
_ATTACHES = re.compile(r"ALTER TABLE\b.*? ATTACH PARTITION\b")
_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX\b(?: CONCURRENTLY\b)?(?: IF NOT EXISTS\b)?")

Chain = tuple[str, ...]
"""``public.orders.id`` as its parts, folded as the server folds them."""


@dataclass(slots=True)
class _Piece:
    """A statement, with the names that it makes and mentions."""

    statement: DdlStatement
    makes: Chain | None
    attached_to: Chain | None
    attaches: Chain | None
    """The partition that it attaches."""
    is_of_types: bool
    is_preamble: bool
    mentions: set[Chain] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    """Texts of a routine's body, where names may stand without a schema."""


def excerpt(text: str, name: str) -> str:
    """The statements of a dump that the table called ``name`` needs; text that is not a dump stays as it is.
    Raises WorkloadError if the dump makes no such table."""
    if _IS_DUMP.search(text) is None:
        return text
    outlines = [(statement, statement.outline) for statement in statements(text)]
    if any(_COPY_IN.match(outline) for _, outline in outlines):
        return text  # refused when it is applied, with the line
    pieces = [_piece(statement, outline) for statement, outline in outlines if not _NEVER.match(outline)]
    wanted = _qualified(name)
    if not any(piece.makes == wanted for piece in pieces):
        tables = (piece.makes for piece in pieces if _TABLE.match(piece.statement.outline))
        near = [made for made in tables if made is not None and _lower(made) == _lower(wanted)]
        raise WorkloadError(
            f'table "{name}" does not exist',
            hint=f"Capitals need quotes: {'.'.join(map(quoted, near[0]))}."
            if near
            else "Write the name as in SQL: schema.table.",
        )
    kept = _needed(pieces, wanted)
    found = [f"{piece.statement.sql};" for piece in pieces if id(piece) in kept]
    others = (_referenced(piece, wanted) for piece in pieces if id(piece) not in kept)
    keys = dict.fromkeys(columns for columns in others if columns is not None)
    for number, columns in enumerate(keys, start=1):
        found += _stand_in(number, wanted, columns)
    return "\n\n".join(found) + "\n"


def _referenced(piece: _Piece, wanted: Chain) -> tuple[str, ...] | None:
    """The columns of the table to which this foreign key of another table points; None if it is none."""
    words = [token for token in tokens(piece.statement.sql) if token.kind not in ("space", "comment")]
    at = next((n for n, word in enumerate(words) if word.text.upper() == "REFERENCES"), None)
    if at is None or piece.attached_to is None or _chain_at(words, at + 1) != wanted:
        return None
    listed = words[at + 2 * len(wanted) :]  # names and the points between them
    if not listed or listed[0].text != "(":
        return None
    inner = takewhile(lambda word: word.text != ")", listed[1:])
    return tuple(word.text for word in inner if word.text != ",")


def _stand_in(number: int, wanted: Chain, columns: tuple[str, ...]) -> Iterator[str]:
    """A table in the place of another one that points to the wanted one: whose it is stays unknown, and what
    its foreign key forbids is forbidden here."""
    name = ".".join(map(quoted, (*wanted[:-1], f"walproof_refers_{number}")))
    target, listed = ".".join(map(quoted, wanted)), ", ".join(columns)
    yield f"CREATE TABLE {name} AS SELECT {listed} FROM {target} LIMIT 0;"
    yield f"ALTER TABLE {name} ADD FOREIGN KEY ({listed}) REFERENCES {target} ({listed});"


def _needed(pieces: list[_Piece], wanted: Chain) -> set[int]:
    """Identities of the pieces that are reached from the table."""
    known, bare = {wanted}, set[str]()
    kept: set[int] = set()
    schemas = {piece.makes[0] for piece in pieces if piece.makes is not None and len(piece.makes) == 1}
    while True:
        found = [
            piece
            for piece in pieces
            if id(piece) not in kept and (piece.attaches == wanted or _is_needed(piece, known, bare))
        ]
        if not found:
            return kept
        for piece in found:
            kept.add(id(piece))
            known |= {chain[:2] for chain in piece.mentions if len(chain) > 1}
            known |= {chain[:1] for chain in piece.mentions if chain[0] in schemas}
            bare |= piece.words
            if piece.attached_to is not None:
                # The index or constraint that ALTER INDEX names.
                known |= {(piece.attached_to[0], name) for name in _own_names(piece)}


def _is_needed(piece: _Piece, known: set[Chain], bare: set[str]) -> bool:
    if piece.is_preamble:
        return True
    if piece.makes is not None:
        return piece.makes in known or (len(piece.makes) > 1 and piece.makes[-1] in bare)
    if piece.attached_to is not None:
        # Attached to what is made here and not only mentioned; both are in ``known``.
        return piece.attached_to[:2] in known
    return piece.is_of_types and any(chain[:2] in known for chain in piece.mentions if len(chain) > 1)


def _piece(statement: DdlStatement, outline: str) -> _Piece:
    words = [token for token in tokens(statement.sql) if token.kind not in ("space", "comment")]
    piece = _Piece(statement, None, None, None, bool(_OF_TYPES.match(outline)), bool(_ALWAYS.match(outline)))
    is_routine = bool(_ROUTINE.match(outline))
    if (made := _MAKES.match(outline)) is not None:
        piece.makes = _chain_at(words, len(made[0].split()))
    elif (attached := _ATTACHED.match(outline)) is not None:
        piece.attached_to = _chain_at(_without_parentheses(words), len(attached[0].split()))
    if (attaches := _ATTACHES.match(outline)) is not None:
        piece.attaches = _chain_at(_without_parentheses(words), len(attaches[0].split()))
    # What people say in a comment needs nothing.
    texts = () if outline.startswith("COMMENT") else ("literal", "dollar")
    quoted = [_inner(word) for word in words if word.kind in texts]
    for text in (statement.sql, *quoted):
        chains = list(_chains(list(tokens(text))))
        piece.mentions |= set(chains)
        if is_routine:
            piece.words |= {chain[0] for chain in chains}
    return piece


def _own_names(piece: _Piece) -> Iterator[str]:
    """The name of the index or of the constraint that the statement makes."""
    kept = [token for token in tokens(piece.statement.sql) if token.kind not in ("space", "comment")]
    words = [token.text.upper() for token in kept]
    if (made := _INDEX.match(" ".join(words[:6]))) is not None:
        yield from (_chain_at(kept, len(made[0].split())) or ())[-1:]
    for at in range(len(words) - 2):
        if words[at : at + 2] == ["ADD", "CONSTRAINT"]:
            yield folded(kept[at + 2].text)


def _inner(token: Token) -> str:
    """What stands in the quotes."""
    tag = token.text[: token.text.index("$", 1) + 1] if token.kind == "dollar" else "'"
    return token.text[token.text.index(tag) :].removeprefix(tag).removesuffix(tag)


def _chains(found: list[Token]) -> Iterator[Chain]:
    """Every name with its parts."""
    at = 0
    found = [token for token in found if token.kind not in ("space", "comment")]
    while at < len(found):
        if found[at].kind not in ("word", "name"):
            at += 1
            continue
        parts = [folded(found[at].text)]
        at += 1
        while at + 1 < len(found) and found[at].text == "." and found[at + 1].kind in ("word", "name"):
            parts.append(folded(found[at + 1].text))
            at += 2
        yield tuple(parts)


def _chain_at(kept: list[Token], at: int) -> Chain | None:
    return next(_chains(kept[at:]), None) if at < len(kept) else None


def _without_parentheses(words: list[Token]) -> list[Token]:
    """As an outline has them."""
    kept, depth = [], 0
    for token in words:
        depth -= token.text == ")"
        if depth <= 0 and token.text not in "()":
            kept.append(token)
        depth += token.text == "("
    return kept


def _qualified(name: str) -> Chain:
    found = next(_chains(list(tokens(name))), ())
    return found if len(found) > 1 else ("public", *found)


def _lower(chain: Chain) -> list[str]:
    return [part.lower() for part in chain]

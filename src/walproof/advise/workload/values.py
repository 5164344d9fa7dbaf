"""The n-th value of a type, as an SQL expression of n.

Rows and parameters are made by the same function, so that a parameter hits a row that is there: the row whose
id is the md5 of 17 is found by whoever draws 17.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from walproof.sqltext import literal

_ARRAY = "[]"
_MODIFIED = re.compile(
    r"(?P<name>[a-z_ ]+?)(?: ?\((?P<modifier>[0-9]+)(?:,(?P<scale>-?[0-9]+))?\))?"
    r"(?P<zone> with(?:out)? time zone)?"
)
_SIMPLE = re.compile(r":?\w+(::bigint)?|\w+\('\w+'\)")
"""Needs no parentheses before an operator."""
_CHUNK = 32
"""Characters of an md5."""
_INLINE_CHUNKS = 4
_WIDE = 126
"""Up to here the header of a value that has no fixed length is one byte (manual, "Database Page Layout")."""
_MOST_ITEMS = 50
_ITEM_BYTES = 8

_FIXED = {
    "smallint": "({e} % 32767)::smallint",
    "integer": "{e}::integer",
    "bigint": "{e}",
    "real": "{e}::real",
    "double precision": "{e}::double precision",
    "money": "{e}::numeric::money",
    "oid": "{e}::oid",
    "boolean": "({e} % 2 = 1)",
    "date": "(date '2000-01-01' + ({e} % 20000)::integer)",
    "timestamp without time zone": "(timestamp '2020-01-01' + {e} * interval '1 second')",
    "timestamp with time zone": "(timestamptz '2020-01-01 00:00+00' + {e} * interval '1 second')",
    "time without time zone": "(time '00:00' + ({e} % 86400) * interval '1 second')",
    "interval": "({e} * interval '1 second')",
    "uuid": "md5({e}::text)::uuid",
    "inet": "(inet '10.0.0.0' + ({e} % 16777216))",
    "point": "point({e}::float8, 0)",
    "int4range": "int4range(({e} % 2000000000)::integer, ({e} % 2000000000)::integer + 10)",
    "int8range": "int8range({e}, {e} + 10)",
    "daterange": "daterange(date '2000-01-01' + ({e} % 20000)::integer, NULL)",
    "tstzrange": "tstzrange(timestamptz '2020-01-01 00:00+00' + {e} * interval '1 second', NULL)",
    "tsrange": "tsrange(timestamp '2020-01-01' + {e} * interval '1 second', NULL)",
}  # fmt: skip
TEXTS = ("text", "character varying", "character", "name", "citext")
NUMBERS = ("smallint", "integer", "bigint", "real", "double precision", "numeric", "money")
"""Types to which a number can be added."""


def base_of(type_: str) -> tuple[str, int | None, int | None]:
    """(name, modifier, scale) of a type as ``format_type`` writes it: ``numeric(10,2)``."""
    match = _MODIFIED.fullmatch(type_)
    if match is None:
        return type_.rpartition(".")[2].strip('"'), None, None
    modifier, scale = match["modifier"], match["scale"]
    return (
        match["name"] + (match["zone"] or ""),
        None if modifier is None else int(modifier),
        None if scale is None else int(scale),
    )


def is_known(type_: str, labels: Sequence[str] | None = None) -> bool:
    """Whether values of the type can be made."""
    return value(type_, "1", None, labels) is not None


def value(
    type_: str,
    e: str,
    width_bytes: int | None = None,
    labels: Sequence[str] | None = None,
    *,
    is_unique: bool = False,
) -> str | None:
    """SQL of the e-th value; None for a type that is not known.

    ``e``: SQL of a bigint from 1; ``width_bytes``: as in pg_stats; with ``is_unique`` no two numbers have the
    same value, as far as the type has so many.
    """
    e = e if _SIMPLE.fullmatch(e) else f"({e})"
    if labels is not None:
        names = ", ".join(map(literal, labels))
        return f"(ARRAY[{names}])[1 + ({e} - 1) % {len(labels)}]::{type_}" if labels else None
    if type_.endswith(_ARRAY):
        return _array(type_.removesuffix(_ARRAY), e, width_bytes)
    name, modifier, scale = base_of(type_)
    if name in _FIXED:
        return _FIXED[name].format(e=e)
    if name == "numeric":
        digits = 15 if modifier is None else max(1, modifier - (scale or 0))
        return f"({e} % 1{'0' * min(digits, 18)})::{type_}"
    if name in TEXTS:
        most = 63 if name == "name" else modifier if name != "character" else (modifier or 1)
        made = _text(e, _content_bytes(width_bytes, 16), most, is_unique=is_unique)
        return f"{made}::{name}" if name in ("name", "citext") else made
    if name == "bytea":
        return f"decode({_text(e, 2 * _content_bytes(width_bytes, 16), None)}, 'hex')"
    if name in ("json", "jsonb"):
        inner = _text(e, max(1, _content_bytes(width_bytes, 40) - 16), None)
        return f"{name}_build_object('value', {inner})"
    if name == "tsvector":
        return f"to_tsvector('simple', {_text(e, _content_bytes(width_bytes, 40), None)})"
    return None


def _content_bytes(width_bytes: int | None, without: int) -> int:
    if width_bytes is None:
        return without
    return max(1, width_bytes - (1 if width_bytes <= _WIDE + 1 else 4))


def _text(e: str, length: int, most: int | None, *, is_unique: bool = False) -> str:
    """Hexadecimal digits that look random: about as compressible as an identifier, less than prose."""
    length = length if most is None else min(length, most)
    if is_unique and length < _CHUNK // 2:
        return f"to_hex({e}::bigint)"
    chunks = -(-length // _CHUNK)
    if chunks <= _INLINE_CHUNKS:
        parts = [f"md5({e}::text{f' || {n}::text' if n else ''})" for n in range(chunks)]
        joined = " || ".join(parts)
    else:
        joined = f"(SELECT string_agg(md5({e}::text || g::text), '') FROM generate_series(1, {chunks}) g)"
    return joined if length == chunks * _CHUNK and chunks == 1 else f"left({joined}, {length})"


def _array(item: str, e: str, width_bytes: int | None) -> str | None:
    count = 1 if width_bytes is None else max(1, min(_MOST_ITEMS, (width_bytes - 20) // _ITEM_BYTES))
    items = [value(item, f"{e} + {n}" if n else e) for n in range(count)]
    known = [made for made in items if made is not None]
    return f"ARRAY[{', '.join(known)}]::{item}[]" if known else None

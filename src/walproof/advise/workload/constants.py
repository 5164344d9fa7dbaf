"""Constants that belong to no column: what may stand in their place, by what is around them.

A statement with a constant whose type is not clear is none for a load: ``1`` in the place of a text would end
the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from walproof.advise.workload.naming import Names, folded
from walproof.advise.workload.values import NUMBERS, base_of

NUMBER, TEXT, BOOLEAN, DATE, TIME, INTERVAL = "number", "text", "boolean", "date", "time", "interval"
_LITERALS: Mapping[str, str] = {
    NUMBER: "1", TEXT: "'1'", BOOLEAN: "true", DATE: "date '2000-01-02'",
    TIME: "timestamptz '2020-01-01 00:00+00'", INTERVAL: "interval '1 second'",
}  # fmt: skip
CLOCKS = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Localtimestamp)
_TEXTS = (
    exp.DPipe, exp.Concat, exp.Lower, exp.Upper, exp.MD5, exp.Replace, exp.Trim, exp.Left, exp.Right,
    exp.Substring, exp.JSONExtractScalar, exp.JSONBExtractScalar, exp.TimeToStr,
)  # fmt: skip
"""What is a text."""
_NUMBERS = (
    exp.Count, exp.Length, exp.Extract, exp.Rand, exp.RowNumber, exp.Floor, exp.Ceil, exp.ArraySize,
    exp.StrPosition,
)  # fmt: skip
_AS_THEIRS = (
    exp.Paren, exp.Neg, exp.Sum, exp.Avg, exp.Max, exp.Min, exp.Abs, exp.Round, exp.Coalesce, exp.Greatest,
    exp.Least, exp.Nullif, exp.TimestampTrunc, exp.Filter, exp.Window,
)  # fmt: skip
"""What has the kind of its first argument."""
_ALIKE = (exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif)
"""What takes arguments of one kind."""
_OF_NUMBERS = (exp.Count, exp.Sum, exp.Avg, exp.Abs, exp.Floor, exp.Ceil, exp.WindowSpec, exp.Kwarg)
_SUMS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_BY_PLACE: Mapping[tuple[type[exp.Expr], str], str] = {
    (exp.Extract, "this"): "'epoch'", (exp.TimestampTrunc, "unit"): "'day'",
    (exp.AtTimeZone, "zone"): "'UTC'", (exp.TimeToStr, "format"): "'YYYY-MM-DD'",
    (exp.Round, "decimals"): "1", (exp.Left, "expression"): "1", (exp.Right, "expression"): "1",
    (exp.Substring, "start"): "1", (exp.Substring, "length"): "1", (exp.Repeat, "times"): "1",
    (exp.JSONExtract, "expression"): "'value'", (exp.JSONExtractScalar, "expression"): "'value'",
    (exp.JSONBContainsTopKey, "expression"): "'value'", (exp.JSONBExtract, "expression"): "'{value}'",
    (exp.JSONBExtractScalar, "expression"): "'{value}'", (exp.GroupConcat, "separator"): "','",
}  # fmt: skip
"""(function, argument) -> a value that it knows; ``value`` is the key of the documents that are made."""
DOCUMENT_PARTS = (exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract, exp.JSONBExtractScalar)
_TO_SEARCH = ("to_tsquery", "plainto_tsquery", "phraseto_tsquery", "websearch_to_tsquery", "to_tsvector")


def kind_of_type(type_: str) -> str | None:
    """The kind of a type as ``format_type`` writes it."""
    name = base_of(type_)[0]
    if name in NUMBERS:
        return NUMBER
    if name in ("text", "character varying", "character", "name", "citext"):
        return TEXT
    if name.startswith("timestamp"):
        return TIME
    return name if name in (BOOLEAN, DATE, INTERVAL) else None


def is_as_column(node: exp.Expr) -> bool:
    """Whether it is a column, or has the values of one."""
    while isinstance(node, (*_AS_THEIRS, exp.Lower, exp.Upper)) and not isinstance(node, exp.Sum | exp.Avg):
        node = node.this
    return isinstance(node, exp.Column)


def kind_of(node: exp.Expr | None, names: Names) -> str | None:
    """The kind of an expression; None if that is not clear."""
    if isinstance(node, exp.Column):
        found = names.column(node)
        return None if found is None or found[1].labels is not None else kind_of_type(found[1].type)
    if isinstance(node, _AS_THEIRS):
        return kind_of(node.this, names)
    if isinstance(node, _TEXTS) or (isinstance(node, exp.Literal) and node.is_string):
        return TEXT
    if isinstance(node, (*_NUMBERS, exp.Literal)):
        return NUMBER
    if isinstance(node, CLOCKS):
        return DATE if isinstance(node, exp.CurrentDate) else TIME
    if isinstance(node, exp.Cast):
        return kind_of_type(type_name(node.to))
    if isinstance(node, exp.Case):
        kinds = (kind_of(part, names) for part in _results(node))
        return next((kind for kind in kinds if kind is not None), None)
    if isinstance(node, _SUMS):
        return _kind_of_sum(node, kind_of(node.left, names), kind_of(node.right, names))
    return None


def _kind_of_sum(node: exp.Expr, left: str | None, right: str | None) -> str | None:
    if isinstance(node, exp.Sub) and left == right and left in (TIME, DATE):
        return INTERVAL if left == TIME else NUMBER
    for kind in (TIME, DATE, INTERVAL):
        if kind in (left, right):
            return kind
    return NUMBER if NUMBER in (left, right) else None


def _results(node: exp.Case) -> list[exp.Expr]:
    results = [branch.args["true"] for branch in node.args["ifs"]]
    return results + ([node.args["default"]] if node.args.get("default") is not None else [])


def literal_of(kind: str | None) -> str | None:
    """SQL of a value of the kind."""
    return None if kind is None else _LITERALS[kind]


def constant(node: exp.Expr, names: Names) -> str | None:
    """SQL of a value that may stand in the place of a constant; None if it is not clear what it is."""
    above = node.parent
    while isinstance(above, exp.Paren | exp.Neg):
        node, above = above, above.parent
    if above is None:
        return None
    known = _BY_PLACE.get((type(above), str(node.arg_key)))
    if known is not None:
        return known
    if isinstance(above, exp.Select) and node.arg_key == "expressions":
        is_seen = above.parent is None or isinstance(above.parent, exp.Exists | exp.Subquery)
        return "1" if is_seen else None
    if isinstance(above, exp.Alias):
        return constant(above, names)
    if isinstance(above, _SUMS):
        return _added(above, above.right if node is above.left else above.left, names)
    if isinstance(above, _ALIKE):
        return _beside(above, [above.this, *above.expressions, above.args.get("expression")], names)
    if isinstance(above, exp.If) and isinstance(above.parent, exp.Case):
        if node.arg_key == "true":
            return _beside(above.parent, _results(above.parent), names)
        of = above.parent.this
        return "true" if of is None else literal_of(kind_of(of, names))
    if isinstance(above, exp.Case) and node.arg_key == "default":
        return _beside(above, _results(above), names)
    if isinstance(above, _TEXTS):
        return "'1'"
    if isinstance(above, exp.And | exp.Or | exp.Not | exp.Where):
        return "true"
    if isinstance(above, (exp.Is, exp.Returning, *_OF_NUMBERS)):
        return "1"
    if isinstance(above, exp.Max | exp.Min):
        return constant(above, names)
    return _argument(node, above)


def in_its_place(node: exp.Expr, above: exp.Expr, names: Names) -> str | None:
    """SQL of a constant whose place says what it is, whatever type is made of the result; else None."""
    if isinstance(above, DOCUMENT_PARTS) and node is above.expression and isinstance(node, exp.Placeholder):
        # A number may be made of it, which no value of a document is: a key that none has gives NULL.
        is_text = _kind_of_cast(above) in (None, TEXT)
        return _BY_PLACE.get((type(above), "expression")) if is_text else "'1'"
    if isinstance(above, exp.Mul | exp.Div):
        other = above.right if node is above.left else above.left
        return "1" if kind_of(_inside(other), names) == INTERVAL else None
    if isinstance(above, exp.DPipe) and _kind_of_cast(above) == INTERVAL:
        return "'1'" if node is above.left else "' second'"
    return "1" if isinstance(above, exp.Kwarg) and _is_interval(above.parent) else None


def _is_interval(node: exp.Expr | None) -> bool:
    return node is not None and node.sql(dialect="postgres").upper().startswith("MAKE_INTERVAL(")


def _inside(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _kind_of_cast(node: exp.Expr) -> str | None:
    """The kind of the cast that stands around the expression; ``other`` for a type of no kind, None without
    a cast."""
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return kind_of_type(type_name(above.to)) or "other" if isinstance(above, exp.Cast) else None


def literal_beside(other: exp.Expr, names: Names) -> str | None:
    """SQL of a constant that an expression of a known kind is compared with; None if it is not known."""
    if isinstance(other, exp.Any) and isinstance(_inside(other.this), exp.Column):
        found = names.column(_inside(other.this))
        type_ = "" if found is None else found[1].type
        return literal_of(kind_of_type(type_.removesuffix("[]"))) if type_.endswith("[]") else None
    return literal_of(kind_of(other, names))


def _added(above: exp.Expr, other: exp.Expr, names: Names) -> str | None:
    kind = kind_of(other, names)
    if kind == TIME or (kind == INTERVAL and isinstance(above, exp.Add | exp.Sub)):
        return _LITERALS[INTERVAL]
    return "1" if kind in (NUMBER, DATE, INTERVAL) else None


def _beside(above: exp.Expr, parts: Sequence[exp.Expr | None], names: Names) -> str | None:
    """Of the kind of what stands beside it; without any, what may stand in the place of all."""
    kinds = [kind_of(part, names) for part in parts if not isinstance(part, exp.Placeholder | None)]
    if kinds:
        return literal_of(next((kind for kind in kinds if kind is not None), None))
    return constant(above, names)


def _argument(node: exp.Expr, above: exp.Expr) -> str | None:
    if not isinstance(above, exp.Anonymous):
        return None
    name = str(above.name).lower()
    if name.startswith(("pg_advisory_", "pg_try_advisory_")) or name in ("generate_series", "ntile"):
        return "1"
    if name in _TO_SEARCH:
        return "'simple'" if len(above.expressions) > 1 and node is above.expressions[0] else "'1'"
    return "'1'" if name in ("pg_notify", "hashtext") else None


def type_name(node: exp.Expr) -> str:
    """Name of a type as ``format_type`` writes it."""
    name = node.sql(dialect="postgres").lower()
    end = "[]" if name.endswith("[]") else ""
    name = name.removesuffix("[]")
    return _NAMES_OF_TYPES.get(name, name) + end


_NAMES_OF_TYPES: Mapping[str, str] = {
    "int": "integer", "int4": "integer", "int8": "bigint", "int2": "smallint", "bool": "boolean",
    "varchar": "character varying", "char": "character", "decimal": "numeric", "float": "real",
    "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
    "float8": "double precision", "float4": "real", "time": "time without time zone",
}  # fmt: skip
"""Names of types as casts have them -> as ``format_type`` writes them."""


class Source:
    """A list of rows that a statement brings along, VALUES or unnest, by the names of its columns."""

    def __init__(self, node: exp.Expr) -> None:
        alias = node.args.get("alias")
        within = node.find_ancestor(exp.CTE)
        if within is not None and (alias is None or not alias.columns):
            alias = within.args.get("alias")
        self._columns = [] if alias is None else [folded(each) for each in alias.columns]
        self._name = "" if alias is None or alias.this is None else folded(alias.this)
        self._is_values = isinstance(node, exp.Values)
        self._root = node.root()
        self._names = {self._name} | {
            folded(table.args["alias"].this)
            for table in self._root.find_all(exp.Table)
            if table.alias and isinstance(table.this, exp.Identifier) and folded(table.this) == self._name
        }

    def uses(self, at: int) -> list[exp.Column]:
        """Where the statement names the column at this place."""
        if at < len(self._columns):
            name = self._columns[at]
        else:
            name = f"column{at + 1}" if self._is_values else self._name
        return [
            column
            for column in self._root.find_all(exp.Column)
            if folded(column) == name and (not column.table or folded(column.args["table"]) in self._names)
        ]

"""What each parameter of a statement stands for: which column it is compared with, or becomes.

pg_stat_statements has ``$1`` in the place of each constant and parameter. The tree that sqlglot makes of the
text says where each of them stands; the text itself is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from walproof.advise.workload.clocks import replace_clocks
from walproof.advise.workload.constants import (
    CLOCKS,
    DOCUMENT_PARTS,
    Source,
    constant,
    in_its_place,
    is_as_column,
    kind_of,
    kind_of_type,
    literal_beside,
    type_name,
)
from walproof.advise.workload.naming import Catalog, Names, Unreadable, table_node
from walproof.advise.workload.parsing import COMPARISONS, NUMBERED, text_of, tree_of
from walproof.advise.workload.parts import Parameter, Part
from walproof.facts.application import AppColumn, AppTable

_DEPTH_MOST = 200


@dataclass(frozen=True, slots=True)
class ReadStatement:
    """A statement that a load can have."""

    query: str
    """Its text. A parameter stands in the place of each expression that is made of parameters alone."""
    verb: str
    """``select``, ``insert``, ``update``, ``delete`` or ``merge``."""
    tables: tuple[AppTable, ...]
    target: AppTable | None
    """The table that it changes."""
    columns: tuple[AppColumn, ...]
    """Columns that it names or writes, as far as known."""
    inserted: tuple[AppColumn, ...]
    """Columns that an INSERT names."""
    parameters: tuple[Parameter, ...]
    has_conflict: bool = False
    passes_over: bool = False
    """Whether rows that conflict are passed over: DO NOTHING."""
    tuples: int = 1
    """Rows of its VALUES."""
    has_values: bool = False
    """Whether it is an INSERT whose rows stand in VALUES, and nothing around it."""
    unfilled: tuple[tuple[AppTable, AppColumn], ...] = ()
    """Columns of rows that it inserts to which it gives no value."""
    returned: tuple[tuple[str, str], ...] = ()
    """(name, column) of what an INSERT returns; of what is no column, the column is empty."""
    clocks: frozenset[int] = frozenset()
    """Numbers of the parameters that stand for the time of now, or for one so long before or after it."""


def read_statement(query: str, catalog: Catalog) -> ReadStatement:
    """What a statement does. Raises Unreadable."""
    tree, query = tree_of(query)
    verb = _verb(tree)
    names = Names(tree, catalog)
    catalog.check_calls(tree)
    written = next(
        (node for node in tree.walk() if isinstance(node, exp.Insert | exp.Update | exp.Delete | exp.Merge)),
        None,
    )
    target = None if written is None else names.of(table_node(written))
    inserted: tuple[AppColumn, ...] = ()
    returned: tuple[tuple[str, str], ...] = ()
    if isinstance(written, exp.Insert) and target is not None:
        inserted = tuple(names.inserted(written, target))
        returned = tuple(names.returned(written, target)) if written is tree else ()
    tuples = written.expression if isinstance(written, exp.Insert) else None
    count = len(tuples.expressions) if isinstance(tuples, exp.Values) else 1
    conflict = tree.find(exp.OnConflict)
    if clocks := replace_clocks(tree, names):
        query = text_of(tree)
    query, parameters, moments = _parameters(tree, names, query)
    return ReadStatement(
        query=query,
        verb=verb,
        tables=names.tables,
        target=target,
        columns=(*names.columns(), *inserted),
        inserted=inserted,
        parameters=parameters,
        has_conflict=conflict is not None,
        passes_over=conflict is not None and "NOTHING" in str(conflict.args.get("action")).upper(),
        tuples=count,
        has_values=written is tree and (isinstance(tuples, exp.Values) or bool(tree.args.get("default"))),
        unfilled=tuple(names.unfilled()),
        returned=returned,
        clocks=clocks | moments,
    )


def _parameters(
    tree: exp.Expr, names: Names, query: str
) -> tuple[str, tuple[Parameter, ...], frozenset[int]]:
    """The text, its parameters, each once, and the numbers of those that stand for an expression of now."""
    found: dict[int, Parameter] = {}
    wholes: dict[int, exp.Expr] = {}
    for node in list(tree.find_all(exp.Placeholder)):
        if not NUMBERED.fullmatch(str(node.this)):
            continue
        number = int(str(node.this)[1:])
        climb = _Climb(names, number)
        parameter = climb.up(node)
        if climb.whole is None:
            # A parameter may stand in several places; those that name a column say most.
            if number not in found or _says(parameter) > _says(found[number]):
                found[number] = parameter
        elif id(climb.whole) not in wholes:
            wholes[id(climb.whole)] = climb.whole
            found[number] = parameter
            climb.whole.set("walproof_number", number)
    if not wholes:
        return query, tuple(found.values()), frozenset()
    moments = [whole.args["walproof_number"] for whole in wholes.values() if whole.find(*CLOCKS) is not None]
    for whole in wholes.values():
        whole.replace(exp.Placeholder(this=f"p{whole.args['walproof_number']}"))
    return text_of(tree), tuple(found.values()), frozenset(moments)


def _says(parameter: Parameter) -> int:
    """How much is known about a parameter."""
    if parameter.column is not None:
        return 3
    return 2 if parameter.type is not None else int(parameter.literal is not None)


_VERBS: Mapping[type[exp.Expr], str] = {
    exp.Insert: "insert",
    exp.Update: "update",
    exp.Delete: "delete",
    exp.Merge: "merge",
    exp.Select: "select",
}


def _verb(tree: exp.Expr) -> str:
    verb = _VERBS.get(type(tree))
    if verb is None:
        raise Unreadable("it is no SELECT, INSERT, UPDATE, DELETE or MERGE")
    if verb == "select":
        return next((_VERBS[type(node)] for node in tree.walk() if type(node) in _CHANGING), verb)
    return verb


_CHANGING = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


class _Climb:
    """The way from a parameter up to what says what it stands for."""

    def __init__(self, names: Names, number: int) -> None:
        self._names = names
        self._number = number
        self._type: str | None = None
        self._is_array = False
        self._is_list = False
        self._beside: tuple[AppTable, AppColumn] | None = None
        """Column to which it is added."""
        self._is_added = False
        self._inner: exp.Expr | None = None
        """A function or operator above it, whose argument's type is not that of the result."""
        self.whole: exp.Expr | None = None
        """The expression in whose place the parameter is to stand."""
        self._begin: exp.Expr | None = None

    def up(self, node: exp.Expr) -> Parameter:
        """Climb until it is clear."""
        self._begin = begin = node
        for _ in range(_DEPTH_MOST):
            above = node.parent
            if above is None:
                break
            found = self._at(node, above)
            if found is not None:
                return replace(self._checked(found, node), place=self._place(begin, found.table))
            if not isinstance(above, _SAME_TYPE):
                self._inner = above
            node = above
        return self._constant(begin)

    def _place(self, begin: exp.Expr, table: AppTable | None) -> str:
        parts, node = [self._names.alias_of(begin, table)], begin
        while (above := node.parent) is not None:
            is_row = isinstance(above, exp.Tuple) and isinstance(above.parent, exp.Values | exp.In)
            if is_row and node.arg_key == "expressions" and above.arg_key == "expressions":
                parts.append(f"row {above.index}")
            elif isinstance(above, exp.Or):
                parts.append(f"side {node.arg_key} of {id(above)}")
            node = above
        return "/".join(parts)

    def _constant(self, node: exp.Expr) -> Parameter:
        literal = constant(node, self._names) if self._type is None else None
        return replace(self._part(Part.CONSTANT), literal=literal)

    def _checked(self, found: Parameter, node: exp.Expr) -> Parameter:
        """The parameter, in the place of the whole expression below what says what it stands for."""
        if self._inner is None or found.column is None or found.part is Part.ADDED:
            return found
        # What a column becomes may be any value as wide; what it is compared with may not name others.
        is_value = found.part in (Part.ASSIGNED, Part.INSERTED)
        is_counted = node.find(exp.AggFunc, exp.Column) is not None and isinstance(node.parent, exp.Select)
        if is_value and is_counted and (kept := self._unclear()).literal is not None:
            return kept  # what is made of the rows that are read stays, and with it how many rows come
        if is_value and self._type == "interval" and node.find(*CLOCKS) is not None:
            # What is written with the time of now goes to the end of an index.
            return self._part(Part.CONSTANT)
        if not is_value and node.find(exp.Column, exp.Subquery) is not None:
            raise Unreadable(f"the expression around ${self._number} was not understood")
        self.whole = node
        return replace(found, type=None, is_array=found.is_array and found.is_list)

    def _literal(self, literal: str) -> Parameter:
        return replace(self._part(Part.CONSTANT), literal=literal)

    def _part(self, part: Part, column: tuple[AppTable, AppColumn] | None = None) -> Parameter:
        table, of = column or (None, None)
        return Parameter(self._number, part, table, of, self._type, self._is_array, self._is_list)

    def _at(self, node: exp.Expr, above: exp.Expr) -> Parameter | None:
        literal = in_its_place(node, above, self._names)
        if literal is not None:
            return replace(self._literal(literal), type=None)
        if isinstance(above, exp.Cast):
            self._cast(above)
        elif isinstance(above, exp.Limit | exp.Fetch):
            return self._part(Part.LIMIT)
        elif isinstance(above, exp.Offset):
            return self._part(Part.OFFSET)
        elif isinstance(above, exp.Any | exp.All):
            self._is_list = self._is_array = True
        elif isinstance(above, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
            other = above.right if node is above.left else above.left
            self._is_added = True
            column = next(other.find_all(exp.Column), None) if other is not None else None
            if column is not None and self._beside is None:
                self._beside = self._names.column(column)
        elif isinstance(above, exp.Update):
            return self._unclear()
        elif isinstance(above, exp.EQ) and isinstance(above.parent, exp.Update | exp.OnConflict):
            return self._assigned(node, above)
        elif isinstance(above, exp.Between):
            found = self._names.column(above.this) if isinstance(above.this, exp.Column) else None
            part = Part.ABOVE if node is above.args.get("low") else Part.BELOW
            return replace(self._compared(part, found), is_inclusive=True)
        elif isinstance(above, exp.In):
            if isinstance(above.this, exp.Column) and node is not above.this:
                self._is_list = len(above.expressions) == 1
                return self._compared(self._equal(above), self._names.column(above.this))
        elif isinstance(above, exp.Like | exp.ILike):
            if isinstance(node, exp.Lower | exp.Upper) and type(node) is type(above.this):
                self._inner = None  # what is the same of both sides stays
            return self._compared(Part.LIKE, self._text_column(above.this))
        elif isinstance(above, COMPARISONS):
            return self._comparison(node, above)
        elif isinstance(above, exp.ArrayContainsAll | exp.ArrayContainedBy | exp.ArrayOverlaps):
            return self._contained(above, above.right if node is above.left else above.left)
        elif isinstance(above, exp.Explode) and isinstance(above.parent, exp.Select):
            # unnest in the place of a value makes a row of each
            filled = self._inserted(above.parent.parent, above.parent.expressions.index(above))
            type_ = self._type if filled.column is None else None
            return replace(filled, type=type_, is_array=True, is_list=True)
        elif isinstance(above, exp.Unnest):
            return self._listed(above, above.expressions.index(node))
        elif isinstance(above, exp.Tuple) and isinstance(above.parent, exp.Values):
            at = above.expressions.index(node)
            if not isinstance(above.parent.parent, exp.Insert):
                return self._listed(above.parent, at)
            return self._inserted(above.parent.parent, at)
        elif isinstance(above, exp.Tuple) and isinstance(above.parent, (exp.In, *COMPARISONS)):
            return self._in_tuple(node, above, above.parent)
        elif isinstance(above, exp.Tuple) and isinstance(above.parent, exp.Insert):
            return self._when(above.parent, above.expressions.index(node))
        elif isinstance(above, exp.Select) and node.arg_key == "expressions":
            return self._inserted(above.parent, above.expressions.index(node))
        return None

    def _cast(self, above: exp.Cast) -> None:
        if self._type is None and not self._is_added:
            name = type_name(above.to)
            self._is_array = name.endswith("[]")
            self._type = name.removesuffix("[]")

    def _comparison(self, node: exp.Expr, above: exp.Binary) -> Parameter | None:
        is_left = node is above.left
        other = above.right if is_left else above.left
        column = next(other.find_all(exp.Column), None)
        found = None if column is None else self._names.column(column)
        if isinstance(above, exp.NEQ | exp.NullSafeNEQ):
            part = Part.UNEQUAL
        elif isinstance(above, exp.EQ | exp.NullSafeEQ):
            part = self._equal(above)
        else:
            wants_above = isinstance(above, exp.GT | exp.GTE) != is_left
            part = Part.ABOVE if wants_above else Part.BELOW
        if other.find(*DOCUMENT_PARTS, exp.AggFunc, exp.Extract) is not None or isinstance(other, exp.Any):
            # Of a part of a document, a sum or what is in an array nothing is known but its type.
            literal = None if self._type is not None else literal_beside(other, self._names)
            return self._compared(part, None) if literal is None else self._literal(literal)
        if isinstance(node, exp.Lower | exp.Upper) and type(node) is type(other):
            self._inner = None  # what is the same of both sides stays
        if isinstance(node, exp.Placeholder) and isinstance(other, exp.Placeholder):
            return self._literal("1")
        if column is None and self._type is None and (literal := literal_beside(other, self._names)):
            return self._literal(literal)
        if found is not None and not is_as_column(other) and self._beside is None:
            kinds = {kind_of(other, self._names), kind_of_type(found[1].type)}
            if self._type is not None:
                kinds.add(kind_of_type(self._type))
            if None in kinds or (len(kinds) > 1 and kinds != {"date", "time"}):
                raise Unreadable(f"what ${self._number} is compared with was not understood")
        is_inclusive = isinstance(above, exp.GTE | exp.LTE)
        return replace(self._compared(part, found), is_inclusive=is_inclusive)

    @staticmethod
    def _equal(condition: exp.Expr) -> Part:
        """EQUAL, unless NOT stands around the condition."""
        within = condition.find_ancestor(exp.Not, exp.Where, exp.Select)
        return Part.UNEQUAL if isinstance(within, exp.Not) else Part.EQUAL

    def _in_tuple(self, node: exp.Expr, above: exp.Tuple, beyond: exp.Expr) -> Parameter | None:
        """A part of (a, b) that is compared with another such, or with a list of them."""
        if isinstance(beyond, exp.EQ) and isinstance(beyond.parent, exp.Update | exp.OnConflict):
            return None
        is_left = above is beyond.this
        other = beyond.args.get("expression") if is_left else beyond.this
        at = above.expressions.index(node)
        if not isinstance(other, exp.Tuple) or at >= len(other.expressions):
            return None if isinstance(beyond, exp.In) and not is_left else self._unclear()
        column = other.expressions[at]
        found = self._names.column(column) if isinstance(column, exp.Column) else None
        part = Part.UNEQUAL if isinstance(beyond, exp.NEQ) else self._equal(beyond)
        if isinstance(beyond, exp.GT | exp.GTE | exp.LT | exp.LTE):
            part = Part.ABOVE if isinstance(beyond, exp.GT | exp.GTE) != is_left else Part.BELOW
        return self._compared(part, found)

    def _contained(self, above: exp.Expr, other: exp.Expr) -> Parameter:
        """A document, array or range that is within another, or has something in common with it."""
        found = self._names.column(other) if isinstance(other, exp.Column) else None
        return self._compared(self._equal(above), found)

    def _text_column(self, node: exp.Expr) -> tuple[AppTable, AppColumn] | None:
        """The column of which a text is compared: ``upper(title::text)``."""
        while isinstance(node, exp.Paren | exp.Cast | exp.Lower | exp.Upper):
            node = node.this
        return self._names.column(node) if isinstance(node, exp.Column) else None

    def _unclear(self) -> Parameter:
        assert self._begin is not None, "it climbs"
        return self._constant(self._begin)

    def _listed(self, source: exp.Expr, at: int) -> Parameter:
        """A column of a list of rows: what the statement does with that column."""
        best: Parameter | None = None
        for column in Source(source).uses(at):
            climb = _Climb(self._names, self._number)
            try:
                found = climb.up(column)
            except Unreadable:
                continue
            is_better = best is None or (found.part is Part.EQUAL and best.part is not Part.EQUAL)
            if found.column is not None and climb.whole is None and is_better:
                best = found
        if best is None:
            return self._unclear()
        is_several = isinstance(source, exp.Unnest)
        return Parameter(
            self._number, best.part, best.table, best.column, None, is_array=is_several, is_list=is_several
        )

    def _compared(self, part: Part, found: tuple[AppTable, AppColumn] | None) -> Parameter:
        if self._beside is not None:
            return self._part(Part.ADDED, self._beside)
        if found is None and self._type is None:
            raise Unreadable(f"what ${self._number} is compared with was not understood")
        return self._part(part if found is not None else Part.CONSTANT, found)

    def _assigned(self, node: exp.Expr, above: exp.EQ) -> Parameter | None:
        if node is above.left:
            return None
        left = above.left
        if isinstance(left, exp.Tuple) and isinstance(node, exp.Tuple):
            at = next(n for n, item in enumerate(node.expressions) if self._is_in(item))
            left = left.expressions[at]
        found = self._names.column(left)
        if self._beside is not None:
            return self._part(Part.ADDED, self._beside)
        if found is None:
            raise Unreadable(f"the column that becomes ${self._number} is not known")
        return self._part(Part.ASSIGNED, found)

    def _is_in(self, item: exp.Expr) -> bool:
        return any(node is self._begin for node in item.walk())

    def _inserted(self, above: exp.Expr | None, at: int) -> Parameter:
        if not isinstance(above, exp.Insert):
            return self._unclear()
        target = self._names.of(table_node(above))
        if target is None:
            raise Unreadable("the table that it fills is not known")
        columns = tuple(self._names.inserted(above, target))
        if at >= len(columns):
            raise Unreadable("it has more values than columns")
        if self._beside is not None:
            return self._part(Part.ADDED, self._beside)
        return self._part(Part.INSERTED, (target, columns[at]))

    def _when(self, insert: exp.Insert, at: int) -> Parameter:
        """A value of WHEN NOT MATCHED THEN INSERT."""
        names = insert.this.expressions if isinstance(insert.this, exp.Tuple) else []
        if at >= len(names):
            raise Unreadable("the columns that MERGE fills were not understood")
        return self._part(Part.INSERTED, self._names.column(names[at]))


_SAME_TYPE = (
    exp.Paren, exp.Cast, exp.Neg, exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif, exp.Case, exp.If,
    exp.Any, exp.All, exp.Tuple,
)  # fmt: skip
"""What has the type of its parts, or says it."""

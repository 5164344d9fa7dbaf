"""What the names in a statement mean: tables, their columns, functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from walproof.facts.application import AppColumn, AppTable


class Unreadable(Exception):
    """A statement that no load can have; the text says why."""


class NoneOfIt(Unreadable):
    """A statement that is none of the application: of a monitor, a migration tool, a console."""


class Catalog:
    """Tables by the names that statements call them, and functions that a server of its own does not have."""

    def __init__(
        self,
        tables: Sequence[AppTable],
        functions: Iterable[str] = (),
        views: Iterable[tuple[str, str, str]] = (),
    ) -> None:
        self._views = {(schema, name): kind for schema, name, kind in views}
        self._functions = frozenset(functions)
        self._by_name: dict[str, list[AppTable]] = {}
        for table in tables:
            self._by_name.setdefault(table.relation, []).append(table)

    def find(self, name: str, schema: str) -> AppTable | None:
        """The table; without a schema the one in ``public``, or the first of that name. One that is empty is
        none where another has rows: a search_path may lead past it."""
        found = self._by_name.get(name, [])
        if schema:
            return next((table for table in found if table.schema == schema), None)
        used = [table for table in found if table.heap_pages > 0] or found
        return next((table for table in used if table.schema == "public"), used[0] if used else None)

    def kind_of_view(self, name: str, schema: str) -> str | None:
        """What it is that can be read like a table; None if there is nothing of that name."""
        found = [kind for (where, what), kind in self._views.items()
                 if what == name and where == (schema or where)]  # fmt: skip
        return _KINDS[found[0]] if found else None

    def check_calls(self, tree: exp.Expr) -> None:
        """Raises Unreadable for a call that has no place in a load: of a function that is not there, or of
        one that acts on the server or its files."""
        for node in tree.find_all(exp.Func):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
            if name in self._functions or _schema_of(node) not in ("", "pg_catalog"):
                raise Unreadable(f"it calls {name}, a function of the database")
            if _ACTING.match(name) and not _HARMLESS.match(name):
                raise Unreadable(f"it calls {name}, which acts on the server")


def _schema_of(call: exp.Func) -> str:
    """The schema that a call names; empty without one."""
    around = call.parent
    if isinstance(around, exp.Dot) and around.expression is call:
        return folded(around.this)
    return folded(around.args.get("db")) if isinstance(around, exp.Table) and around.this is call else ""


_KINDS = {"v": "view", "m": "materialised view", "f": "foreign table"}
_ACTING = re.compile(
    r"pg_|lo_|loread|lowrite|set_config|dblink|(query|table|schema|database|cursor)_to_xml|ts_stat|ts_rewrite"
)
"""Functions of the server that reach its files, settings or sessions, or run a text as SQL: scripts of a load
run as superuser, and a text may come from the labels of an enum."""
_HARMLESS = re.compile(r"pg_(try_)?advisory_|pg_notify|pg_typeof|pg_column_size|pg_current_xact_id|pg_lsn")


def table_node(node: exp.Expr) -> exp.Table | None:
    """The table that an INSERT, UPDATE, DELETE or MERGE changes."""
    found = node.this
    found = found.this if isinstance(found, exp.Schema) else found
    return found if isinstance(found, exp.Table) else None


_TWICE = 2
_CONDITIONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Like, exp.ILike)
_SCOPES = (exp.Select, exp.Insert, exp.Update, exp.Delete, exp.Merge)


class Names:
    """Tables and columns of one statement."""

    def __init__(self, tree: exp.Expr, catalog: Catalog) -> None:
        self._tree = tree
        self._catalog = catalog
        made = {cte.alias for cte in tree.find_all(exp.CTE)}
        self._by_alias: dict[str, AppTable] = {}
        self._nearest: dict[int, list[AppTable]] = {}
        """Statement or subquery -> tables that it names itself."""
        found: list[AppTable] = []
        for node in tree.find_all(exp.Table):
            if not isinstance(node.this, exp.Identifier):
                continue  # a function that returns rows
            if not node.db and node.name in made:
                continue
            is_own = node.db in ("pg_catalog", "information_schema")
            table = None if is_own else catalog.find(folded(node.this), folded(node.args.get("db")))
            # An application may have tables with such names, too.
            if is_own or (table is None and not node.db and node.name.startswith("pg_")):
                raise NoneOfIt("it reads the server's own catalogs or statistics")
            if table is None:
                raise Unreadable(self._what_it_is(node))
            self._by_alias[folded(node.args["alias"].this) if node.alias else table.relation] = table
            found.append(table)
            self._nearest.setdefault(id(node.find_ancestor(*_SCOPES)), []).append(table)
        if not found:
            # SELECT place($1): what its function does is the better reason.
            catalog.check_calls(tree)
            raise Unreadable("it has no table")
        self.tables = tuple(dict.fromkeys(found))

    def _what_it_is(self, node: exp.Table) -> str:
        kind = self._catalog.kind_of_view(folded(node.this), folded(node.args.get("db")))
        name = exp.table_(node.this, db=node.args.get("db")).sql(dialect="postgres")
        if kind is None:
            return f"{name} is no table that was read"
        return f"{name} is a {kind}, which a load has none of"

    def of(self, node: exp.Table | None) -> AppTable | None:
        """The table that a node names."""
        return None if node is None else self._catalog.find(folded(node.this), folded(node.args.get("db")))

    def column(self, node: exp.Expr) -> tuple[AppTable, AppColumn] | None:
        """The column that a node names; None for a column that is made by the statement itself."""
        name = folded(node.this if isinstance(node, exp.Column) else node)
        alias = folded(node.args.get("table")) if isinstance(node, exp.Column) else ""
        if alias and alias != "excluded":
            tables = [self._by_alias[alias]] if alias in self._by_alias else []
        else:
            # A name without a table is one of the nearest statement or subquery around it.
            tables = [*self._nearest.get(id(node.find_ancestor(*_SCOPES)), []), *self.tables]
        for table in tables:
            for column in table.columns:
                if column.name == name:
                    return table, column
        return None

    def alias_of(self, node: exp.Expr, table: AppTable | None) -> str:
        """Which of the tables around a condition it is about: the nearest statement or subquery, and the
        alias where that names the table twice."""
        scope = node.find_ancestor(*_SCOPES)
        if table is None or self._nearest.get(id(scope), []).count(table) < _TWICE:
            return str(id(scope))
        condition = node.find_ancestor(*_CONDITIONS)
        column = None if condition is None else condition.find(exp.Column)
        return f"{id(scope)} {'' if column is None else column.table}"

    def columns(self) -> Iterator[AppColumn]:
        """Every column that is named."""
        for node in self._tree.find_all(exp.Column):
            found = self.column(node)
            if found is not None:
                yield found[1]

    def inserted(self, node: exp.Insert, target: AppTable) -> Iterator[AppColumn]:
        """Columns of an INSERT, in its order."""
        if not isinstance(node.this, exp.Schema):
            yield from target.columns
            return
        by_name = {column.name: column for column in target.columns}
        for part in node.this.expressions:
            column = by_name.get(folded(part))
            if column is None:
                raise Unreadable(f"its column {part.sql(dialect='postgres')} is not known")
            yield column

    def returned(self, node: exp.Insert, target: AppTable) -> Iterator[tuple[str, str]]:
        """(name, column) of what RETURNING has; of what is no column, the column is empty."""
        returning = node.args.get("returning")
        for part in () if returning is None else returning.expressions:
            inner = part.this if isinstance(part, exp.Alias) else part
            if part.is_star:
                yield from ((column.name, column.name) for column in target.columns)
            else:
                column = folded(inner) if isinstance(inner, exp.Column) else ""
                yield folded(part.args["alias"]) if isinstance(part, exp.Alias) else column, column

    def unfilled(self) -> Iterator[tuple[AppTable, AppColumn]]:
        """Columns to which an INSERT of the statement, or of its MERGE, gives no value of its own."""
        for node in self._tree.find_all(exp.Insert):
            merge = node.find_ancestor(exp.Merge)
            target = self.of(table_node(node if merge is None else merge))
            if target is None:
                continue
            named = node.this.expressions if isinstance(node.this, exp.Schema | exp.Tuple) else None
            names = [each.name for each in target.columns] if named is None else list(map(folded, named))
            given = {
                name for name, is_given in zip(names, _given(node, len(names)), strict=False) if is_given
            }
            yield from ((target, column) for column in target.columns if column.name not in given)


def _given(node: exp.Insert, count: int) -> list[bool]:
    """Whether each of the columns of an INSERT has a value in all its rows; what comes after has none."""
    source = node.expression
    if isinstance(source, exp.Values | exp.Tuple):
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row]
                for row in (source.expressions if isinstance(source, exp.Values) else [source])]  # fmt: skip
        return [not any(map(_is_default, values)) for values in zip(*rows, strict=False)]
    if isinstance(source, exp.Select) and not any(each.is_star for each in source.expressions):
        return [True] * len(source.expressions)
    return [] if node.args.get("default") else [True] * count


def _is_default(value: exp.Expr) -> bool:
    """Whether the word DEFAULT stands there."""
    return isinstance(value, exp.Var | exp.Column) and folded(value) == "default"


def folded(node: exp.Expr | str | None) -> str:
    """A name as the catalog has it: small letters, unless it is quoted."""
    if isinstance(node, exp.Column):
        node = node.this
    if node is None or isinstance(node, str):
        return (node or "").lower()
    name = str(node.name)
    return name if node.args.get("quoted") else name.lower()

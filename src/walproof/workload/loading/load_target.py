"""What every feed is told about the table: its name, the columns that it fills, and what comes first."""

from __future__ import annotations

from dataclasses import dataclass

from walproof.sqltext import folded, for_parameters, tokens

NATIVE = frozenset({
    "int2", "int4", "int8", "float4", "float8", "numeric", "bool", "text", "varchar", "bpchar", "date",
    "timestamp", "timestamptz", "uuid", "bytea",
})  # fmt: skip
"""Types (pg_type's names) whose values are Python's own. Values of all others are handed over as text."""


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """The table that is loaded. Names are SQL, quoted if needed."""

    table: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    """The columns' types as format_type() writes them."""
    bases: tuple[str, ...]
    """The types' names in pg_type, as which binary values are written."""
    key: tuple[str, ...] = ()
    """Columns of a unique key, for upserts."""
    first: tuple[str, ...] = ()
    """Statements that begin the load's only transaction."""
    is_frozen: bool = False
    """COPY with FREEZE."""

    @property
    def place(self) -> tuple[str | None, str]:
        """(schema, name) of the table as the catalogs have them; no schema where the search path finds it."""
        *schema, name = [folded(token.text) for token in tokens(self.table) if token.kind in ("name", "word")]
        return (schema[0] if schema else None), name

    @property
    def column_list(self) -> str:
        """``a, b, c``."""
        return ", ".join(self.columns)

    def copy(self, options: str = "") -> bytes:
        """COPY from the client."""
        listed = ", ".join(option for option in (options, "FREEZE" if self.is_frozen else "") if option)
        words = f"COPY {self.table} ({self.column_list}) FROM STDIN"
        return f"{words} ({listed})".encode() if listed else words.encode()

    def insert(self) -> bytes:
        """INSERT of one row of parameters."""
        return f"{self.insert_into} VALUES {self.placeholders(1)}".encode()

    @property
    def insert_into(self) -> str:
        """``INSERT INTO t (a, b, c)``, for a statement with parameters."""
        return for_parameters(f"INSERT INTO {self.table} ({self.column_list})")

    def placeholders(self, rows: int) -> str:
        """``(%s::int8, %s::text), ...``: cast, so that the server never has to guess."""
        row = "(" + ", ".join(f"%s::{for_parameters(kind)}" for kind in self.types) + ")"
        return ", ".join([row] * rows)

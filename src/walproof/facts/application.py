"""What a database says of the application that uses it: statements by how often they ran, and the tables.

Read by ``observe/application.py``; ``advise/workload`` makes a load of it. It holds no value of any row:
of pg_stats only counts, widths, orders and frequencies are read, and which of the labels of an enum, true,
false and values that the schema names have these; and nothing in quotes of pg_stat_statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HIDDEN = "<insufficient privilege>"
"""Text of statements that the role may not see, all of which are one."""


MASKED = "'...'"
"""What stands in the place of everything in quotes."""


@dataclass(frozen=True, slots=True)
class AppColumn:
    """A column of a table."""

    name: str
    """As the catalog has it, not quoted."""
    type: str
    """As ``format_type`` writes it, of a domain its base type: ``numeric(10,2)``, ``public.state``."""
    not_null: bool
    default: str | None
    """Expression of the default; of a generated column the one that generates it."""
    is_identity: bool
    """Identity, or a default of nextval of a sequence that the column owns."""
    is_generated: bool
    labels: tuple[str, ...] | None = None
    """Labels of an enum."""
    distinct: float | None = None
    """pg_stats.n_distinct: a count, or below 0 a share of the rows; None without statistics."""
    null_share: float = 0.0
    width_bytes: int | None = None
    """Average width."""
    correlation: float | None = None
    """Of the column's order and that of the rows on disk."""
    usual: tuple[str | None, ...] = ()
    """The most frequent values of an enum, a boolean (``t``, ``f``), a text or a whole number, the most
    frequent first, as far as pg_stats has them; None for one that the schema does not name itself."""
    usual_shares: tuple[float, ...] = ()
    """Share of the rows that has each of the most frequent values, a hundred at most. Of other types it is
    not known which these are."""


@dataclass(frozen=True, slots=True)
class AppKey:
    """A primary key, unique constraint or foreign key."""

    kind: str
    """``p``, ``u`` or ``f``, as in pg_constraint.contype."""
    columns: tuple[str, ...]
    definition: str
    """As ``pg_get_constraintdef`` writes it."""
    other: str | None = None
    """Table that a foreign key points to, as ``AppTable.name``."""
    other_columns: tuple[str, ...] = ()
    name: str = ""
    """Not quoted; empty where it was not read."""


@dataclass(frozen=True, slots=True)
class AppIndex:
    """An index that no key owns; of EXCLUDE constraints, too."""

    definition: str
    """As ``pg_get_indexdef`` writes it."""
    columns: tuple[str, ...]
    """Its plain columns; of a unique index those of its expressions, too."""
    is_unique: bool
    has_expressions: bool = False
    was_unique: bool = False
    """Whether it is unique in the application, and rows that are made would break it."""


@dataclass(frozen=True, slots=True)
class AppTable:
    """A table."""

    schema: str
    relation: str
    """Both as the catalog has them, not quoted."""
    name: str
    """Quoted where needed, with its schema."""
    kind: str
    """``r``: a table; ``p``: a partitioned table; ``i``: a partition."""
    rows: int
    """Estimate of the server; of a partitioned table all its partitions'."""
    size_bytes: int
    """Without indexes."""
    columns: tuple[AppColumn, ...]
    keys: tuple[AppKey, ...]
    indexes: tuple[AppIndex, ...]
    options: str
    """Storage parameters, as in WITH: ``fillfactor=70``; empty without any."""
    triggers: tuple[str, ...] = ()
    """Names of its triggers, without those of foreign keys."""
    others: tuple[str, ...] = ()
    """Definitions of its other constraints: CHECK, EXCLUDE."""
    is_unlogged: bool = False
    heap_pages: int = 0
    index_pages: tuple[tuple[tuple[str, ...], int], ...] = ()
    """(columns, pages) of each index."""
    hot_share: float | None = None
    """Share of its updates that needed no new entry in any index; None without updates."""
    partitioned_by: str = ""
    """``r``: by ranges; ``l``: by lists; ``h``: by hash; empty for a table that is not partitioned."""
    partition_columns: tuple[str, ...] = ()
    """Its partition key; empty for a key with expressions."""
    partitions: int = 0
    """Partitions without partitions of their own."""
    toast_bytes: int = 0
    """Part of ``size_bytes``: values out of line, without their index."""
    inserted: float | None = None
    """Rows that were inserted between two looks; None where that was not counted."""


@dataclass(frozen=True, slots=True)
class AppStatement:
    """A row of pg_stat_statements, or the growth of a row between two looks."""

    query: str
    """Normalised: ``$1`` in the place of each constant and parameter."""
    calls: float
    rows: float
    """Rows that all calls returned or changed."""
    wal_records: float
    wal_fpi: float
    wal_bytes: float
    wal_fpi_first_half: float | None = None
    """Images in the first half of the time between two looks; None without a look in the middle."""


@dataclass(frozen=True, slots=True)
class CyclePart:
    """A part of a checkpoint cycle."""

    before_s: float
    """Seconds from the cycle's redo point to the part."""
    seconds: float
    count: float
    """How many such parts there were."""
    is_first_half: bool = False
    """Whether it lies in the first half of the whole time."""


@dataclass(frozen=True, slots=True)
class Application:
    """A database as its statistics show it."""

    version_num: int
    database: str
    seconds: float | None
    """Time in which the statements were counted; None if the server does not say (13)."""
    statements: tuple[AppStatement, ...]
    tables: tuple[AppTable, ...]
    sessions: int
    """Client sessions on this database that were in a transaction or had ended one in the last second."""
    commits: float | None = None
    """Transactions committed in the same time, where two looks were taken."""
    cycle_parts: tuple[CyclePart, ...] = ()
    """The time in which statements were counted, by checkpoint cycles; empty where the server does not say
    when it made checkpoints."""
    functions: tuple[str, ...] = ()
    """Names of the functions that the server itself has none of: extensions' and the application's."""
    dropped: float = 0.0
    """How often pg_stat_statements was full in that time and dropped what was called least."""
    lacks: tuple[str, ...] = field(default=())
    """What could not be read, with the server's reason."""
    settings: tuple[tuple[str, str], ...] = ()
    """(name, value) of settings of memory, WAL, checkpoints, vacuum, planner and locks that are not the
    defaults, and shared_buffers: nothing that names a place, a network, a command or another server."""
    flush_s: float | None = None
    """Mean time of a flush of WAL in that time; None unless the server takes it (track_wal_io_timing)."""
    views: tuple[tuple[str, str, str], ...] = ()
    """(schema, name, kind) of what can be read like a table: ``v``: a view, ``m``: a materialised one, ``f``:
    a foreign table."""
    segment_bytes: int = 16 << 20
    """wal_segment_size, which initdb chooses."""
    is_here: bool = False
    """Whether the server is on the machine that looked, or seems to be through a tunnel."""

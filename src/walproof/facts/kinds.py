"""What an experiment is: the kind of a study, and what can be added to its trials.

A plan is of one kind (``Plan.kind``). What is measured follows from it, and so do the conditions that its
variants may have. A crash or a power cut can be added to the trials of a study of throughput alone, which
leave a server with its load's traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class Throughput:
    """Each trial measures a window of pgbench's load."""

    noun: ClassVar[str] = "throughput"


@dataclass(frozen=True, slots=True)
class Statements:
    """Each trial runs statements one by one on a quiet server."""

    noun: ClassVar[str] = "statements"


@dataclass(frozen=True, slots=True)
class PowerCuts:
    """Each trial is a power cut."""

    noun: ClassVar[str] = "power cuts"


@dataclass(frozen=True, slots=True)
class Replay:
    """Each trial replays fixed WAL: that of ``rows`` INSERTs into five partitioned tables."""

    noun: ClassVar[str] = "replay"

    rows: int
    preloaded_rows: int
    """Rows that are there before, so that the WAL finds leaf pages to fill and to make images of."""
    rows_per_commit: int


@dataclass(frozen=True, slots=True)
class Streaming:
    """Each trial loads a primary with INSERTs into five partitioned tables while its standby streams."""

    noun: ClassVar[str] = "a live stream"

    preloaded_rows: int
    """Rows that are there before, as in a study of replay."""
    rows_per_commit: int


@dataclass(frozen=True, slots=True)
class Failover:
    """Each trial is a pair under the ledger's load whose primary dies and whose standby is promoted."""

    noun: ClassVar[str] = "failover"

    load_s: float
    sessions: int


@dataclass(frozen=True, slots=True)
class Load:
    """Each trial loads rows into a table, until the table is as good as after any other method."""

    noun: ClassVar[str] = "loading"

    table: str
    """As SQL names it."""
    ddl: str
    """SQL that makes the table and what it needs."""
    rows: int
    file: str | None = None
    """CSV or Parquet file of the user's own rows; None: they are generated."""
    file_digest: str | None = None
    """SHA-256 of it."""
    replay: str | None = None
    """SQL that does for the whole table what its triggers would have done row by row."""
    crash: bool = False
    """In the first round each load is also broken off in its middle, by killing the server."""
    filled: int = 0
    """Rows that the table holds before, generated as the loaded ones are."""
    ddl_as_superuser: bool = False
    """The DDL and the loads run as superuser, not as a role of their own."""
    power_cut: int = 0
    """In the first round the power of each is also cut in its middle, and so many images are looked at."""


Kind: TypeAlias = Throughput | Statements | PowerCuts | Replay | Streaming | Failover | Load

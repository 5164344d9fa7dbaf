"""A load that was drafted from an application: what is in it, what is not, and what it did when it was tried.

It is written beside the load's files, so that the load can be tried again, elsewhere or after a change.
"""

from __future__ import annotations

from dataclasses import dataclass

FILE = "draft.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class TriedFigures:
    """What a call of a statement, or a run of a script, did on a throw-away server, in the mean."""

    calls: int
    """How many there were."""
    rows: float
    """Rows that it returned or changed."""
    wal_records: float
    upkeep_records: float
    """How many of them prune a page or save its hint bits, which any statement may do that comes first."""
    wal_bytes: float
    """Without full-page images."""
    differs: tuple[str, ...]
    """``rows``, ``wal_records``: what is not as in the application."""


@dataclass(frozen=True, slots=True)
class DraftedStatement:
    """A statement of a script, with what the application's own calls did in all."""

    query: str
    calls: float
    rows: float
    wal_records: float
    wal_fpi: float
    wal_bytes: float
    tried: TriedFigures | None = None
    times: int = 1
    """How often a run of its script calls it."""

    def per_call(self, figure: str) -> float:
        """``rows``, ``wal_records`` or ``wal_bytes`` of one of the application's calls."""
        return float(getattr(self, figure)) / self.calls


@dataclass(frozen=True, slots=True)
class DraftedScript:
    """A script."""

    file: str
    calls: float
    """How often the application did what it does; 0 for one that its user has added."""
    statements: tuple[DraftedStatement, ...]
    tried: TriedFigures | None = None
    """A run of it, all statements together; None where they cannot be told apart, or nothing ran."""
    error: str | None = None
    """Why it failed when it was tried."""
    note: str | None = None
    """Why there are no figures of its try, though nothing failed."""

    def per_run(self, figure: str) -> float:
        """The same of one run in the application, all statements together."""
        return sum(each.times * each.per_call(figure) for each in self.statements)


@dataclass(frozen=True, slots=True)
class DraftedTable:
    """A table, and by which law its rows are drawn, as far as page images told."""

    name: str
    rows: int
    law: str | None
    parameter: float | None
    is_adjacent: bool | None


@dataclass(frozen=True, slots=True)
class NotDrafted:
    """A statement that the load does not have."""

    query: str
    why: str
    calls_share: float
    wal_share: float


@dataclass(frozen=True, slots=True)
class TriedTogether:
    """The load on a throw-away server; ratios are of all calls, here to the application's."""

    version: str
    """Of the server: ``17.10``."""
    rows: float | None
    """None where the application has none, or nothing ran."""
    wal_records: float | None


@dataclass(frozen=True, slots=True)
class DraftedLoad:
    """A load."""

    format: int
    name: str
    file: str
    conf: str
    shared_buffers: str | None
    """Its value as it is fitted to the tables; None where it is the server's."""
    device: str | None
    """An emulated disk that flushes like the server's; None if that is not known."""
    pg: str
    """Major version of the application's server."""
    database: str
    seconds: float | None
    """How long its statements were counted; None since they were reset."""
    rate: float | None
    """Scripts a second at which the application ran."""
    calls_share: float
    """Share of the calls of statements on tables that the load has."""
    wal_share: float
    """Share of their WAL."""
    scripts: tuple[DraftedScript, ...]
    tables: tuple[DraftedTable, ...]
    left_out: tuple[NotDrafted, ...]
    """Those with the most WAL first."""
    notes: tuple[str, ...]
    """What differs from the application."""
    tried: TriedTogether | None = None
    not_tried: str | None = None
    """Why it was not tried; None where it was."""

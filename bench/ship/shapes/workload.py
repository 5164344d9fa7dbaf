"""Shape of the output about drafted loads."""

from __future__ import annotations

from typing_extensions import TypedDict


class TriedFigures(TypedDict):
    calls: int
    rows: float
    wal_records: float
    upkeep_records: float
    wal_bytes: float
    differs: list[str]


class CountedStatement(TypedDict):
    query: str
    calls: float
    rows: float
    wal_records: float
    wal_fpi: float
    wal_bytes: float
    tried: TriedFigures | None
    times: int


class DraftedScript(TypedDict):
    file: str
    calls: float
    statements: list[CountedStatement]
    tried: TriedFigures | None
    error: str | None
    note: str | None


class MadeTable(TypedDict):
    name: str
    rows: int
    law: str | None
    parameter: float | None
    is_adjacent: bool | None


class LeftOut(TypedDict):
    query: str
    why: str
    calls_share: float
    wal_share: float


class TriedTogether(TypedDict):
    version: str
    rows: float | None
    wal_records: float | None


class DraftedLoad(TypedDict):
    format: int
    name: str
    file: str
    conf: str
    shared_buffers: str | None
    device: str | None
    pg: str
    database: str
    seconds: float | None
    rate: float | None
    calls_share: float
    wal_share: float
    scripts: list[DraftedScript]
    tables: list[MadeTable]
    left_out: list[LeftOut]
    notes: list[str]
    tried: TriedTogether | None
    not_tried: str | None

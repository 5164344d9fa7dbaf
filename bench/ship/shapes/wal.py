"""Shapes of the outputs about WAL, archives and recoveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from walproof.analysis.recovery_costs import Disk
from walproof.wal.relations import Relation

Object = Mapping[str, Any]


class Part(TypedDict):
    version: int
    system_identifier: str
    segment_size: int
    start: str
    end: str
    first_record: str | None
    last_record: str | None
    first_timeline: int
    last_timeline: int
    is_open: bool
    part_bytes: int


class Columns(TypedDict):
    records: int
    record_bytes: int
    image_count: int
    image_bytes: int
    combined_bytes: int


class Gap(TypedDict):
    start: str
    end: str


class CheckpointRow(TypedDict):
    lsn: str
    redo: str
    kind: str
    timeline: int
    at: float


class ErrorText(TypedDict):
    message: str
    detail: str | None
    hint: str | None


class Stats(TypedDict):
    """Totals of WAL; the keys of a row depend on `by`."""

    version: int
    system_identifier: str
    segment_size: int
    timeline: int
    start: str
    end: str
    lsn_distance: int
    finish: str
    finish_reason: str | None
    error: ErrorText | None
    totals: Columns
    images: Object
    accounting: Mapping[str, int]
    gaps: list[Gap]
    commits: int
    aborts: int
    first_commit_at: float | None
    last_commit_at: float | None
    checkpoints: list[CheckpointRow]
    by: str
    rows: list[Mapping[str, str | int | None]]


class Record(TypedDict):
    """A record; one a line. Ends of transactions and checkpoints have keys more."""

    lsn: str
    prev: str
    end: str
    rmgr: str
    operation: str
    xid: int
    total_length: int
    image_bytes: int
    main_data_length: int
    origin: NotRequired[int]
    toplevel_xid: NotRequired[int]
    time_unix_us: NotRequired[int]
    redo: NotRequired[str]
    time_unix_s: NotRequired[int]
    blocks: list[Object]


class RelationNames(TypedDict):
    """A map of names, a file for --map."""

    format: int
    system_identifier: int
    version_num: int
    taken_at: float
    relations: list[Relation]
    left_out: list[str]


class Settings(TypedDict):
    max_wal_size_mb: int | None
    checkpoint_timeout_s: int | None
    checkpoint_completion_target: float
    min_wal_size_mb: int
    full_page_writes: bool
    wal_compression: str
    hint_records: bool


class Present(Settings):
    is_known: bool


class Predicted(TypedDict):
    settings: Settings
    wal_bytes: float
    wal_bytes_low: float
    wal_bytes_high: float
    images: float
    checkpoints: float
    by_size_share: float | None
    spacing_bytes: float | None
    spacing_s: float | None
    distance_to_redo_mean: float
    distance_to_redo_most: float
    recovery_s: float | None
    pg_wal_most: float | None
    elasticity: float | None
    whole_cycles: int
    sample_error: float | None
    confidence: str
    reasons: list[str]


class Answered(Predicted):
    is_within: bool
    line: str


class RecordedCheckpoint(TypedDict):
    redo: str
    at: float
    is_shutdown: bool


class RecordedWal(TypedDict):
    wal_bytes: int
    seconds: float | None
    records: int
    images: int
    image_bytes: int
    hint_images: int
    pages: int
    held_pages: int
    memory_bytes: int
    checkpoints: list[RecordedCheckpoint]
    compression: str
    explained_share: float | None
    image_size_error: float | None


class SampledMethod(TypedDict):
    bytes: int
    cpu_s: float


class Sample(TypedDict):
    count: int
    plain_bytes: int
    methods: Mapping[str, SampledMethod]


class Cliff(TypedDict):
    from_mb: int | None
    to_mb: int | None


class WhatIf(TypedDict):
    """WAL and recovery under other settings."""

    version: int
    system_identifier: str
    segment_size: int
    first_timeline: int
    timeline: int
    start: str
    end: str
    finish_reason: str | None
    gaps: list[Gap]
    per_hour: bool
    clock: str
    recorded: RecordedWal
    image_sample: Sample
    reasons: list[str]
    present: Present
    predictions: list[Predicted]
    cliffs: list[Cliff]
    answer: Answered | None


class Ending(TypedDict):
    reason: str
    message: str | None


class Backup(TypedDict):
    name: str
    tool: str
    path: str
    timeline: int
    start: str
    stop: str
    stopped_at: float | None


class PartialFile(TypedDict):
    path: str
    end: str


class RestoreWindow(TypedDict):
    backup: str
    timeline: int
    start: str
    end: str
    last_record: str | None
    start_at: float | None
    end_at: float | None
    ended_by: Ending
    unread_segments: int
    partial: PartialFile | None


class Range(TypedDict):
    timeline: int
    start: str
    end: str
    last_record: str | None
    first_transaction_at: float | None
    last_transaction_at: float | None
    ended_by: Ending
    follows_parent: bool | None
    unread_segments: int


class Problem(TypedDict):
    kind: str
    severity: str
    message: str
    path: str | None
    segment: str | None
    last_segment: str | None
    segments: int | None
    timeline: int | None
    lsn: str | None
    end_lsn: str | None
    offset: int | None
    cause: str | None
    expected: str | None
    got: str | None
    command: str | None
    meaning: str
    advice: str | None
    later_backup: str | None


class Archive(TypedDict):
    name: str
    layout: str
    path: str
    pg_wal: list[str]
    whole: bool
    verdict: str
    system_identifier: str | None
    version: int | None
    segment_size: int | None
    timelines: list[int]
    first_segment: str | None
    last_segment: str | None
    wal_bytes: int
    files: int
    read_files: int
    read_bytes: int
    kept_files: int
    skipped_files: int
    partial_files: int
    prepared_files: int
    backups: list[Backup]
    windows: list[RestoreWindow]
    ranges: list[Range]
    problems: list[Problem]


class Verification(TypedDict):
    """Archives: whole or not, what backups can be restored to, and what is wrong."""

    whole: bool
    started_at: float
    ended_at: float
    archives: list[Archive]


class Coefficients(TypedDict):
    source: str
    cpu_us: Mapping[str, float]
    cold_us: Mapping[str, float]
    checkpoint_us: Mapping[str, float]
    band: float
    cold_band: float


class Cold(TypedDict):
    redo_s: float
    cpu_s: float
    disk_s: float | None
    pages: float
    requests: float
    bytes: float


class PredictedRecovery(TypedDict):
    shared_buffers_bytes: int
    warm_redo_s: float
    cold_redo_s: Cold
    cold_redo_prefetch_off_s: Cold
    checkpoint_s: float
    checkpoint_cold_s: float
    host_memory_s: float | None
    host_memory_cold_s: float | None
    total_warm_s: float
    total_warm_low_s: float
    total_warm_high_s: float
    total_cold_s: float
    total_cold_low_s: float
    total_cold_high_s: float
    total_cold_prefetch_off_s: float
    dominating: str
    terms_s: Mapping[str, float]
    quantities: Mapping[str, float]
    checkpoint: Mapping[str, float]


class Recovery(TypedDict):
    """What a recovery has to do, and how long it takes with each size of shared_buffers."""

    version: int
    system_identifier: str
    timeline: int
    redo: str
    end: str
    finish_reason: str | None
    gaps: list[Gap]
    wal_bytes: int
    records: int
    references: int
    done: int
    pages: int
    relations_dropped: int
    truncations: int
    coefficients: Coefficients
    disk: Disk
    predictions: list[PredictedRecovery]
    notes: list[str]


class RecoveryUnderWay(TypedDict):
    """A server that recovers now; one a line."""

    at: float
    phase: Literal[
        "before redo", "redo", "read-only recovery", "checkpoint", "hot standby", "warm standby", "over"
    ]
    running_s: float | None
    lsn: str | None
    redo: str | None
    end: str | None
    wal_bytes: int | None
    wal_bytes_per_s: float | None
    done: float | None
    left_s: float | None
    left_low_s: float | None
    left_high_s: float | None
    stalled_s: float
    sync_files: int | None
    sync_at: int | None
    sync_done: float | None
    sync_left_s: float | None
    awaited: str | None
    awaited_s: float | None
    target: str | None

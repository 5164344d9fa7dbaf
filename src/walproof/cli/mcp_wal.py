"""Tools of ``walproof mcp`` over recorded WAL: totals, other settings, recovery, whole archives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from walproof.cli import options
from walproof.cli.mcp_reach import (
    End,
    Paths,
    Reach,
    RecoveryTarget,
    Since,
    Start,
    Until,
    WalDisk,
    flags,
    positive,
    settings_text,
)
from walproof.cli.span import ask_span
from walproof.mcp.tool import Call, Tool, ToolAnswer, ToolArguments

if TYPE_CHECKING:
    from walproof.units import Lsn
    from walproof.wal.places.opened import Path

Value = str | int | float | bool
SharedBuffers = Annotated[
    str | None, Field(description="shared_buffers of the server that recovers; default as recorded.")
]


class AskedStats(ToolArguments):
    """Which WAL to total, and by what."""

    paths: Paths
    by: Annotated[
        Literal["rmgr", "record", "relation", "fork", "index", "minute"],
        Field(description="What rows are of: resource managers, kinds of record, relations, their forks, "
              "indexes alone, or minutes."),
    ] = "rmgr"  # fmt: skip
    start: Start = None
    end: End = None
    since: Since = None
    until: Until = None
    limit: int = Field(
        default=20,
        ge=1,
        le=10_000,
        description="Most rows to return: those with the most bytes. They come first; minutes stay in "
        "the order of time.",
    )


class AskedWhatif(ToolArguments):
    """Which WAL to read, and the settings to predict."""

    paths: Paths
    settings: Annotated[
        list[dict[str, Value]],
        Field(
            description='Settings to predict, each a set: [{"max_wal_size": "8GB", "wal_compression": '
            '"lz4"}]. '
            "max_wal_size, min_wal_size, checkpoint_timeout, checkpoint_completion_target, wal_compression, "
            "full_page_writes, wal_log_hints. Other sizes and timeouts are predicted anyway."
        ),
    ] = []  # noqa: RUF012 - pydantic copies it
    present: dict[str, Value] = Field(
        default={}, description="The recorded server's own settings, where the recording does not say them."
    )
    wal_disk: WalDisk = None
    wal_per_hour: str | None = Field(default=None, description="Most WAL per hour, such as 50GB.")
    recovery_target: RecoveryTarget = None
    shared_buffers: SharedBuffers = None
    start: Start = None
    end: End = None
    since: Since = None
    until: Until = None
    every_prediction: bool = Field(
        default=False,
        description="Predict all other combinations of max_wal_size and checkpoint_timeout, too.",
    )


class AskedRecovery(ToolArguments):
    """Which WAL to recover, on which server."""

    paths: Paths
    shared_buffers: list[str] = Field(
        default=[], description="shared_buffers of the server that recovers, one or several sizes."
    )
    distance: str | None = Field(
        default=None,
        description="Distance from the redo point to the crash, such as 4GB. Default: the crash is at the "
        "end.",
    )
    iops: float | None = Field(default=None, ge=1, description="Random reads a second that the disk can do.")
    read_latency: str | None = Field(default=None, description="Latency of one random read, such as 0.2ms.")
    start: Start = None
    end: End = None


class AskedArchive(ToolArguments):
    """Which archives."""

    paths: Paths
    since: str | None = Field(
        default=None,
        description="Look only at segments from this place on: an LSN, a segment's name, a time such as "
        "2026-11-22T03:00, or 26h for 26 hours ago.",
    )
    backups: list[str] = Field(default=[], description="More folders with base backups.")


def wal_tools(reach: Reach) -> list[Tool]:
    """Tools that read WAL below the roots."""

    def stats(asked: AskedStats, call: Call) -> ToolAnswer:
        from walproof.cli.wal_names import recorded_names_of
        from walproof.report.wal.rows import By, json_text, largest, rows
        from walproof.wal import stats as read_stats

        notes: list[str] = []
        with reach.places(asked.paths, call) as places:
            start, end = _span(asked, places, call, notes)
            wal = read_stats(*places, start=start, end=end, partial=True, observe=call.observe)
            names = recorded_names_of(places, wal.system_identifier, notes.append)
        by = By(asked.by)
        found = rows(wal, by, names)
        data = json.loads(json_text(wal, by, largest(found, asked.limit)))
        data["rows_found"] = len(found)
        if wal.error is not None:
            notes.append("The WAL is damaged: the figures cover what comes before the damage. See error.")
        if len(found) > asked.limit:
            left = f"{asked.limit} of {len(found)} rows, those with the most bytes"
            notes.append(f"{left}; a larger limit shows more.")
        command = ("walproof", "wal", "stats", *map(str, places), "--by", asked.by)
        # Locations also where times were asked for: 26h ago is another time when somebody runs the command.
        span = flags(("--start", start), ("--end", end))
        return ToolAnswer(data, tuple(notes), (*command, *span))

    def whatif(asked: AskedWhatif, call: Call) -> ToolAnswer:
        from walproof.cli.whatif import WhatifOrder, predict_whatif
        from walproof.report.wal.whatif_json import whatif_json

        buffers = asked.shared_buffers
        order = WhatifOrder(
            sets=[_texts(setting) for setting in asked.settings],
            present=[_texts(asked.present)] if asked.present else [],
            wal_disk_bytes=positive("wal_disk", asked.wal_disk),
            wal_bytes_per_hour=positive("wal_per_hour", asked.wal_per_hour),
            recovery_s=options.duration_s(asked.recovery_target),
            buffers=None if buffers is None else options.buffers("shared_buffers", buffers),
            calibration=reach.calibration,
        )
        notes: list[str] = []
        with reach.places(asked.paths, call) as places:
            start, end = _span(asked, places, call, notes)
            found, answer = predict_whatif(places, replace(order, start=start, end=end), call.observe)
        data: dict[str, Any] = json.loads(whatif_json(found, answer))
        if not asked.every_prediction:
            question = found.question
            telling = {*question.asked, *question.others(), question.present}
            telling |= {
                prediction.target for prediction in found.curve(question.present.checkpoint_timeout_s)
            }
            every = data["predictions"]
            data["predictions"] = [
                said
                for prediction, said in zip(found.told(), every, strict=True)
                if prediction.target in telling
            ]
            notes.append(
                f"{len(data['predictions'])} of {len(every)} predictions: what was asked, the present "
                "settings, and max_wal_size with the present checkpoint_timeout. every_prediction shows all."
            )
        if answer is not None and not answer.answer.is_within:
            notes.append("No setting tried keeps within all limits; the answer is the nearest.")
        words = [*map(str, places)]
        for setting in asked.settings:
            words += ["--set", settings_text(_texts(setting))]
        is_timed = asked.recovery_target is not None
        words += flags(
            ("--present", settings_text(_texts(asked.present)) or None), ("--wal-disk", asked.wal_disk),
            ("--wal-per-hour", asked.wal_per_hour), ("--recovery-target", asked.recovery_target),
            ("--shared-buffers", buffers if is_timed else None),
            ("--calibration", reach.calibration if is_timed else None), ("--start", start), ("--end", end),
        )  # fmt: skip
        return ToolAnswer(data, tuple(notes), ("walproof", "wal", "whatif", *words))

    def recovery(asked: AskedRecovery, call: Call) -> ToolAnswer:
        from walproof.cli.predicting import RecoveryOrder, predict_recovery, redo_point
        from walproof.report.wal.recovery_json import recovery_json

        latency_s = options.duration_s(asked.read_latency)
        span = ask_span(asked.start, asked.end, None, None)
        order = RecoveryOrder(
            buffers=[options.buffers("shared_buffers", size) for size in asked.shared_buffers],
            distance=positive("distance", asked.distance),
            iops=asked.iops,
            read_latency_us=None if latency_s is None else latency_s * 1e6,
            calibration=reach.calibration,
            start=span.start,
            end=span.end,
        )
        with reach.places(asked.paths, call) as places:
            redo = redo_point(places, order, call.observe)
            found = predict_recovery(places, order, redo, call.observe)
        words = [*map(str, places)]
        for size in asked.shared_buffers:
            words += ["--shared-buffers", size]
        words += flags(
            ("--distance", asked.distance), ("--iops", asked.iops), ("--read-latency", asked.read_latency),
            ("--calibration", reach.calibration), ("--start", asked.start), ("--end", asked.end),
        )  # fmt: skip
        notes = (
            "Times are those of the machine where walproof mcp runs, or of the disk that was named. cold: "
            "no data is in memory after a crash of the machine. Say the range (low, high), not the "
            "middle.",
        )
        return ToolAnswer(
            json.loads(recovery_json(found)), notes, ("walproof", "recovery", "predict", *words)
        )

    def archive(asked: AskedArchive, call: Call) -> ToolAnswer:
        from walproof.cli.verify import parse_since
        from walproof.report.wal.verify_json import verification_json
        from walproof.wal.verify.verify import verify

        since = parse_since(asked.since)
        with reach.places(asked.paths, call) as places, reach.places(asked.backups, call) as backups:
            found = verify(places, backups=backups, since=since, observe=call.observe)
        words = [*map(str, places), *flags(("--since", asked.since))]
        for backup in backups:
            words += ["--backups", str(backup)]
        return ToolAnswer(json.loads(verification_json(found)), (), ("walproof", "wal", "verify", *words))

    return [
        Tool(
            "wal_stats", "Who writes the WAL",
            "Total recorded WAL: bytes and full-page images by resource manager, relation, index or minute. "
            "Rows of tables are never shown, only counts and names of relations.",
            AskedStats, stats,
        ),
        Tool(
            "predict_settings", "What other settings would write",
            "Predict from recorded WAL, without an experiment, what another max_wal_size, "
            "checkpoint_timeout, wal_compression or full_page_writes would write, and which settings keep "
            "within a disk, a rate or a recovery time. full_page_writes=off may corrupt the cluster: "
            "check_settings says what a setting risks.",
            AskedWhatif, whatif,
        ),
        Tool(
            "forecast_recovery", "How long crash recovery takes",
            "Predict how long crash recovery of recorded WAL takes, warm and cold, and what most of the time "
            "goes into. Without distance the crash is at the end of the recording, maybe just after a "
            "checkpoint: name a distance such as max_wal_size to see a long recovery.",
            AskedRecovery, recovery,
        ),
        Tool(
            "verify_archive", "Is the WAL archive whole",
            "Check an archive (pgBackRest, WAL-G, Barman, a plain folder): missing, damaged and foreign "
            "segments, and to which moments each base backup can be restored. Reads everything unless since "
            "is given.",
            AskedArchive, archive,
        ),
    ]  # fmt: skip


def _span(
    asked: AskedStats | AskedWhatif, places: Sequence[Path], call: Call, notes: list[str]
) -> tuple[Lsn | None, Lsn | None]:
    """First and last location that is asked for; doubts about them go into the notes."""
    span = ask_span(asked.start, asked.end, asked.since, asked.until)
    return span.find(places, None, notes.append, call.observe)


def _texts(settings: dict[str, Value]) -> dict[str, str]:
    """Values as the server writes them."""
    words = {True: "on", False: "off"}
    return {name: words[value] if isinstance(value, bool) else str(value) for name, value in settings.items()}

"""What a study of a live stream says beyond settings: its load, the way it is sent, and what replays it.

``data_checksums`` is chosen at initdb; ``distance`` and ``bandwidth`` are those of the link between the
servers (``distance = "hosts"``: there is none, the standby is on another host); ``replay_cpu`` (``5%``) is
the most of one core that the standby's startup process gets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import Field

from walproof.errors import StudyError
from walproof.facts import Streaming, StreamingConditions, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.kinds.failover import study as failover
from walproof.lab.kinds.replay import study as replay
from walproof.lab.standby_settings import OF_STANDBYS, OF_STREAMS, refuse_settings
from walproof.lab.studyfile import Count, StudyTable, Whole

REPLAY_CPU = "replay_cpu"
_LEAST_SHARE = 0.01
_PIPELINES_SINCE = 140000
"""pgbench's \\startpipeline."""


class StreamingTable(StudyTable):
    """``[streaming]``: each trial loads a primary while its standby streams."""

    preloaded_rows: Count = 300_000
    rows_per_commit: Annotated[Whole, Field(ge=5, le=5000)] = 500


def check_streaming(asked: Asked) -> None:
    """Refuse what has no meaning in a study of a live stream. Raises StudyError."""
    study, driver = asked.study, asked.driver
    for workload in study.workload:
        if workload.script or workload.builtin or workload.statement:
            raise StudyError(
                f'workload "{workload.name}" of a study of a live stream has a script of its own',
                detail="Its load is fixed: prepared INSERTs into five partitioned tables.",
            )
        if workload.transactions is not None or workload.warmup:
            raise StudyError(
                f'workload "{workload.name}" of a study of a live stream has no fixed length',
                detail="Its trials have a duration, and no warm-up, so that every standby begins alike.",
            )
    replay.refuse_checksum_options(asked)
    asked.refuse_device(Streaming.noun, *replay.OF_CPU)
    if asked.overrides.warmup_s is not None:
        raise StudyError(
            f"--warmup has no meaning in a study of {Streaming.noun}",
            detail="Its trials have no warm-up, so that every standby begins alike.",
        )
    refuse_settings(asked, (*OF_STANDBYS, *OF_STREAMS))
    if driver.version_num < _PIPELINES_SINCE:
        raise StudyError(
            f"pgbench {driver.version} cannot make the load of a live stream",
            detail="It sends a transaction's INSERTs in a pipeline, which pgbench has from 14 on.",
            hint="--pg embedded, in addition to the others, brings a newer one.",
        )


def with_stream(variant: Variant) -> Variant:
    """The variant, with what is not a setting taken out of its settings. Raises StudyError."""
    for name, read in CONDITIONS.items():
        if name in variant.settings:
            read(variant.settings[name])
    pair = failover.conditions_of(variant.settings)
    return replace(
        variant,
        settings={name: value for name, value in variant.settings.items() if name not in CONDITIONS},
        conditions=StreamingConditions(
            checksums=replay.conditions_of(variant.settings).checksums,
            between_hosts=pair.between_hosts,
            distance_s=pair.distance_s,
            bandwidth_bytes_per_s=pair.bandwidth_bytes_per_s,
            replay_cpu_share=_share(variant.settings.get(REPLAY_CPU, "100%")),
        ),
    )


def _share(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text.strip())
    share = float(match[1]) / 100 if match is not None else 0.0
    if not _LEAST_SHARE <= share <= 1:
        raise StudyError(
            f'{REPLAY_CPU} cannot be "{text}"', hint=f"A share of one core, from {_LEAST_SHARE:.0%} to 100%."
        )
    return share


def _meaningless(name: str, value: str) -> object:
    raise StudyError(f"{name} has no meaning in a study of a live stream")


CONDITIONS: Mapping[str, Callable[[str], object]] = {
    **replay.READERS,
    **failover.READERS,
    **{
        name: partial(_meaningless, name)
        for name in (replay.CACHE, replay.KERNEL_AUDIT, failover.STANDBY_DEVICE, failover.STANDBYS)
    },
    REPLAY_CPU: _share,
}
"""What is typed among settings, and is none."""


def streaming_workload(workload: Workload) -> Workload:
    """The load as a workload: each client of pgbench is a stream of commits."""
    return replace(workload, builtin=None, protocol="prepared")


def streaming_of(table: StreamingTable) -> Streaming:
    """What the plan's trials begin with."""
    return Streaming(table.preloaded_rows, table.rows_per_commit)

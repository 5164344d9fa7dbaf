"""What a study file says about what comes after each window: a crash, or a power cut."""

from __future__ import annotations

from walproof.errors import StudyError
from walproof.facts import Crash, PowerCut
from walproof.lab.asked import Asked
from walproof.lab.kinds.power_cuts.study import PowerCutTable
from walproof.lab.studyfile import Count, StudyTable


class CrashTable(StudyTable):
    """``[crash]``: each trial's server is killed when its load ends, and recovered."""

    cold: bool = False
    predict: bool = False
    iops: Count | None = None
    power_cut: bool = False


def added_to(asked: Asked) -> Crash | PowerCut | None:
    """What comes after each window. Raises StudyError."""
    crash, cut = asked.study.find(CrashTable), asked.study.find(PowerCutTable)
    images = asked.overrides.power_cut_images or (None if cut is None else cut.images)
    if crash is not None and images is not None:
        raise StudyError(
            "a study has [crash] or [power_cut]",
            hint="[crash] power_cut = true also recovers from a power cut.",
        )
    if images is not None:
        return PowerCut(images)
    return None if crash is None else _crash(crash, asked)


def _crash(table: CrashTable, asked: Asked) -> Crash:
    if asked.overrides.device is not None:
        raise StudyError(
            "--device does not emulate the reads of a recovery",
            detail="An emulated disk delays writes and flushes.",
            hint="Run the study without --device.",
        )
    has_duration = asked.overrides.duration_s is not None
    if table.predict and (has_duration or any(load.transactions is None for load in asked.study.workload)):
        raise StudyError(
            "[crash] predict needs workloads of a fixed number of transactions",
            detail="What another variant writes is predicted for the same transactions.",
            hint="Leave out --duration." if has_duration else None,
        )
    return Crash(table.cold, table.predict, table.iops, table.power_cut)

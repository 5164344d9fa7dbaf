"""What a study of failover says beyond settings: the distance of the standby, and its fixed load."""

from __future__ import annotations

from dataclasses import replace

from walproof.errors import StudyError, UnitError
from walproof.facts import Failover, Variant, Workload
from walproof.lab.studyfile import StudyFile
from walproof.units import parse_duration_s

DISTANCE = "distance"
_FARTHEST_S = 1.0


def check_failover(study: StudyFile) -> None:
    """Refuse what has no meaning in a study of failover. Raises StudyError."""
    if len(study.workload) != 1 or study.workload[0].script or study.workload[0].builtin:
        raise StudyError(
            "a study of failover has one workload, without scripts",
            detail="Its load is the ledger, which knows each commit that was acknowledged.",
        )
    if study.power_cut is not None or study.replay is not None:
        raise StudyError("a study has one of [failover], [replay] and [power_cut]")
    values = [*study.factors.get(DISTANCE, ())]
    values += [v.settings[DISTANCE] for v in study.variant if DISTANCE in v.settings]
    for value in values:
        _distance_s(value)


def with_distance(cell: Variant) -> Variant:
    """The variant with its distance taken out of its settings."""
    return replace(
        cell,
        settings={name: value for name, value in cell.settings.items() if name != DISTANCE},
        distance_s=_distance_s(cell.settings.get(DISTANCE, "0")),
    )


def failover_of(study: StudyFile, quick: bool) -> Failover | None:
    """The plan's load; None for any other study."""
    table = study.failover
    return None if table is None else Failover(table.quick_load if quick else table.load, table.sessions)


def failover_workload(workload: Workload, study: StudyFile, quick: bool) -> Workload:
    """The ledger's load as a workload."""
    asked = failover_of(study, quick)
    assert asked is not None
    return replace(workload, builtin=None, clients=asked.sessions, duration_s=asked.load_s, transactions=None)


def _distance_s(text: str) -> float:
    try:
        seconds = parse_duration_s(text)
    except UnitError as error:
        raise StudyError(f'{DISTANCE} "{text}": {error.message}', hint=error.hint) from None
    if seconds > _FARTHEST_S:
        raise StudyError(
            f'{DISTANCE} "{text}" is too far', detail=f"Expected at most {_FARTHEST_S:g} s one way."
        )
    return seconds

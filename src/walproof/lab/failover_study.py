"""What a study of failover says beyond settings: way and disk of the standby, and its fixed load."""

from __future__ import annotations

from dataclasses import replace

from walproof.disk.device import parse_device
from walproof.errors import StudyError, UnitError
from walproof.facts import Failover, Variant, Workload
from walproof.lab.studyfile import StudyFile
from walproof.units import parse_bytes, parse_duration_s

DISTANCE, BANDWIDTH, STANDBY_DEVICE = "distance", "bandwidth", "standby_device"
NOTHING = "none"
"""Level of ``bandwidth`` and of ``standby_device``: no limit, and this machine's own disk."""
_FARTHEST_S = 1.0
_NARROWEST_BYTES_PER_S = 16 * 1024


def check_failover(study: StudyFile) -> None:
    """Refuse what has no meaning in a study of failover. Raises StudyError or DiskError."""
    if len(study.workload) != 1 or study.workload[0].script or study.workload[0].builtin:
        raise StudyError(
            "a study of failover has one workload, without scripts",
            detail="Its load is the ledger, which knows each commit that was acknowledged.",
        )
    check_pair(study)


def check_pair(study: StudyFile) -> None:
    """Refuse a way or a disk that cannot be. Raises StudyError or DiskError."""
    for name, read in _READERS.items():
        typed = [variant.settings[name] for variant in study.variant if name in variant.settings]
        for value in (*study.factors.get(name, ()), *typed):
            read(value)


def with_pair(cell: Variant) -> Variant:
    """The variant with what is about its pair taken out of its settings."""
    typed = cell.settings
    return replace(
        cell,
        settings={name: value for name, value in typed.items() if name not in _READERS},
        distance_s=_distance_s(typed.get(DISTANCE, "0")),
        bandwidth_bytes_per_s=_bandwidth(typed.get(BANDWIDTH, NOTHING)),
        standby_device=_device(typed.get(STANDBY_DEVICE, NOTHING)),
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


def _bandwidth(text: str) -> int | None:
    if text == NOTHING:
        return None
    size, slash, per = text.rpartition("/")
    try:
        bytes_per_s = parse_bytes(size if slash else "")
    except UnitError as error:
        raise StudyError(
            f'{BANDWIDTH} "{text}": {error.message}', hint=f'It looks like 10MB/s; "{NOTHING}" is no limit.'
        ) from None
    if per.strip() != "s" or bytes_per_s < _NARROWEST_BYTES_PER_S:
        raise StudyError(
            f'{BANDWIDTH} "{text}" is impossible', detail="Expected a size a second, 16kB/s or more."
        )
    return bytes_per_s


def _device(text: str) -> str | None:
    return None if text == NOTHING else parse_device(text).name


_READERS = {DISTANCE: _distance_s, BANDWIDTH: _bandwidth, STANDBY_DEVICE: _device}

"""What a study of failover says beyond settings: the standbys, their way and disk, and the fixed load.

``distance`` is a delay that is emulated, or ``hosts``: the standbys are on other hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, cast, get_args

from pydantic import Field

from walproof.disk.device import parse_device
from walproof.errors import StudyError, UnitError
from walproof.facts import Failover, FailoverConditions, StandbysLayout, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.between import DISTANCE, HOSTS
from walproof.lab.standby_settings import OF_STANDBYS, OF_STREAMS, Refused, refuse_settings
from walproof.lab.studyfile import Duration, StudyTable, Whole
from walproof.units import parse_bytes, parse_duration_s

BANDWIDTH, STANDBY_DEVICE = "bandwidth", "standby_device"
STANDBYS = "standbys"
NOTHING = "none"
"""Level of ``bandwidth`` and of ``standby_device``: no limit, and this machine's own disk."""
_FARTHEST_S = 1.0
_NARROWEST_BYTES_PER_S = 16 * 1024


class FailoverTable(StudyTable):
    """``[failover]``: each trial is a pair that loses its primary."""

    load: Duration = 5.0
    quick_load: Duration = 2.0
    sessions: Annotated[Whole, Field(ge=1, le=8)] = 4


_OWN_NAMES = Refused(
    "synchronous_standby_names",
    None,
    "the first commit would wait for ever",
    f"Leave it out: the study names its standbys itself. {STANDBYS} says how many there are.",
)
_SILENT = Refused(
    "hot_standby", "off", "the standby that has most WAL cannot be found", "Leave it out: each is asked."
)
_DEAF = Refused(
    "hot_standby",
    "off",
    "no standby can follow a standby",
    "Leave it out: the far one streams from the near one.",
)
_TOO_FEW = tuple(
    Refused(
        "max_(wal_senders|replication_slots)",
        few,
        "three standbys cannot stream",
        "Leave it out, or set 3 or more.",
    )
    for few in ("1", "2")
)


def check_failover(asked: Asked) -> None:
    """Refuse what has no meaning in a study of failover. Raises StudyError."""
    study = asked.study
    if len(study.workload) != 1 or study.workload[0].script or study.workload[0].builtin:
        raise StudyError(
            "a study of failover has one workload, without scripts",
            detail="Its load is the ledger, which knows each commit that was acknowledged.",
        )
    asked.refuse_workload_keys(
        Failover.noun,
        "Its load is the ledger's own.",
        "[failover] says how long it runs (load) and in how many sessions.",
    )
    asked.refuse_lengths(Failover.noun, "[failover] load says how long the primary is loaded.")
    layouts = {*study.factors.get(STANDBYS, ()), *(v.settings.get(STANDBYS) for v in study.variant)}
    of_choice = (_SILENT, *_TOO_FEW) if "any 2 of 3" in layouts else ()
    of_chain = (_DEAF,) if "cascade" in layouts else ()
    refuse_settings(asked, (*OF_STANDBYS, *OF_STREAMS, _OWN_NAMES, *of_choice, *of_chain))


def conditions_of(settings: Mapping[str, str]) -> FailoverConditions:
    """The part of what was typed that concerns the pair. Raises StudyError or DiskError."""
    between_hosts = settings.get(DISTANCE) == HOSTS
    emulated = [name for name in (BANDWIDTH, STANDBY_DEVICE) if settings.get(name, NOTHING) != NOTHING]
    if between_hosts and emulated:
        raise StudyError(
            f"{emulated[0]} cannot be emulated between hosts",
            hint=f'Leave it out of variants whose {DISTANCE} is "{HOSTS}", or give them a distance.',
        )
    return FailoverConditions(
        between_hosts=between_hosts,
        standbys=_standbys(settings.get(STANDBYS, "one")),
        distance_s=_distance_s(settings.get(DISTANCE, "0")),
        bandwidth_bytes_per_s=_bandwidth(settings.get(BANDWIDTH, NOTHING)),
        standby_device=_device(settings.get(STANDBY_DEVICE, NOTHING)),
    )


def with_pair(variant: Variant) -> Variant:
    """The variant, with what concerns its pair taken out of its settings."""
    settings = {name: value for name, value in variant.settings.items() if name not in READERS}
    return replace(variant, settings=settings, conditions=conditions_of(variant.settings))


def failover_of(table: FailoverTable, quick: bool) -> Failover:
    """The plan's load."""
    return Failover(table.quick_load if quick else table.load, table.sessions)


def failover_workload(workload: Workload, failover: Failover) -> Workload:
    """The ledger's load as a workload."""
    return replace(
        workload, builtin=None, clients=failover.sessions, duration_s=failover.load_s, transactions=None
    )


def _standbys(text: str) -> StandbysLayout:
    levels = get_args(StandbysLayout)
    if text not in levels:
        raise StudyError(f'{STANDBYS} cannot be "{text}"', hint=f"It is one of: {'; '.join(levels)}.")
    return cast("StandbysLayout", text)


def _distance_s(text: str) -> float:
    if text == HOSTS:
        return 0.0
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
            f'{BANDWIDTH} "{text}" is impossible', detail="Expected a size per second, 16kB/s or more."
        )
    return bytes_per_s


def _device(text: str) -> str | None:
    return None if text == NOTHING else parse_device(text).name


READERS: Mapping[str, Callable[[str], object]] = {
    DISTANCE: _distance_s, BANDWIDTH: _bandwidth, STANDBY_DEVICE: _device, STANDBYS: _standbys,
}  # fmt: skip

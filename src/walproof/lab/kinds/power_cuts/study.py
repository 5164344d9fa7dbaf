"""What a study file says about power cuts: how many images there are, and the disk under each variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from walproof.errors import StudyError
from walproof.facts import CutConditions, CutEvent, NameRule, UnitBytes
from walproof.lab.asked import Asked
from walproof.lab.initdb_options import settings_in
from walproof.lab.studyfile import Count, Duration, StudyTable


class CutTable(StudyTable):
    """``[variant.cut]``: the simulated disk and the cluster of the variant's power cuts."""

    unit: Literal["512B", "4kB", "8kB"] | None = None
    writeback: Duration | Literal["never"] = 30.0
    names: NameRule = "journal"
    failing_flush: bool = False
    checksums: bool = True
    unlogged: bool = False
    event: CutEvent | None = None


class PowerCutTable(StudyTable):
    """``[power_cut]``: power cuts in each trial."""

    images: Count = 4
    only: bool = False


_UNITS: Mapping[str, UnitBytes] = {"512B": 512, "4kB": 4096, "8kB": 8192}


def conditions_of(table: CutTable) -> CutConditions:
    """What was typed, as facts. Raises StudyError for a moment that cannot come."""
    if table.event is not None and table.failing_flush and not table.event.endswith(" flush"):
        raise StudyError(
            f'[variant.cut] event = "{table.event}" is not a flush that could fail',
            hint='With failing_flush it is "wal flush" or "relation flush".',
        )
    if table.event is not None and table.event.startswith("torn ") and table.unit == "8kB":
        raise StudyError(
            f'[variant.cut] event = "{table.event}" cannot come where units are 8 kB',
            detail="Writes of a page are then either whole or not there.",
        )
    return CutConditions(
        unit_bytes=None if table.unit is None else _UNITS[table.unit],
        writeback_s=None if table.writeback == "never" else float(table.writeback),
        names=table.names,
        failing_flush=table.failing_flush,
        checksums=table.checksums,
        unlogged=table.unlogged,
        event=table.event,
    )


def refuse_initdb_settings(asked: Asked) -> None:
    """Refuse settings among the options of initdb: nobody would know which of them gave something up, and the
    self-test of full durability would have them, too. Raises StudyError."""
    if found := settings_in(asked.study.initdb):
        raise StudyError(
            f"initdb has {found[0]} in a study of power cuts",
            detail="What a cut may lose is judged by the settings of a variant.",
            hint="Put the setting under [base].",
        )

"""Every kind of study, with a line for each, and which of them a study file describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walproof.errors import StudyError
from walproof.facts import Kind
from walproof.lab.asked import Overrides
from walproof.lab.kind import LabKind
from walproof.lab.kinds.backup.kind import BackupLab
from walproof.lab.kinds.failover.kind import FailoverLab
from walproof.lab.kinds.loading.kind import LoadingLab
from walproof.lab.kinds.power_cuts.kind import PowerCutsLab
from walproof.lab.kinds.replay.kind import ReplayLab
from walproof.lab.kinds.statements.kind import StatementsLab
from walproof.lab.kinds.streaming.kind import StreamingLab
from walproof.lab.kinds.throughput.kind import ThroughputLab
from walproof.lab.studyfile import StudyFile, StudyTable
from walproof.sentences import say_list

KINDS: tuple[LabKind[Any], ...] = (
    BackupLab(),
    FailoverLab(),
    LoadingLab(),
    PowerCutsLab(),
    ReplayLab(),
    StreamingLab(),
    StatementsLab(),
    ThroughputLab(),
)


def lab_kind(kind: Kind) -> LabKind[Any]:
    """The live half of a plan's kind."""
    return next(half for half in KINDS if type(kind) is half.kind)


def kind_of(study: StudyFile, overrides: Overrides) -> LabKind[Any]:
    """The kind that a study file describes.

    Raises StudyError when it describes two, or has tables that belong to another.
    """
    signs = {sign: kind for kind in KINDS if (sign := kind.sign(study)) is not None}
    if len(signs) > 1:
        raise StudyError(
            f"a study is of one kind, and this one has {say_list(list(signs))}",
            hint="Make a study file of each.",
        )
    for sign, kind in signs.items():
        found = [f"[{name}]" for name in _strangers(study, kind.tables, "tables")]
        if overrides.power_cut_images is not None and not kind.cuts_on_request:
            found.append("--power-cut")
        for addition in found:
            raise StudyError(
                f"{addition} cannot be added to a study of {kind.kind.noun}",
                detail=f"The study has {sign}; crashes and power cuts are added to studies of throughput.",
                hint=kind.instead_of_additions,
            )
    chosen = next(iter(signs.values()), KINDS[-1])
    for variant in study.variant:
        for name in _strangers(variant, chosen.variant_tables, "variant_tables"):
            raise StudyError(
                f'variant "{variant.name}" has [variant.{name}], '
                f"which has no meaning in a study of {chosen.kind.noun}",
                hint="Leave it out, or give the study the table of the kind that has it.",
            )
    return chosen


def _strangers(table: StudyTable, allowed: Mapping[str, type[StudyTable]], of: str) -> list[str]:
    """Names of the tables in ``table`` that kinds bring along, without those that are ``allowed``."""
    names = sorted({name for kind in KINDS for name in getattr(kind, of)} - set(allowed))
    return [name for name in names if getattr(table, name, None) is not None]

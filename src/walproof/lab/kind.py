"""Which kind of experiment a study file describes, and what may be added to it."""

from __future__ import annotations

from walproof.errors import StudyError
from walproof.facts import Failover, Kind, Load, PowerCuts, Replay, Statements, Streaming
from walproof.lab.studyfile import StudyFile


def check_kind(study: StudyFile, *, power_cuts_asked: bool) -> None:
    """Refuse a study of two kinds, and what cannot be added to its kind. Raises StudyError.

    ``power_cuts_asked``: by ``--power-cut``, beside what the file says.
    """
    found: dict[str, tuple[bool, type[Kind]]] = {
        "[failover]": (study.failover is not None, Failover),
        "[load]": (study.load is not None, Load),
        "[power_cut] only": (study.power_cut is not None and study.power_cut.only, PowerCuts),
        "[replay]": (study.replay is not None, Replay),
        "[streaming]": (study.streaming is not None, Streaming),
        "[[workload.statement]]": (any(one.statement for one in study.workload), Statements),
    }
    given: dict[str, type[Kind]] = {name: kind for name, (is_there, kind) in found.items() if is_there}
    if len(given) > 1:
        raise StudyError(
            f"a study is of one kind, and this one has {' and '.join(given)}",
            hint="Make a study file of each.",
        )
    if study.crash is not None and study.power_cut is not None:
        raise StudyError(
            "a study has [crash] or [power_cut]",
            hint="[crash] power_cut = true recovers from a power cut, too.",
        )
    for name, kind in given.items():
        added = {
            "[crash]": study.crash is not None,
            "[power_cut]": study.power_cut is not None and kind is not PowerCuts,
            "--power-cut": power_cuts_asked and kind is not PowerCuts,
        }
        for addition in [addition for addition, is_there in added.items() if is_there]:
            raise StudyError(
                f"{addition} cannot be added to a study of {kind.noun}",
                detail=f"The study has {name}; crashes and power cuts are added to studies of throughput.",
                hint="[load] has crash and power_cut of its own." if kind is Load else None,
            )

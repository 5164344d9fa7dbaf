"""What was seen of real servers, kept so that rules are asked again without them.

A line of JSON a server, compressed together: the window, what its WAL was made of, and what each simulated
server would have written. Only the WAL itself is not kept. ``bench/advise`` writes these files.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import types
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from walproof.advise.server.case import ServerCase
from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import Question, Study, study
from walproof.facts.codec import from_json, to_json
from walproof.facts.server import ServerWindow
from walproof.settings.durability import DurabilityClass
from walproof.wal.totals import WalStats
from walproof.wal.whatif import WhatIf

FACTS = Path(__file__).parents[1] / "facts"
HEALTHY = FACTS / "healthy.jsonl.xz"
PROVOKED = FACTS / "provoked.jsonl.xz"
CUTS = FACTS / "cuts.jsonl.xz"
"""Windows of long recordings (``bench/advise/cuts.py``)."""


def write(path: Path, cases: Mapping[str, ServerCase]) -> None:
    """Replace the file by these cases, in the order of their names."""
    lines = [json.dumps(_of_case(name, cases[name]), separators=(",", ":")) for name in sorted(cases)]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def read(path: Path) -> dict[str, ServerCase]:
    """Name -> case."""
    if not path.exists():
        return {}
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    return dict(_to_case(json.loads(line)) for line in lines)


@cache
def cases(path: Path) -> Mapping[str, ServerCase]:
    """The same, read once: a file has tens of cases with their simulations."""
    return read(path)


def _of_case(name: str, case: ServerCase) -> dict[str, Any]:
    simulated = case.whatif
    return {
        "name": name,
        "may_lose": case.may_lose.value,
        "limits": plain(case.limits),
        "window": json.loads(to_json(case.window)),
        "wal": None if case.wal is None else plain(case.wal),
        "found": None if simulated is None else plain(simulated.found),
        "question": None if simulated is None else plain(simulated.question),
        "recovery_s": [] if simulated is None else _recoveries(simulated),
        "recovery_band": case.recovery_band,
        "startup_budget_s": case.startup_budget_s,
    }


def _to_case(kept: Mapping[str, Any]) -> tuple[str, ServerCase]:
    simulated = None
    if kept["found"] is not None:
        question = fact(Question, kept["question"])
        recoveries = dict(zip(question.settings(), kept.get("recovery_s", ()), strict=False))
        simulated = study(
            fact(WhatIf, kept["found"]),
            question,
            (lambda server: recoveries[server.target]) if recoveries else None,
        )
    return kept["name"], ServerCase(
        from_json(ServerWindow, json.dumps(kept["window"])),
        None if kept["wal"] is None else fact(WalStats, kept["wal"]),
        simulated,
        fact(ServerLimits, kept["limits"]),
        DurabilityClass(kept["may_lose"]),
        kept.get("startup_budget_s"),
        kept.get("recovery_band", 1.0),
    )


def _recoveries(simulated: Study) -> list[float]:
    """Seconds, of each server that was asked for; none where recovery was not."""
    times = [simulated.predictions[setting].recovery_s for setting in simulated.question.settings()]
    return [time for time in times if time is not None]


def plain(value: Any) -> Any:
    """A fact as JSON has it: dataclasses become lists of their fields, in order."""
    if dataclasses.is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(item) for item in value]
    assert value is None or isinstance(value, str | int | float), type(value)
    return value


def fact(kind: Any, kept: Any) -> Any:
    """The fact of that type that ``plain`` made this of."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if kept is None else fact(next(part for part in parts if part is not type(None)), kept)
    if origin is Literal:
        return kept
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        # What was kept before a field was added has its default, which says that it is not known.
        fields = dataclasses.fields(kind)
        return kind(
            **{field.name: fact(hints[field.name], item) for field, item in zip(fields, kept, strict=False)}
        )
    if origin is tuple:
        kinds = [parts[0]] * len(kept) if parts[-1] is Ellipsis else list(parts)
        return tuple(fact(hint, other) for hint, other in zip(kinds, kept, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {key: fact(parts[1], item) for key, item in kept.items()}
    return kind(kept)

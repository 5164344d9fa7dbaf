"""The load of a tuning, and plans that run this load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from walproof.facts import Design, Install, Plan
from walproof.facts.tuning import Candidate
from walproof.facts.tuning_answers import candidate_name, device_name
from walproof.lab.asked import Overrides
from walproof.lab.designs import SLICE_S
from walproof.lab.reading import check_study
from walproof.lab.study import resolve
from walproof.settings.catalogue import as_shown

_NEEDED_BY_FACTS = ("wal", "checkpoints", "waits", "cpu", "disk")
_PASSES_LEAST = 4


@dataclass(frozen=True, slots=True)
class TuningLoad:
    """The load, and where it runs."""

    name: str
    """Name of the file, without its extension."""
    tables: Mapping[str, Any]
    """Tables that every plan has: initdb, base, pg, workload."""
    scripts: Path
    """Folder that script files are relative to."""
    folder: Path
    """Where clusters live."""
    install: Install
    device: str | None = None
    duration_s: float | None = None
    """Length of each window, if the file does not say it or less is wanted."""
    warmup_s: float | None = None

    @property
    def base(self) -> dict[str, str]:
        """Settings of every server, from the file."""
        return as_shown({str(name): str(value) for name, value in self.tables.get("base", {}).items()})


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """What a plan is to run."""

    study: str
    title: str
    candidates: tuple[Candidate, ...]
    """The first is the baseline."""
    keep: Mapping[str, str]
    rounds: int
    seed: int
    toggled: bool = False
    crash: bool = False
    devices: tuple[str, ...] = ()
    """Emulated disks on each of which the first candidate is a further variant."""
    duration_s: float | None = None


def plan_of(load: TuningLoad, asked: PlanOrder) -> Plan:
    """An ordinary plan of a study of throughput whose variants are the candidates.

    Raises StudyError, SettingError.
    """
    design: dict[str, Any] = {"seed": asked.seed, "design": "fresh", "rounds": asked.rounds}
    if asked.toggled:
        # Within a start each candidate runs as long as it would in its own trial.
        passes = max(_PASSES_LEAST, round((load.duration_s or 0.0) / SLICE_S[Design.TOGGLED]))
        design |= {"design": "toggled", "passes": passes, "probes": []}
    else:
        design["probes"] = list(_NEEDED_BY_FACTS)
    data: dict[str, Any] = {
        **{key: value for key, value in load.tables.items() if key != "pg"},
        "name": asked.study,
        "title": asked.title,
        "base": {**load.base, **asked.keep},
        "baseline": candidate_name(asked.candidates[0]),
        "design": design,
        "variant": [
            {"name": candidate_name(candidate), "settings": candidate.conf}
            for candidate in dict.fromkeys(asked.candidates)
        ],
    }
    if asked.crash:
        data["crash"] = {"cold": False}
    overrides = Overrides(
        duration_s=asked.duration_s or load.duration_s,
        warmup_s=load.warmup_s,
        # The server runs on the emulated disk; a copy on the real disk is recovered.
        device=None if asked.crash else load.device,
    )
    plan = resolve(
        check_study(data, load.name),
        overrides,
        folder=load.folder,
        scripts=load.scripts,
        given=[load.install],
    )
    if asked.crash:
        return replace(plan, device=load.device)
    first = plan.variant(plan.baseline)
    others = [replace(first, name=device_name(device), device=device) for device in asked.devices]
    return replace(plan, variants=(*plan.variants, *others))

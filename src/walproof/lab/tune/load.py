"""The load of a tuning: the load tables of a study file, and plans that run this load.

A file needs one ``[[workload]]``; ``[base]``, ``pg`` and ``initdb`` are used as well. Other parts of a study
(variants, factors, a design) are ignored: the tuning decides those.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from walproof.errors import StudyError
from walproof.facts import Install, Plan
from walproof.facts.tuning import Candidate
from walproof.facts.tuning_answers import candidate_name, device_name
from walproof.lab.asked import Overrides
from walproof.lab.kinds.registry import kind_of
from walproof.lab.reading import check_study
from walproof.lab.study import built_in_names, read_study, resolve
from walproof.lab.studyfile import StudyFile

_TAKEN = ("initdb", "base", "pg")
_NEEDED_BY_FACTS = ("wal", "checkpoints", "waits", "cpu", "disk")
_SLICE_S, _PASSES_LEAST = 0.3, 4


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
        return {str(name): str(value) for name, value in self.tables.get("base", {}).items()}


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


def read_load(name: str) -> tuple[dict[str, Any], Path]:
    """(tables, folder of its scripts) of a TOML file or a built-in study. Raises StudyError."""
    if name in built_in_names():
        study, text, folder = read_study(name)
        _check_kind(study, name)
        return _tables(tomllib.loads(text), name), folder
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(
            f'could not read load "{name}"',
            detail=getattr(error, "strerror", None) or str(error),
            hint="docs/tune.md shows how to make a load from an application.",
        ) from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f'load "{name}" is not valid TOML', detail=str(error)) from error
    data = {"name": slug(path.stem), "title": f"The load of {path.name}", **data}
    _check_kind(check_study(data, name, text), name)
    return _tables(data, name), path.parent


def _check_kind(study: StudyFile, name: str) -> None:
    half = kind_of(study, Overrides())
    if not half.toggles:
        raise StudyError(
            f'"{name}" is a study of {half.kind.noun}, expected a load of pgbench',
            hint="Leave out the tables that make it such a study; a load needs only [[workload]].",
        )


def slug(text: str) -> str:
    """The text as part of a study's name: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "load"


def _tables(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    workloads = data.get("workload", [])
    if len(workloads) != 1:
        names = ", ".join(str(workload.get("name", "?")) for workload in workloads)
        raise StudyError(
            f'load "{name}" has {len(workloads)} workloads, expected one',
            detail=f"Workloads: {names}." if names else None,
            hint="A configuration is best for one load: mix scripts in one workload by their weights.",
        )
    return {key: data[key] for key in _TAKEN if key in data} | {"workload": [dict(workloads[0])]}


def with_workload(tables: Mapping[str, Any], **keys: object) -> dict[str, Any]:
    """The tables with keys of the workload replaced; a key that is None stays as it is."""
    (workload,) = tables["workload"]
    return {**tables, "workload": [{**workload, **{k: v for k, v in keys.items() if v is not None}}]}


def plan_of(load: TuningLoad, asked: PlanOrder) -> Plan:
    """An ordinary plan of a study of throughput whose variants are the candidates.

    Raises StudyError, SettingError.
    """
    design: dict[str, Any] = {"seed": asked.seed, "design": "fresh", "rounds": asked.rounds}
    if asked.toggled:
        # Within a start each candidate runs as long as it would in its own trial.
        passes = max(_PASSES_LEAST, round((load.duration_s or 0.0) / _SLICE_S))
        design |= {"design": "toggled", "passes": passes, "slice": _SLICE_S, "probes": []}
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

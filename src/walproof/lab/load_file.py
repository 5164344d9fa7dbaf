"""A load: the part of a study file that says what clients do, and to which tables.

A file needs one ``[[workload]]``; ``[base]``, ``pg`` and ``initdb`` are used as well. Other parts of a study
(variants, factors, a design) are ignored: who takes the load decides those.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from walproof.errors import StudyError
from walproof.lab.asked import Overrides
from walproof.lab.kinds.registry import kind_of
from walproof.lab.reading import check_study
from walproof.lab.study import built_in_names, read_study
from walproof.lab.studyfile import StudyFile
from walproof.tomlfile import read_toml

_TAKEN = ("initdb", "base", "pg")


def read_load(name: str) -> tuple[dict[str, Any], Path]:
    """(tables, folder of its scripts) of a TOML file or a built-in study. Raises StudyError."""
    if name in built_in_names():
        study, text, folder = read_study(name)
        _check_kind(study, name)
        return _tables(tomllib.loads(text), name), folder
    path = Path(name)
    hint = _meant(path) or "docs/tune.md shows how to make a load from an application."
    text, data = read_toml(path, f'load "{name}"', StudyError, hint=hint)
    data = {"name": slug(path.stem), "title": f"The load of {path.name}", **data}
    _check_kind(check_study(data, name, text), name)
    return _tables(data, name), path.parent


def _meant(path: Path) -> str | None:
    """The load in a folder that was named in its place, as `walproof workload` makes one."""
    # Path.is_dir raises OSError for a path that is too long or may not be looked at.
    found = sorted(path.glob("*.toml")) if os.path.isdir(path) else []  # noqa: PTH112
    return f'Is "{found[0]}" meant?' if len(found) == 1 else None


def _check_kind(study: StudyFile, name: str) -> None:
    half = kind_of(study, Overrides())
    if not half.toggles:
        raise StudyError(
            f'"{name}" is a study of {half.kind.noun}, expected a load of pgbench',
            hint="Leave out the tables that make it such a study; a load needs only [[workload]].",
        )


def slug(text: str) -> str:
    """The text as part of a study's name, which is not longer: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:100].rstrip("-") or "load"


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

"""Reading a study file: every mistake is reported with file, line and key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError, create_model

from walproof.errors import StudyError
from walproof.lab.kinds.registry import KINDS
from walproof.lab.mistakes import mistakes_in
from walproof.lab.studyfile import StudyFile, StudyTable, VariantTable
from walproof.sentences import say_count
from walproof.tomlfile import Mistake, Place, complaint, key_of, read_toml, told


@cache
def study_model() -> type[StudyFile]:
    """The study file with every table that a kind of study brings along."""
    of_variant = {name: table for kind in KINDS for name, table in kind.variant_tables.items()}
    of_study = {name: table for kind in KINDS for name, table in kind.tables.items()}
    variant = create_model("VariantTable", __base__=VariantTable, **_optional(of_variant))
    fields = {"variant": (tuple[variant, ...], ()), **_optional(of_study)}  # type: ignore[valid-type]
    return create_model("StudyFile", __base__=StudyFile, **fields)


def _optional(tables: Mapping[str, type[StudyTable]]) -> dict[str, Any]:
    return {name: (table | None, None) for name, table in tables.items()}


def read_study_file(path: Path, pg: Sequence[str] | None = None) -> StudyFile:
    """Read and check a study file. Raises StudyError naming file, line and key.

    ``pg``: check settings, too, for these installs, or without any for the study's own.
    """
    text, read = read_toml(path, f'study file "{path}"', StudyError)
    data = _with_workload(read)
    return check_study(data, str(path), text, mistakes_in(data, path.parent, pg))


def _with_workload(data: dict[str, Any]) -> dict[str, Any]:
    """The study with a workload of its kind's name, where it has none and its kind would take but a name."""
    if "workload" in data:
        return data
    nouns = [
        half.kind.noun
        for half in KINDS
        if not half.takes_workload and any(name in data for name in half.tables)
    ]
    return {**data, "workload": [{"name": nouns[0]}]} if nouns else data


def check_study(
    data: dict[str, Any], where: str, text: str = "", further: Sequence[Mistake] = ()
) -> StudyFile:
    """Check a study that was read from TOML, or made from options, which have no ``text``.

    ``further`` are mistakes that its tables do not show. Raises StudyError listing every mistake.
    """
    found: list[Mistake] = list(further)
    try:
        study = study_model().model_validate(data)
    except ValidationError as error:
        found = [(problem["loc"], _complaint(problem)) for problem in _causes(error)] + found
    if not found:
        return study
    count = say_count(len(found), "mistake")
    if not text:
        raise StudyError(
            f"the options of {where} have {count}",
            detail="\n".join(
                f"{key_of(place).removeprefix('workload[1].')}: {wrong}" for place, wrong in found
            ),
        ) from None
    raise StudyError(
        f'study file "{where}" has {count}',
        detail=told(where, text, found),
        hint='"walproof studies NAME" prints a built-in study as an example.',
    ) from None


def _causes(error: ValidationError) -> list[dict[str, Any]]:
    """The mistakes, without "too few tables" where the tables that there are have mistakes of their own."""
    problems = error.errors()

    def is_inside(loc: Place, outer: Place) -> bool:
        return len(loc) > len(outer) and loc[: len(outer)] == outer

    return [
        dict(problem)
        for problem in problems
        if problem["type"] != "too_short" or not any(is_inside(p["loc"], problem["loc"]) for p in problems)
    ]


def _complaint(problem: Mapping[str, Any]) -> str:
    meant = _meant(problem["loc"]) if problem["type"] == "extra_forbidden" else ""
    return complaint(problem) + meant


def _meant(loc: Place) -> str:
    """What else may stand where that key does: the nearest, or all."""
    table: type[BaseModel] | None = study_model()
    for part in loc[:-1]:
        if isinstance(part, str) and table is not None:
            field = table.model_fields.get(part)
            table = None if field is None else _table_in(field.annotation)
    if table is None:
        return ""
    known = sorted(table.model_fields)
    near = difflib.get_close_matches(str(loc[-1]), known, 1)
    return f'; is "{near[0]}" meant?' if near else f"; known are {', '.join(known)}"


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """The table that a field holds, alone or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_table_in, get_args(annotation))), None)

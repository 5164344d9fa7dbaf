"""Reading a study file: every mistake is reported with file, line and key."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError, create_model

from walproof.errors import StudyError
from walproof.lab.kinds.registry import KINDS
from walproof.lab.mistakes import Mistake, Place, mistakes_in
from walproof.lab.studyfile import StudyFile, StudyTable, VariantTable
from walproof.sentences import say_count


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
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(
            f'could not read study file "{path}"', detail=getattr(error, "strerror", None) or str(error)
        ) from error
    try:
        data = _with_workload(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f'study file "{path}" is not valid TOML', detail=str(error)) from error
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
                f"{_key(place).removeprefix('workload[1].')}: {complaint}" for place, complaint in found
            ),
        ) from None
    lines = [(line_of(text, place), _key(place), complaint) for place, complaint in found]
    raise StudyError(
        f'study file "{where}" has {count}',
        detail="\n".join(
            f"{where}:{line}: {key}: {complaint}" if line else f"{where}: {key}: {complaint}"
            for line, key, complaint in sorted(lines, key=lambda found: found[0] or 0)
        ),
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


def line_of(text: str, loc: Place) -> int | None:
    """Line (from 1) of the key at ``loc`` in TOML text, as far as a plain reading of it can tell."""
    lines = text.splitlines()
    start, found = 0, None
    for position, part in enumerate(loc):
        if isinstance(part, int):
            continue
        index = loc[position + 1] if position + 1 < len(loc) else None
        count = index if isinstance(index, int) else 0
        path = ".".join(str(word) for word in loc[: position + 1] if isinstance(word, str))
        header = re.compile(rf"\s*\[\[?\s*(?:{re.escape(path)}|{re.escape(part)})\s*\]\]?")
        key = re.compile(rf'(?:.*[{{,])?\s*"?{re.escape(part)}"?\s*=')
        headers = [n for n in range(start, len(lines)) if header.match(lines[n])]
        keys = [n for n in range(start, len(lines)) if key.match(lines[n])]
        # The last part may be a key that is called like a table further down.
        is_key = position + 1 == len(loc) and bool(keys)
        if len(headers) > count and not (is_key and keys[0] < headers[count]):
            start = found = headers[count]
        elif keys:
            start = found = keys[0]
    return None if found is None else found + 1


def _key(loc: Place) -> str:
    text = ""
    for part in loc:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _complaint(error: dict[str, Any]) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        return f"no such key{_meant(error['loc'])}"
    if kind == "missing":
        return "this key is missing"
    if kind == "too_short":
        return f"expected at least {error['ctx']['min_length']}"
    message = str(error["msg"]).removeprefix("Value error, ")
    got = error.get("input")
    if kind in ("int_type", "float_type") and isinstance(got, str):
        message = "should be a number, without quotes"
    elif kind == "tuple_type":
        such_as = f", such as [{json.dumps(got, ensure_ascii=False)}]" if isinstance(got, (str, int)) else ""
        message = f"should be a list{such_as}"
    elif kind == "string_type":
        message = "should be a text, in quotes"
    return f"{message}, got {got!r}" if isinstance(got, (str, int, float)) else message


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

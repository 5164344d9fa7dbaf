"""TOML files that people write: how they are read, and how their mistakes are told."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from walproof.errors import UnitError, WalproofError
from walproof.files import reason
from walproof.units import parse_duration_s

Place: TypeAlias = tuple[int | str, ...]
"""Keys and indexes that lead to what is wrong, from the file's top."""
Mistake: TypeAlias = tuple[Place, str]


def read_toml(
    path: Path, called: str, error: type[WalproofError], *, hint: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Text and tables of a file, which is ``called`` so in messages.

    Raises ``error``, with the ``hint`` where there is no text.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise error(f"could not read {called}", detail=reason(problem), hint=hint) from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise error(f"{called} is not valid TOML", detail=str(problem)) from None


def seconds_of(value: object, *, above_zero: bool = False) -> float:
    """A duration as it is typed: a number, or a text with a unit. Raises ValueError, for pydantic."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise ValueError('expected a duration such as "10s" or "2min"')  # noqa: TRY004 - for pydantic
    try:
        seconds = parse_duration_s(value)
    except UnitError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    if seconds < 0:
        raise ValueError("a duration cannot be negative")
    if above_zero and seconds == 0:
        raise ValueError("a duration has to be above zero")
    return seconds


def told(where: str, text: str, mistakes: Sequence[Mistake]) -> str:
    """Each mistake of the file ``where`` with line and key, in the order of the lines of its ``text``."""
    lines = [(line_of(text, place), key_of(place), wrong) for place, wrong in mistakes]
    return "\n".join(
        f"{where}:{line}: {key}: {wrong}" if line else f"{where}: {key}: {wrong}"
        for line, key, wrong in sorted(lines, key=lambda found: found[0] or 0)
    )


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


def key_of(place: Place) -> str:
    """The place as people write it: ``workload[2].scale``."""
    text = ""
    for part in place:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the file"


def complaint(problem: Mapping[str, Any], secrets: Collection[str] = ()) -> str:
    """What pydantic complains of, in words for TOML. No value of a key among the ``secrets`` is repeated."""
    kind, got = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        return "no such key"
    if kind == "missing":
        return "this key is missing"
    if kind == "too_short":
        return f"expected at least {problem['ctx']['min_length']}"
    is_plain = isinstance(got, (str, int, float)) and not any(part in secrets for part in problem["loc"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    if kind in ("int_type", "float_type") and isinstance(got, str):
        message = "should be a number, without quotes"
    elif kind == "tuple_type":
        such_as = f", such as [{json.dumps(got, ensure_ascii=False)}]" if is_plain else ""
        message = f"should be a list{such_as}"
    elif kind == "string_type":
        message = "should be a text, in quotes"
    return f"{message}, got {got!r}" if is_plain else message

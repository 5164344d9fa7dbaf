"""JSON to dataclasses, each value checked: a file may be a stranger's, or damaged.

A dataclass is an object, a tuple is an array, ``Mapping[str, X]`` is an object of any keys, an :class:`Lsn`
is its text. Keys that a dataclass does not know are passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from walproof.errors import UnitError
from walproof.units import Lsn

_WHOLE = range(-(2**63), 2**64)
_LARGEST = 1e300
_SHOWN = 40
"""Characters of a wrong value that are shown."""

T = TypeVar("T")


def checked(kind: type[T], value: object, where: str = "") -> T:
    """The value as ``kind``. Raises ValueError with its place (``positions[3].at``), what was expected and
    what was got."""
    made: T = _checked(kind, value, where)
    return made


def parsed(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also where it is nested deeper than Python follows."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def is_version(text: str) -> bool:
    """Whether a text from elsewhere is a server's version: ``18.4``, ``19rc1``, ``16.3.1``."""
    return re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,4})*[a-z0-9]{0,10}", text) is not None


def _checked(kind: Any, value: object, where: str) -> Any:
    origin = get_origin(kind)
    if is_dataclass(kind):
        return _object(kind, value, where)
    if origin is UnionType:
        (inner,) = (option for option in get_args(kind) if option is not NoneType)
        return None if value is None else _checked(inner, value, where)
    if origin is tuple:
        item, _ = get_args(kind)
        return tuple(
            _checked(item, each, f"{where}[{number}]")
            for number, each in enumerate(_expected(list, "an array", value, where))
        )
    if origin is Mapping:
        _, item = get_args(kind)
        table = _expected(dict, "an object", value, where)
        return {key: _checked(item, each, f"{where}.{key[:_SHOWN]}") for key, each in table.items()}
    if kind is Lsn:
        return _lsn(_expected(str, "an LSN", value, where), where)
    if kind is float:
        return _number(value, where)
    if kind is int:
        whole: int = _expected(int, "a whole number", value, where)
        if whole not in _WHOLE:
            raise _wrong("a whole number of 64 bits", value, where)
        return whole
    return _expected(kind, {str: "a text", bool: "true or false"}[kind], value, where)


def _object(kind: Any, value: object, where: str) -> Any:
    table = _expected(dict, "an object", value, where)
    made = {}
    for field in fields(kind):
        place = f"{where}.{field.name}" if where else field.name
        if field.name in table:
            made[field.name] = _checked(_hints(kind)[field.name], table[field.name], place)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{place} is missing")
    return kind(**made)


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _number(value: object, where: str) -> float:
    # Python's JSON would also read NaN, infinity, and whole numbers beyond any float.
    if type(value) not in (int, float) or not abs(value) <= _LARGEST:  # type: ignore[arg-type]
        raise _wrong("a number", value, where)
    return float(value)  # type: ignore[arg-type]


def _lsn(text: str, where: str) -> Lsn:
    try:
        return Lsn.parse(text)
    except UnitError:
        raise _wrong("an LSN", text, where) from None


def _expected(kind: type, noun: str, value: object, where: str) -> Any:
    # A bool is an int for isinstance.
    if type(value) is not kind:
        raise _wrong(noun, value, where)
    return value


def _wrong(noun: str, value: object, where: str) -> ValueError:
    kind = {dict: "an object", list: "an array", NoneType: "null"}.get(type(value))
    return ValueError(f"{where or 'the file'}: expected {noun}, got {kind or repr(value)[:_SHOWN]}")

"""Makes dataclasses of what the native module tells by name.

A Rust struct that is declared with ``named_fields!`` (crates/walproof-wal/src/fields.rs) arrives as a dict of
all its fields; here it becomes the dataclass that has the same fields. Neither is listed anywhere else, so a
difference in a name or a type is found here, with the first value: then the native module was built from
other sources than the Python files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from walproof.units import Lsn

Told = TypeVar("Told")


class FieldMismatch(AssertionError):
    """The native module and a dataclass do not have the same fields: a defect of walproof."""


def from_native(kind: type[Told], told: Mapping[str, Any]) -> Told:
    """The dataclass whose fields are told by name, with dataclasses in it.

    A value that is already a dataclass stays as it is; a whole number may stand for a float or an Lsn, and a
    list for a tuple. Raises FieldMismatch, but never because of what is in a recording."""
    hashable: Any = kind  # which mypy does not see of a type
    readers = _readers(hashable)
    if readers.keys() != told.keys():
        missing, unknown = sorted(readers.keys() - told.keys()), sorted(told.keys() - readers.keys())
        raise FieldMismatch(
            f"{kind.__name__}: the native module does not tell {', '.join(missing) or 'more'}"
            if not unknown
            else f"{kind.__name__} has no field {', '.join(unknown)}, which the native module tells"
        )
    return kind(**{name: readers[name](told[name]) for name in readers})


@cache
def _readers(kind: type[Any]) -> Mapping[str, Callable[[Any], Any]]:
    """The function that reads the value of each field."""
    assert is_dataclass(kind), kind
    hints = get_type_hints(kind)
    return {field.name: _reader(f"{kind.__name__}.{field.name}", hints[field.name]) for field in fields(kind)}


def _reader(name: str, hint: Any) -> Callable[[Any], Any]:
    """The function that reads a value of that type. A type that no told value has is a defect, too."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and len(parts) == 2 and NoneType in parts:
        (part,) = (part for part in parts if part is not NoneType)
        read = _reader(name, part)
        return lambda value: None if value is None else read(value)
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        read = _reader(name, parts[0])
        return lambda value: tuple(map(read, _checked(name, value, list, tuple)))
    if origin is Mapping:
        read_key, read = _reader(name, parts[0]), _reader(name, parts[1])
        return lambda value: {read_key(key): read(each) for key, each in _checked(name, value, dict).items()}
    if origin is Literal:
        return lambda value: value if value in parts else _refuse(name, value)
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: (
            value if isinstance(value, hint) else from_native(hint, _checked(name, value, dict))
        )
    if hint is Lsn:
        return lambda value: Lsn(_checked(name, value, int, Lsn))
    if hint is float:
        return lambda value: float(_checked(name, value, int, float))
    assert hint in (bool, int, str), f"{name}: {hint}"
    return lambda value: _checked(name, value, hint)


def _checked(name: str, value: Any, *kinds: type[Any]) -> Any:
    # True is an int for isinstance.
    return value if type(value) in kinds else _refuse(name, value)


def _refuse(name: str, value: Any) -> Any:
    raise FieldMismatch(f"{name}: the native module tells a {type(value).__name__}, {value!r}")

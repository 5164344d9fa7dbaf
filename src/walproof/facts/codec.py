"""Facts to JSON and back, by their types alone; also the hash that identifies a plan."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from walproof.errors import StoreError
from walproof.facts.plan import Plan

T = TypeVar("T")


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def to_json(fact: object) -> str:
    """JSON text of a fact, keys in the order of the class."""
    kind: Any = type(fact)
    return _adapter(kind).dump_json(fact).decode()


def to_data(fact: object) -> dict[str, Any]:
    """A fact as plain dictionaries, lists, strings and numbers."""
    kind: Any = type(fact)
    return cast("dict[str, Any]", _adapter(kind).dump_python(fact, mode="json"))


def from_json(cls: type[T], text: str) -> T:
    """The fact of class ``cls`` in ``text``. Raises StoreError."""
    try:
        return cast("T", _adapter(cast("Any", cls)).validate_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        raise StoreError(
            f"stored {cls.__name__.lower()} cannot be read",
            detail=f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            hint="It was written by another version of walproof; use that version, or another store.",
        ) from error


_NOTED = {"notes", "same"}
"""Fields of a plan that say something about it and change no trial."""


def measured_json(plan: Plan) -> str:
    """JSON text of what a plan measures: all but what is noted of it."""
    return _adapter(cast("Any", type(plan))).dump_json(plan, exclude=_NOTED).decode()


def plan_hash(plan: Plan) -> str:
    """64 hexadecimal digits that change whenever a trial of the plan would mean something else."""
    # What is noted of a plan changes no trial.
    data = {name: value for name, value in to_data(plan).items() if name not in _NOTED}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

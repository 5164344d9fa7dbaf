"""Whether JSON that was printed is what its published schema says, with no key that the schema leaves out."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from bench.ship.schemas import closed, schema


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(closed(schema(name)))


def assert_valid(name: str, data: Any) -> None:
    """``name`` as in ``bench.ship.schemas.OUTPUTS``."""
    problems = [f"{error.json_path}: {error.message[:300]}" for error in _validator(name).iter_errors(data)]
    assert problems == [], f"{name}: {problems[:5]}"

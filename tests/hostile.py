"""JSON that somebody changed: keys gone or doubled, and values that no program of ours writes."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.cli.command import walproof

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**30, 10**400, 1e308, -1e308, 0.5, float("nan"),
    float("inf"), "", "x", "0/0", "0/FFFFFFFFFFFFFFFF", "1/", "-1", "٣", "²", "\x00", "a\nb\x1b[31m", "on",
    "99999999999999999999GB", "1970-01-01", "x" * 5000, [], {}, [[]], {"a": 1}, [None, None, None],
)  # fmt: skip
DEEP = "[" * 100_000
"""More than Python's JSON follows."""


def places(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a value stands, the outermost first."""
    yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from places(value, (*path, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from places(value, (*path, number))


def changed(data: Any, chance: random.Random) -> Any:
    """A copy with one or two changes."""
    data = copy.deepcopy(data)
    for _ in range(chance.choice((1, 1, 1, 2))):
        inner = [place for place in places(data) if place]
        if not inner:
            break
        *outer, last = chance.choice(inner)
        at: Any = data
        for key in outer:
            at = at[key]
        what = chance.random()
        if what < 0.12:
            del at[last]
        elif what < 0.16 and isinstance(at, list):
            at.append(at[last])  # type: ignore[index]
        else:
            at[last] = chance.choice(VALUES)
    return data


def check(
    path: Path,
    data: Any,
    commands: Sequence[tuple[str, ...]],
    cwd: Path,
    count: int,
    text_of: Callable[[Any], str] = json.dumps,
) -> None:
    """Each command on the file as it was, then one after the other on changed ones: a result or an error, and
    never a defect of ours. Some have to be refused, or else the changes say nothing. The changes are the same
    each time, and others for each WALPROOF_TEST_SEED (`make check-long`)."""
    chance = random.Random(f"{path.name}{os.environ.get('WALPROOF_TEST_SEED', '')}")
    statuses = []
    whole = [text_of(data)] * len(commands)
    texts = [text_of(changed(data, chance)) for _ in range(count)]
    for number, text in enumerate([*whole, *texts, DEEP, "[]", "5", '"x"', "", "\x00"]):
        path.unlink(missing_ok=True)  # it may be a link to what other tests read
        path.write_text(text)
        done = walproof(*commands[number % len(commands)], cwd=cwd, timeout_s=60)
        assert done.returncode in (0, 1, 2), f"{text[:2000]}\n{done.stderr}"
        assert "unexpected" not in done.stderr, f"{text[:2000]}\n{done.stderr}"
        assert number >= len(commands) or done.returncode == 0, done.stderr
        statuses.append(done.returncode)
    assert any(statuses)

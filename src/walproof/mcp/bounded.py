"""Answers of bounded size: what is left out is said, with the place where the rest begins.

A model has little room. Of an answer that is too long the largest lists, texts and tables are cut, the
largest first; each cut says where it is (a JSON pointer, RFC 6901), how much is shown, and of how much.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from walproof.errors import SettingError

MOST_BYTES = 32 << 10
"""Of a result as JSON: about 10,000 tokens."""
_TEXT_LEAST = 400
"""A shorter text is not cut."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A list, text or object of which a part is shown."""

    at: str
    first: int
    """Index of the first item or character that is not shown."""
    of: int


def size(value: object) -> int:
    """Bytes as JSON."""
    return len(dumped(value).encode())


def dumped(value: object) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def bounded(value: Any, most: int = MOST_BYTES, at: str = "", first: int = 0) -> tuple[Any, tuple[Cut, ...]]:
    """The value from its item ``first`` on, in at most ``most`` bytes, and what is left out.

    ``at`` is where the value stands in the whole answer.
    """
    shown = _Node(at, value, most, first)
    while (excess := shown.bytes - most) > 0:
        candidates = [node for node in shown.nodes() if node.can_be_cut]
        if not candidates:
            break
        # An object is taken apart only where nothing else can be: its keys say what it is.
        rank = min(candidate.rank for candidate in candidates)
        max(
            (candidate for candidate in candidates if candidate.rank == rank),
            key=lambda candidate: candidate.bytes,
        ).cut(excess)
        shown.measure()
    return shown.plain(), tuple(node.as_cut() for node in shown.nodes() if node.is_cut)


def found_at(value: Any, pointer: str) -> Any:
    """The part of an answer that a pointer names. Raises SettingError."""
    found = value
    for word in pointer.split("/")[1:] if pointer else []:
        key = word.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise SettingError(
                f'the answer has nothing at "{pointer}"', hint='Take "at" from its "left_out".'
            ) from None
    if pointer and not pointer.startswith("/"):
        raise SettingError(f'"{pointer}" is not a place in an answer', hint='Take "at" from its "left_out".')
    return found


class _Node:
    """A value whose beginning is shown."""

    def __init__(self, at: str, value: Any, most: int, first: int = 0) -> None:
        """Of a list or text no more than ``most`` bytes are looked at: more cannot be shown."""
        self.at, self._first = at, first
        self._children: list[_Node] = []
        self._keys: list[str] | None = None
        self._text: str | None = None
        self._value = value
        if isinstance(value, str):
            self._text = value[first : first + most]
            self._of = len(value)
        elif isinstance(value, list):
            left = most
            for i in range(first, len(value)):
                if left <= 0:
                    break
                self._children.append(_Node(f"{at}/{i}", value[i], most))
                left -= self._children[-1].bytes
            self._of = len(value)
        elif isinstance(value, dict):
            items = list(value.items())[first:]
            self._keys = [key for key, _ in items]
            self._children = [_Node(f"{at}/{_pointer_key(key)}", member, most) for key, member in items]
            self._of = len(value)
        else:
            self._of = 0
        self.measure()

    @property
    def rank(self) -> int:
        """Lists and texts are cut before objects."""
        return 0 if self._keys is None else 1

    @property
    def can_be_cut(self) -> bool:
        """Whether a part of it can be left out."""
        return len(self._text) > _TEXT_LEAST if self._text is not None else len(self._children) > 1

    @property
    def is_cut(self) -> bool:
        """Whether its end is left out."""
        return self._first + self._shown < self._of

    @property
    def _shown(self) -> int:
        return len(self._text) if self._text is not None else len(self._children)

    def nodes(self) -> Iterator[_Node]:
        """The node and all nodes below it."""
        yield self
        for child in self._children:
            yield from child.nodes()

    def measure(self) -> None:
        """Count the bytes of what is shown now."""
        if self._text is not None:
            self.bytes = size(self._text)
        elif isinstance(self._value, (list, dict)):
            for child in self._children:
                child.measure()
            keys = sum(size(key) + 1 for key in self._keys or ())
            self.bytes = 2 + sum(child.bytes + 1 for child in self._children) + keys
        else:
            self.bytes = size(self._value)

    def cut(self, excess: int) -> None:
        """Leave out the excess, at most half of the node."""
        share = max(0.5, 1 - excess / max(1, self.bytes))
        if self._text is None:
            left = max(1, min(len(self._children) - 1, int(len(self._children) * share)))
            self._children = self._children[:left]
            self._keys = None if self._keys is None else self._keys[:left]
        else:
            left = max(_TEXT_LEAST, min(len(self._text) - 1, int(len(self._text) * share)))
            # At the end of a line, if one is near.
            line = self._text.rfind("\n", left * 3 // 4, left)
            self._text = self._text[: left if line < 0 else line + 1]

    def plain(self) -> Any:
        """What is shown."""
        if self._text is not None:
            return self._text
        children = [child.plain() for child in self._children]
        if self._keys is not None:
            return dict(zip(self._keys, children, strict=True))
        return children if isinstance(self._value, list) else self._value

    def as_cut(self) -> Cut:
        """What is left out of it."""
        return Cut(self.at, self._first + self._shown, self._of)


def _pointer_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")

"""Answers that were too long, kept for whoever asks for the rest."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from walproof.errors import SettingError
from walproof.mcp.bounded import size

_MOST = 16
_MOST_BYTES = 64 << 20


class Kept:
    """The newest answers, in memory, up to a number and a size."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._count = 0

    def keep(self, result: Any) -> str | None:
        """Its name; None where it is too large to be kept."""
        bytes_ = size(result)
        if bytes_ > _MOST_BYTES:
            return None
        with self._lock:
            self._count += 1
            name = f"answer-{self._count}"
            self._answers[name] = (result, bytes_)
            while len(self._answers) > _MOST or sum(n for _, n in self._answers.values()) > _MOST_BYTES:
                self._answers.popitem(last=False)
            return name

    def get(self, name: str) -> Any:
        """Raises SettingError when it is not kept."""
        with self._lock:
            if name not in self._answers:
                raise SettingError(
                    f'answer "{name}" is not kept',
                    detail=f"The newest {_MOST} long answers are: {', '.join(self._answers) or 'none now'}.",
                    hint="Call the tool again.",
                )
            self._answers.move_to_end(name)
            return self._answers[name][0]

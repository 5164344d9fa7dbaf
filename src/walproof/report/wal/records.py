"""Records as text with the names of their relations, after the numbers that WAL has for them. A line is what
pg_waldump prints, plus the name in parentheses; a block of a JSON object has one more key.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from walproof.report.plaintext import one_line
from walproof.wal import RelationMap

# As crates/walproof-wal/src/line.rs writes them; neither holds any text of the WAL's own.
_IN_TEXT = re.compile(r"(blkref #\d+: rel (\d+)/(\d+)/(\d+))")
_IN_JSON = re.compile(r'("tablespace":(\d+),"database":(\d+),"relation":(\d+))')


class RecordNames:
    """Puts the names of a map into lines of records."""

    def __init__(self, names: RelationMap) -> None:
        self._labels = {place: relation.label for place, relation in names.by_place().items()}

    def put_into(self, lines: str, style: Literal["line", "blocks", "json"]) -> str:
        """The lines (those of `walproof.wal.lines` in that style) with each name that is known.

        In text after the numbers, on the same line whatever is in it; in JSON as ``relation_name``, null for
        a relation that is not in the map.
        """
        return _IN_JSON.sub(self._key, lines) if style == "json" else _IN_TEXT.sub(self._words, lines)

    def _label(self, found: re.Match[str]) -> str | None:
        return self._labels.get((int(found[2]), int(found[3]), int(found[4])))

    def _words(self, found: re.Match[str]) -> str:
        label = self._label(found)
        return found[1] if label is None else f"{found[1]} ({one_line(label)})"

    def _key(self, found: re.Match[str]) -> str:
        return f'{found[1]},"relation_name":{json.dumps(self._label(found))}'

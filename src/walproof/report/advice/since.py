"""What has changed since earlier advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walproof.advise.server.advice import Advice
from walproof.checked import parsed
from walproof.errors import ReportError
from walproof.report.advice.json import FORMAT


@dataclass(frozen=True, slots=True)
class Since:
    """Earlier advice beside the present one, by rule."""

    dateline: str
    """Dateline of the earlier advice."""
    new: tuple[str, ...]
    """Titles of new advice."""
    still: tuple[str, ...]
    """Titles of advice that still stands."""
    gone: tuple[str, ...]
    """Titles of advice that is no longer given."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences for the answer; what is empty is left out."""
        told = [f"Compared with the advice of: {self.dateline}."]
        for words, titles in (
            ("New", self.new),
            ("Still open", self.still),
            ("No longer advised", self.gone),
        ):
            if titles:
                told.append(f"{words}: {'; '.join(titles)}.")
        return tuple(told)


def since(path: Path, advice: Sequence[Advice]) -> Since:
    """Compare with a file that ``--json`` wrote. Raises ReportError."""
    before = _read(path)
    earlier = {str(item["rule"]): str(item["title"]) for item in before["advice"]}
    now = {item.rule: item.title for item in advice}
    return Since(
        str(before["dateline"]),
        tuple(title for rule, title in now.items() if rule not in earlier),
        tuple(title for rule, title in now.items() if rule in earlier),
        tuple(title for rule, title in earlier.items() if rule not in now),
    )


def _read(path: Path) -> dict[str, Any]:
    hint = '"walproof advise --json > FILE" writes one.'
    try:
        data = parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(
            f'could not read earlier advice from "{path}"', detail=str(error), hint=hint
        ) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ReportError(f'"{path}" holds no advice of this version of walproof', hint=hint)
    rows = data.get("advice")
    is_whole = isinstance(data.get("dateline"), str) and isinstance(rows, list)
    if not is_whole or not all(isinstance(row, dict) and {"rule", "title"} <= set(row) for row in rows or ()):
        raise ReportError(
            f'"{path}" is not complete advice', detail="It lacks dateline, rule or title.", hint=hint
        )
    return data

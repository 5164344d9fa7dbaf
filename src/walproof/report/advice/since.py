"""What has changed since earlier advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walproof.advise.server.advice import Advice
from walproof.checked import parsed
from walproof.errors import ReportError
from walproof.report.advice.json import FORMAT

_HINT = '"walproof advise --json > FILE" writes one.'


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


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier answer about one server."""

    dateline: str
    titles: Mapping[str, str]
    """Rule -> title of its advice."""


def earlier_of_one(path: Path) -> Earlier:
    """What ``--json`` wrote of one server. Raises ReportError."""
    data = _read(path)
    if "servers" in data:
        raise ReportError(
            f'"{path}" holds advice on several servers', hint="Name these servers, or a file of one."
        )
    return _earlier(path, data)


def earlier_of_several(path: Path) -> Mapping[str, Earlier]:
    """What ``--json`` wrote of several: name -> answer, of those that were looked at. Raises ReportError."""
    rows = _read(path).get("servers")
    if rows is None:
        raise ReportError(
            f'"{path}" holds advice on one server', hint="Name that server alone, or a file of several."
        )
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "name" in row for row in rows):
        raise ReportError(f'"{path}" is not complete advice', detail="It lacks names of servers.", hint=_HINT)
    return {
        str(row["name"]): _earlier(path, row["advice"]) for row in rows if isinstance(row.get("advice"), dict)
    }


def since(earlier: Earlier, advice: Sequence[Advice]) -> Since:
    """Compare with an earlier answer about the same server."""
    before = earlier.titles
    now = {item.rule: item.title for item in advice}
    return Since(
        earlier.dateline,
        tuple(title for rule, title in now.items() if rule not in before),
        tuple(title for rule, title in now.items() if rule in before),
        tuple(title for rule, title in before.items() if rule not in now),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        data = parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(
            f'could not read earlier advice from "{path}"', detail=str(error), hint=_HINT
        ) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ReportError(f'"{path}" holds no advice of this version of walproof', hint=_HINT)
    return data


def _earlier(path: Path, data: dict[str, Any]) -> Earlier:
    rows = data.get("advice")
    is_whole = isinstance(data.get("dateline"), str) and isinstance(rows, list)
    if not is_whole or not all(isinstance(row, dict) and {"rule", "title"} <= set(row) for row in rows or ()):
        raise ReportError(
            f'"{path}" is not complete advice', detail="It lacks dateline, rule or title.", hint=_HINT
        )
    return Earlier(data["dateline"], {str(row["rule"]): str(row["title"]) for row in rows or ()})

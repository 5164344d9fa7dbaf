"""What has changed since earlier advice."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from walproof.advise.server.advice import Advice, Weight
from walproof.checked import parsed
from walproof.errors import ReportError
from walproof.report.advice.json import FORMAT
from walproof.report.advice.view import AdviceView

_HINT = '"walproof advise --json > FILE" writes one.'
_FIGURE = re.compile(r"\d+[kMGT]?B?")


@dataclass(frozen=True, slots=True)
class Since:
    """Earlier advice beside the present one, by rule."""

    dateline: str
    """Dateline of the earlier advice."""
    new: tuple[str, ...]
    """Titles of new advice, and of other or graver advice of the same rule."""
    still: tuple[str, ...]
    """Titles of advice that still stands."""
    gone: tuple[str, ...]
    """Titles of advice that is no longer given."""
    unlooked: tuple[str, ...] = ()
    """Titles of advice of rules that were not asked this time, or could not look."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences for the answer; what is empty is left out."""
        told = [f"Compared with the advice of: {self.dateline}."]
        for words, titles in (
            ("New", self.new),
            ("Still open", self.still),
            ("No longer advised", self.gone),
            ("Not looked at this time", self.unlooked),
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
    weights: Mapping[str, str] = field(default_factory=dict)
    """Rule -> weight of its advice."""


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


def since(earlier: Earlier, advice: Sequence[Advice], unlooked: Collection[str] = ()) -> Since:
    """Compare with an earlier answer about the same server; ``unlooked``: rules that are muted or could not
    look this time. Another piece of advice of the same rule, or a graver one, is new."""
    before = earlier.titles
    still = [item.title for item in advice if item.rule in before and _change(earlier, item) is None]
    new = [
        f"{item.title}{'' if item.rule not in before else _change(earlier, item)}"
        for item in advice
        if item.rule not in before or _change(earlier, item) is not None
    ]
    now = {item.rule for item in advice}
    gone = {rule: title for rule, title in before.items() if rule not in now}
    return Since(
        earlier.dateline,
        tuple(new),
        tuple(still),
        tuple(title for rule, title in gone.items() if rule not in unlooked),
        tuple(title for rule, title in gone.items() if rule in unlooked),
    )


def with_since(
    view: AdviceView, advice: Sequence[Advice], earlier: Earlier, muted: Collection[str]
) -> AdviceView:
    """The view with what has changed: a rule that is muted, or could not look this time, is not gone."""
    unlooked = {rule.rule for rule in view.unseen} | set(muted)
    return replace(view, since=since(earlier, advice, unlooked).sentences)


def _change(earlier: Earlier, item: Advice) -> str | None:
    """How it differs from the rule's earlier advice; None where it does not, but for figures."""
    title = earlier.titles[item.rule]
    if _FIGURE.sub("", item.title) != _FIGURE.sub("", title):
        return f" (before: {title})"
    weights = [weight.value for weight in Weight]
    known = earlier.weights.get(item.rule)
    if known is None or known not in weights or weights.index(item.weight.value) >= weights.index(known):
        return None
    return f" (before: a {known})"


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
    return Earlier(
        data["dateline"],
        {str(row["rule"]): str(row["title"]) for row in rows or ()},
        {str(row["rule"]): str(row["weight"]) for row in rows or () if "weight" in row},
    )

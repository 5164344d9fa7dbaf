"""Advice on several servers at once: which need something, what is advised where, then each server's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from walproof.advise.server.advice import Weight
from walproof.advise.server.drift import Drift, clusters, drifts
from walproof.advise.server.rules import rule_texts
from walproof.facts.server import ServerWindow
from walproof.report.advice.view import AdviceView
from walproof.report.blocks import Block, Column, Paragraph, Section, Table, TableCell, text_cells
from walproof.report.numbers import UNKNOWN
from walproof.sentences import say_count, say_list

_NAMED_MOST = 8
"""Servers that a row names; of more it says how many."""
_DIFFERS = "Where the advice differs from server to server, the rule's question stands for it."


@dataclass(frozen=True, slots=True)
class Member:
    """One server of the fleet: what was seen and advised, or why it was not."""

    name: str
    window: ServerWindow | None = None
    view: AdviceView | None = None
    error: str | None = None
    """Why there is no advice."""
    detail: str | None = None
    """The rest of the error."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """The page of several servers, and what the terminal, Markdown and JSON show of it."""

    members: tuple[Member, ...]

    @property
    def question(self) -> str:
        """The title."""
        return "What should these servers set, what will they gain, what do they risk?"

    @property
    def dateline(self) -> str:
        """How many servers, and how many answered."""
        told = len(self.members) - len(self.failed)
        of_all = say_count(len(self.members), "server")
        return f"{of_all} · advice on {told}" if self.failed else of_all

    @property
    def summary(self) -> str:
        """How many servers need something, and which could not be looked at."""
        views = {member.name: member.view for member in self.members if member.view is not None}
        busy = [name for name, view in views.items() if view.items]
        danger = [name for name, view in views.items() if _count(view, Weight.DANGER)]
        of = say_count(len(views), "server")
        told = []
        if views:
            told.append(f"{len(busy)} of {of} {'has' if len(busy) == 1 else 'have'} something to change.")
        if danger:
            told.append(f"Danger: {_named(danger)}.")
        if self.failed:
            told.append(f"No advice on {_named([member.name for member in self.failed])}.")
        return " ".join(told)

    @property
    def failed(self) -> tuple[Member, ...]:
        """Servers without advice."""
        return tuple(member for member in self.members if member.view is None)

    @property
    def overview(self) -> Section:
        """The answer for all of them together."""
        tables = [self._servers()]
        if advised := self._advised():
            tables.append(advised)
        return Section("answer", "Answer", (Paragraph(self.summary, terminal=True), *tables, *self._drift()))

    @property
    def sections(self) -> tuple[Section, ...]:
        """The overview, then the sections of each server, with its name before their titles."""
        found = [self.overview]
        for place, member in enumerate(self.members, 1):
            if member.view is None:
                continue
            answer, *others = member.view.sections
            blocks = (Paragraph(member.view.dateline), *answer.blocks)
            found.append(Section(_place(place), member.name, blocks))
            found += [
                replace(section, id=f"{_place(place)}-{section.id}", title=f"{member.name}: {section.title}")
                for section in others
            ]
        return tuple(found)

    def _servers(self) -> Table:
        columns = (
            Column("server", whole_most=32), Column("PostgreSQL"), Column("danger", numeric=True),
            Column("gain", numeric=True), Column("evidence", numeric=True),
            Column("first of all", whole_most=44),
        )  # fmt: skip
        rows = []
        for place, member in enumerate(self.members, 1):
            if member.view is None or member.window is None:
                rows.append(text_cells((member.name, *(UNKNOWN,) * 4, f"no advice: {member.error}")))
                continue
            counts = (str(_count(member.view, weight)) for weight in Weight)
            first = member.view.items[0].advice.title if member.view.items else "nothing to change"
            role = ", standby" if member.window.is_in_recovery else ""
            name = TableCell(member.name, section=_place(place))
            rows.append((name, *text_cells((f"{member.window.version}{role}", *counts, first))))
        return Table("Servers", columns, tuple(rows))

    def _advised(self) -> Table | None:
        """What is advised, and on which servers: the gravest first, then what most of them need."""
        found: dict[str, list[tuple[str, str, Weight]]] = {}
        for member in self.members:
            for item in () if member.view is None else member.view.items:
                advice = item.advice
                found.setdefault(advice.rule, []).append((member.name, advice.title, advice.weight))
        if not found:
            return None
        weights = list(Weight)

        def order(rule: str) -> tuple[int, int]:
            return min(weights.index(weight) for _, _, weight in found[rule]), -len(found[rule])

        columns = (
            Column("what to do", whole_most=44), Column("weight"), Column("servers", whole_most=40),
        )  # fmt: skip
        rows, note = [], None
        for rule in sorted(found, key=order):
            titles = {title for _, title, _ in found[rule]}
            present = {weight for _, _, weight in found[rule]}
            if len(titles) == 1:
                what = titles.pop()
            else:
                what, note = f"{rule}: {rule_texts()[rule].question}", _DIFFERS
            said = say_list([weight.value for weight in weights if weight in present])
            rows.append(text_cells((what, said, _named([name for name, _, _ in found[rule]]))))
        return Table("What is advised, and where", columns, tuple(rows), note=note)

    @property
    def drift(self) -> tuple[Drift, ...]:
        """Settings that differ between servers of one cluster."""
        windows = {member.name: member.window for member in self.members if member.window is not None}
        return tuple(drift for cluster in clusters(windows) for drift in drifts(cluster))

    def _drift(self) -> list[Block]:
        rows = [
            text_cells((drift.name, ", ".join(f"{name} {value}" for name, value in drift.values.items())))
            for drift in self.drift
        ]
        if not rows:
            return []
        columns = (Column("setting", whole_most=40), Column("values", whole_most=56))
        text = (
            f"{say_count(len(rows), 'setting')} {'differs' if len(rows) == 1 else 'differ'} between servers "
            "of one cluster. Streaming copies no settings: after a failover those of the new primary hold."
        )
        table = Table("Settings that differ within a cluster", columns, tuple(rows))
        return [Paragraph(text, terminal=True), table]


def _place(number: int) -> str:
    return f"server-{number}"


def _count(view: AdviceView, weight: Weight) -> int:
    return sum(item.advice.weight is weight for item in view.items)


def _named(names: Sequence[str]) -> str:
    if len(names) <= _NAMED_MOST:
        return say_list(list(names))
    shown = _NAMED_MOST - 1
    return f"{', '.join(names[:shown])} and {len(names) - shown} others"

"""Advice laid out for reading: what to change and why, what is fine, what was not seen, lines to paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from walproof.advise.server.advice import Absent, Advice, AdvisedFigure, Fine, Sure, Unseen, Weight
from walproof.advise.server.rules import Advised, rule_texts
from walproof.advise.server.wasted import statistics_age
from walproof.errors import SettingError, UnitError
from walproof.facts.server import ServerWindow
from walproof.platforms.platform import Lines, Platform, PlatformTarget, Refusal
from walproof.platforms.recognised import Chosen
from walproof.platforms.wal_access import wal_access
from walproof.report.advice.curve import curve_json, curve_section
from walproof.report.blocks import (
    Block,
    Column,
    Listing,
    Paragraph,
    Section,
    Table,
    TableCell,
    class_cell,
    text_cells,
)
from walproof.report.numbers import UNKNOWN, number, percent
from walproof.report.plaintext import addresses
from walproof.sentences import say_list
from walproof.settings.catalogue import Catalogue
from walproof.settings.change import Before, Change
from walproof.units import format_bytes, format_duration, parse_duration_s

_TIMES_FROM = 10
"""From here on a change is told as a factor: nobody sees at once that +25500 % are 256 times."""
_LONG = 10_000
"""From here on digits stand in groups."""
_ENDINGS = {Weight.DANGER: "dangerous", Weight.GAIN: "a gain", Weight.EVIDENCE: "missing evidence"}


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of advice, with the platform's answer to it."""

    advice: Advice
    context: str
    """``reload``, ``restart``, ...; empty without a setting."""
    lines: Lines | None
    refusals: tuple[Refusal, ...]
    before: Mapping[str, str]
    """The present value of each setting that changes; unknown values are left out."""
    surer: str | None = None
    """How to be surer, where the advice is sure to a low degree."""

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the platform takes none of its changes, and there is nothing else to run."""
        is_refused = bool(self.advice.changes) and self.lines is None
        return is_refused and all(step.startswith("--") for step in self.advice.steps)

    @property
    def is_unlisted(self) -> bool:
        """Whether the platform may take some of it, and walproof has no line for that."""
        return any(refusal.is_unlisted for refusal in self.refusals)

    @property
    def takes_effect_by(self) -> str:
        """What the lines need to take effect: settings that a session may change are also written for the
        server."""
        if not self.context:
            return "-"
        return "restart" if "restart" in self.context else "reload"


@dataclass(frozen=True, slots=True)
class AdviceView:
    """The page, and what the terminal, Markdown and JSON show of it."""

    question: str
    dateline: str
    summary: str
    items: tuple[Item, ...]
    all_lines: Lines | None
    """Lines for all settings together; None if none changes."""
    fine: tuple[Fine, ...]
    unseen: tuple[Unseen, ...]
    absent: tuple[Absent, ...]
    """Rules that had nothing to look at."""
    notes: tuple[str, ...]
    platform: str
    since: tuple[str, ...] = ()
    """What has changed since an earlier answer, in sentences."""
    curve: Section | None = None
    """WAL and time away over max_wal_size, where WAL was recorded."""
    curve_points: Mapping[str, Any] | None = None
    """The same data for JSON."""
    platform_reason: str = ""
    """Why lines are for this platform, where that is not plain."""

    @property
    def sections(self) -> tuple[Section, ...]:
        """What every renderer shows, in order."""
        found = [
            Section(
                "answer",
                "Answer",
                (
                    *((Paragraph(self.platform_reason, terminal=True),) if self.platform_reason else ()),
                    Paragraph(self.summary, terminal=True),
                    *self._changes(),
                    *self._table(),
                ),
            )
        ]
        found += [
            Section(f"advice-{index}", f"{index}. {item.advice.title}", tuple(_blocks(item)))
            for index, item in enumerate(self.items, 1)
        ]
        if self.curve is not None:
            found.append(self.curve)
        if self.all_lines is not None:
            found.append(Section("lines", f"Lines to paste ({self.platform})", tuple(_lines(self.all_lines))))
        if self.fine:
            fine = _list("Rules that found all well", "what was seen", self.fine)
            found.append(Section("fine", "What is fine", (fine,)))
        if self.unseen or self.absent or self.notes:
            access = wal_access(self.platform)
            links = () if access is None else addresses(access.source)
            blocks: list[Block] = [Paragraph(note, links=links) for note in self.notes]
            if self.unseen:
                blocks.append(_list("Rules that could not look", "why", self.unseen))
            if self.absent:
                blocks.append(Paragraph(f"Nothing to look at for {self.absent_text}."))
            found.append(Section("unseen", "What was not looked at", tuple(blocks)))
        return tuple(found)

    @property
    def absent_text(self) -> str:
        """``slots (there are no replication slots), ...``; empty if every rule had something to look at."""
        return ", ".join(f"{rule.rule} ({rule.reason})" for rule in self.absent)

    def _changes(self) -> list[Paragraph]:
        return [Paragraph(text, terminal=True) for text in self.since]

    def _table(self) -> list[Table]:
        if not self.items:
            return []
        columns = (
            Column("no.", numeric=True), Column("what to do", whole_most=44), Column("weight"),
            Column("takes effect by"), Column("a crash may cost"), Column("sure"),
        )  # fmt: skip
        rows = [
            (
                TableCell(str(index)), TableCell(item.advice.title), TableCell(item.advice.weight.value),
                TableCell(item.takes_effect_by), class_cell(item.advice.durability),
                TableCell(item.advice.sure.value),
            )
            for index, item in enumerate(self.items, 1)
        ]  # fmt: skip
        return [Table("Advice", columns, tuple(rows))]


def advice_view(advised: Advised, platform: Platform, chosen: Chosen | None = None) -> AdviceView:
    """Everything that is shown of advice, with the platform's lines; ``chosen``: how it was chosen."""
    case = advised.case
    window = case.window
    is_hosted = wal_access(platform.name) is not None if chosen is None else chosen.is_hosted
    target = target_of(advised)
    items = tuple(
        replace(_item(item, platform, target), surer=_surer(item, window)) for item in advised.advice
    )
    changes = _taken(items)
    parts = [f"PostgreSQL {window.version}", *((f"database {window.database}",) if window.database else ())]
    if window.looks:
        parts.append(f"{datetime.fromtimestamp(window.looks[-1].at, UTC):%Y-%m-%d %H:%M} UTC")
    if window.seconds:
        parts.append(f"looked for {format_duration(window.seconds)}")
    if case.wal is not None:
        parts.append(f"{format_bytes(case.wal.accounting.total_bytes)} of WAL read")
    age = statistics_age(case)
    notes = [*((age,) if age else ()), *(f"Could not be read: {lack}." for lack in window.lacks)]
    if case.wal is None:
        notes.append(f"Rules that read the WAL had no answer: {case.why_no_wal}.")
        access = wal_access(platform.name)
        notes += [access.cited] if access is not None else []
    notes += [f'Rule "{name}" was muted.' for name in advised.muted]
    return AdviceView(
        question="What should this server set, what will it gain, what does it risk?",
        dateline=" · ".join(parts),
        summary=_summary(advised, items, is_hosted=is_hosted),
        items=items,
        all_lines=platform.write(changes, target) if changes else None,
        fine=advised.fine,
        unseen=advised.unseen,
        absent=advised.absent,
        notes=tuple(notes),
        platform=platform.name,
        curve=curve_section(advised),
        curve_points=curve_json(advised),
        platform_reason="" if chosen is None else chosen.notice,
    )


def target_of(advised: Advised) -> PlatformTarget:
    """The server as platforms have to know it."""
    window = advised.case.window
    before = {
        name: Before(
            setting.value,
            is_default=setting.source in ("default", "override"),
            is_in_auto_conf=setting.file is not None and setting.file.endswith("postgresql.auto.conf"),
            is_on_command_line=setting.source == "command line",
            is_file_seen=setting.source != "configuration file" or setting.file is not None,
        )
        for name, setting in window.settings.items()
        # Undoing must not give the server what one of its databases or roles has.
        if not setting.is_of_session
    }
    return PlatformTarget(window.version_num, before, has_standbys=window.has_standbys)


def _item(advice: Advice, platform: Platform, target: PlatformTarget) -> Item:
    answers = [(change, platform.refuse(change, target)) for change in advice.changes]
    kept = [change for change, refusal in answers if refusal is None]
    contexts = dict.fromkeys(_context(change, target) for change in kept)
    return Item(
        advice,
        say_list(list(contexts)),
        platform.write(kept, target) if kept else None,
        tuple(refusal for _, refusal in answers if refusal is not None),
        {
            change.name: target.before[change.name].value
            for change in advice.changes
            if change.name in target.before
        },
    )


def _surer(advice: Advice, window: ServerWindow) -> str | None:
    """A look over a whole checkpoint cycle, where this one was shorter, or a measurement."""
    if advice.sure is not Sure.LOW or not advice.changes:
        return None
    changed = {change.name: change.value for change in advice.changes}
    settings = ",".join(f"{name}={value}" for name, value in changed.items())
    measure = f"walproof workload DSN --to load, then walproof compare --load load/load.toml --set {settings}"
    cycle = changed.get("checkpoint_timeout") or window.value("checkpoint_timeout")
    try:
        is_short = cycle is not None and window.seconds < parse_duration_s(cycle)
    except UnitError:
        is_short = False
    if is_short:
        return (
            f"To be surer, look for a whole checkpoint cycle (--for {cycle}), or measure it under a load "
            f"like yours: {measure}"
        )
    return f"To be surer, measure it under a load like yours: {measure}"


def _context(change: Change, target: PlatformTarget) -> str:
    try:
        return Catalogue.for_version(target.version_num).get(change.name).context.value
    except SettingError:
        return "unknown"


def _taken(items: Sequence[Item]) -> tuple[Change, ...]:
    """The settings that the platform takes; the first piece of advice about a setting counts."""
    found: dict[str, Change] = {}
    for item in items:
        refused = {refusal.change.name for refusal in item.refusals}
        for change in item.advice.changes:
            if change.name not in refused:
                found.setdefault(change.name, change)
    return tuple(found.values())


def _summary(advised: Advised, items: Sequence[Item], *, is_hosted: bool) -> str:
    fine, unseen = len(advised.fine), len(advised.unseen)
    # Who has the machine can still change what the platform's lines cannot.
    beyond = [item for item in items if is_hosted and item.is_out_of_reach]
    advice = [item.advice for item in items if item not in beyond]
    known = _counted([item.advice for item in beyond if not item.is_unlisted])
    unlisted = _counted([item.advice for item in beyond if item.is_unlisted])
    rest = f"{fine} rules found all well" + (f", {unseen} could not look" if unseen else "") + "."
    is_unread = advised.case.is_wal_unread
    ending = f" The WAL could not be read.{_grant(advised, is_hosted=is_hosted)}" if is_unread else ""
    if known:
        rest = f"{known} known, but not settable here; {rest}"
    if unlisted:
        rest = f"{unlisted} known, for which walproof has no line here; {rest}"
    if not advice and unlisted:
        return f"Nothing to do that walproof has a line for here: {rest}{ending}"
    if not advice and known:
        return f"Nothing to do that this platform takes: {rest}{ending}"
    if not advice and is_unread:
        return (
            f"Nothing found, but the WAL could not be read, and the rules that usually find most did not "
            f"run: {rest}{_grant(advised, is_hosted=is_hosted)}"
        )
    if not advice:
        return f"Change nothing: {rest}"
    things = _counted(advice, " to do")
    return f"{things[0].upper()}{things[1:]}; {rest}{ending}"


def _counted(advice: Sequence[Advice], what: str = "") -> str:
    """``2 things to do (1 dangerous and 1 a gain)``; empty without any."""
    if not advice:
        return ""
    counts = [
        f"{count} {_ENDINGS[weight]}"
        for weight in Weight
        if (count := sum(item.weight is weight for item in advice))
    ]
    things = "one thing" if len(advice) == 1 else f"{len(advice)} things"
    return f"{things}{what} ({say_list(counts)})"


def _grant(advised: Advised, *, is_hosted: bool) -> str:
    """What lets the WAL be read, where a right may be missing and somebody is able to grant it.

    A provider's administrator is a member of pg_monitor (rds_superuser: RDS User Guide,
    Appendix.PostgreSQL.CommonDBATasks.Roles), and no superuser, who alone gives REPLICATION before 16.
    """
    window = advised.case.window
    if not window.is_wal_refused or window.role is None or window.is_in_recovery:
        return ""
    if is_hosted:
        line = f"GRANT pg_monitor TO {window.role};"
        is_missing = window.role_lacks is not None and "pg_monitor" in window.role_lacks
        return f" What the role lacks to see all statistics: {line}" if is_missing else ""
    if window.base("max_wal_senders") == 0:
        return " No WAL is streamed while max_wal_senders is 0, and it takes a restart to change that."
    lines = {
        "REPLICATION": f"ALTER ROLE {window.role} REPLICATION;",
        "pg_monitor": f"GRANT pg_monitor TO {window.role};",
    }
    if window.role_lacks is None:
        return f" If a right is missing: {' '.join(lines.values())}"
    # Else a line of pg_hba.conf is missing, a slot or a walsender: the notes have the server's reason.
    granting = " ".join(line for right, line in lines.items() if right in window.role_lacks)
    return f" What the role lacks: {granting}" if granting else ""


def _blocks(item: Item) -> list[Block]:
    advice = item.advice
    blocks: list[Block] = [Paragraph(text, terminal=True) for text in advice.evidence]
    if advice.figures:
        blocks.append(_figures(advice.figures))
    told = [
        *(f"{change.name} becomes {change.value}" + (f" (now {now})." if now else ".")
          for change in advice.changes
          if (now := item.before.get(change.name)) != change.value and change.name not in advice.title),
        *(f"It costs: {text}" for text in advice.costs),
        *(f"Not known: {text}." for text in advice.unknown),
        *(f"{refusal.change.name} = {refusal.change.value} is left out: {refusal.reason}. "
          f"({refusal.source})" for refusal in item.refusals),
    ]  # fmt: skip
    if item.surer is not None:
        told.append(item.surer)
    links = tuple(link for refusal in item.refusals for link in addresses(refusal.source))
    blocks += [Paragraph(text, terminal=True, links=links) for text in told]
    if advice.steps:
        blocks.append(Listing("Steps", "\n".join(advice.steps)))
    if item.lines is not None:
        blocks += _lines(item.lines)
    source = rule_texts()[advice.rule].source
    blocks.append(Paragraph(f"Source: {source}", links=addresses(source)))
    return blocks


def _figures(figures: Sequence[AdvisedFigure]) -> Table:
    columns = (
        Column("figure"), Column("now", numeric=True), Column("after the change", numeric=True),
        Column("expected between", numeric=True), Column("change", numeric=True),
    )  # fmt: skip
    rows = [
        text_cells(
            (
                figure.name,
                amount(figure.now, figure.unit),
                amount(figure.then, figure.unit),
                UNKNOWN if figure.low is None or figure.high is None
                else f"{amount(figure.low, figure.unit)} and {amount(figure.high, figure.unit)}",
                UNKNOWN if not figure.now else change(figure.now, figure.then),
            )
        )
        for figure in figures
    ]  # fmt: skip
    return Table("What would change", columns, tuple(rows))


def change(now: float, then: float) -> str:
    """By how much a figure changes: ``-40 %``, ``256 times``."""
    if then >= _TIMES_FROM * now:
        return f"{number(then / now)} times"
    return f"{'-' if then < now else '+'}{percent(abs(1 - then / now))}"


def amount(value: float | None, unit: str) -> str:
    """A figure with its unit: ``3.1 GB/h``, ``43 s``, ``120/h``, ``5,469,210/h``."""
    if value is None:
        return UNKNOWN
    if unit.startswith("bytes"):
        return format_bytes(value) + unit.removeprefix("bytes")
    if unit == "s":
        return format_duration(value)
    text = f"{value:,.0f}" if abs(value) >= _LONG else number(value)
    return f"{text}{unit}" if unit.startswith("/") or not unit else f"{text} {unit}"


def _lines(lines: Lines) -> list[Block]:
    return [
        *(Listing(what, command) for what, command in lines.commands),
        Listing("To apply", lines.apply),
        Listing("To undo", lines.undo),
        *(Paragraph(note) for note in lines.notes),
    ]


def _list(title: str, second: str, found: Sequence[Fine] | Sequence[Unseen]) -> Table:
    rows = [
        text_cells((item.rule, item.sentence if isinstance(item, Fine) else item.reason)) for item in found
    ]
    columns = (Column("rule"), Column(second, whole_most=200))
    return Table(title, columns, tuple(rows), terminal=False)

"""The rules of advice: what each asks is data (``rules.csv``); what it finds is a function of the case."""

from __future__ import annotations

import csv
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from walproof.advise.server import (
    after_crash,
    checkpoints,
    commits,
    holding,
    horizon,
    images,
    minors,
    overrides,
    prepared,
    safety,
    session_writes,
    slots,
    synchronous,
    tables,
    wasted,
)
from walproof.advise.server.advice import Absent, Advice, Fine, Found, Rule, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.errors import SettingError
from walproof.facts.transactions import HORIZON, PREPARED

_TABLE = Path(__file__).with_name("rules.csv")
RULES: Mapping[str, Rule] = {
    "fsync": safety.fsync,
    "full_page_writes": safety.full_page_writes,
    "wal_level": safety.wal_level,
    "synchronous_commit": synchronous.synchronous_commit,
    "overrides": overrides.overrides,
    "checksums": safety.checksums,
    "unlogged": safety.unlogged,
    "pending": safety.pending,
    "autovacuum": safety.autovacuum,
    "minors": minors.minors,
    "slots": slots.slots,
    "archiver": holding.archiver,
    "standbys": holding.standbys,
    "prepared transactions": prepared.prepared_transactions,
    "horizon": horizon.horizon,
    "max_wal_size": checkpoints.max_wal_size,
    "checkpoint_completion_target": checkpoints.completion_target,
    "writes of sessions": session_writes.session_writes,
    "wal_compression": images.wal_compression,
    "random keys": images.random_keys,
    "hint images": images.hint_images,
    "flushes": commits.flushes,
    "wal_buffers": commits.wal_buffers,
    "commit_delay": commits.commit_delay,
    "unused indexes": wasted.unused_indexes,
    "HOT updates": wasted.hot_updates,
    "freezing": tables.freezing,
    "staging": tables.staging,
    "recovery_prefetch": after_crash.recovery_prefetch,
    "startup budget": after_crash.startup_budget,
    "log_checkpoints": after_crash.log_checkpoints,
}
_READS: Mapping[str, str] = {
    "unlogged": "tables",
    "HOT updates": "tables",
    "freezing": "tables",
    "staging": "tables",
    "unused indexes": "indexes",
    "random keys": "indexes",
    "slots": "slots",
    "standbys": "standbys",
    "overrides": "settings of roles and databases",
    "prepared transactions": PREPARED,
    "horizon": HORIZON,
}
"""The list without which a rule cannot say that all is well, or that there is nothing to look at."""


@dataclass(frozen=True, slots=True)
class RuleText:
    """What is known about a rule without a server."""

    name: str
    family: str
    question: str
    looks_at: str
    since: int
    """The first major version that has what it looks at."""
    nothing_if: str
    """When it has nothing to look at; empty if it always has something."""
    source: str


@dataclass(frozen=True, slots=True)
class Advised:
    """What all rules found, with advice in the order in which it should be read."""

    case: ServerCase
    advice: tuple[Advice, ...]
    fine: tuple[Fine, ...]
    unseen: tuple[Unseen, ...]
    absent: tuple[Absent, ...]
    muted: tuple[str, ...]


@functools.cache
def rule_texts() -> Mapping[str, RuleText]:
    """Name -> question, what it looks at, and source, for every rule."""
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return {
            row["rule"]: RuleText(
                name=row["rule"],
                family=row["family"],
                question=row["question"],
                looks_at=row["looks_at"],
                since=int(row["since"]),
                nothing_if=row["nothing_if"],
                source=row["source"],
            )
            for row in csv.DictReader(file)
        }


def advise(
    case: ServerCase, muted: Collection[str] = (), inapplicable: Mapping[str, str] = MappingProxyType({})
) -> Advised:
    """Ask every rule that is not muted. Raises SettingError for a name that no rule has.

    ``inapplicable``: rules that do not hold where the server runs, with the reason.
    """
    for name in muted:
        if name not in RULES:
            raise SettingError(f'no rule "{name}"', hint=f"Rules: {', '.join(RULES)}.")
    answers = {
        name: Absent(name, inapplicable[name]) if name in inapplicable else _answer(name, rule, case)
        for name, rule in RULES.items()
        if name not in muted
    }
    found = list(answers.values())
    weights = list(Weight)
    advice = sorted(
        (answer for answer in found if isinstance(answer, Advice)),
        key=lambda advice: (weights.index(advice.weight), -advice.benefit),
    )
    return Advised(
        case,
        tuple(advice),
        tuple(answer for answer in found if isinstance(answer, Fine)),
        tuple(answer for answer in found if isinstance(answer, Unseen)),
        tuple(
            answer if answer is not None else Absent(name, rule_texts()[name].nothing_if)
            for name, answer in answers.items()
            if answer is None or isinstance(answer, Absent)
        ),
        tuple(muted),
    )


def _answer(name: str, rule: Rule, case: ServerCase) -> Found | None:
    """What the rule finds. A list that could not be read is no list of nothing."""
    found = rule(case)
    what = _READS.get(name)
    lack = None if what is None else case.window.lacks_of(what)
    if lack is None or isinstance(found, Advice | Unseen):
        return found
    return Unseen(name, f"{what} could not be read: {lack}")

"""Watched servers for a monitoring system: one line, a status of 0 to 3, figures after a bar.

The form is that of Nagios plugins (Monitoring Plugins Development Guidelines, "Plugin Output", "Performance
data"): ``WALPROOF WARNING - text | 'label'=value;warning;critical``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from walproof.advise.watch.concern import Concern, Thresholds
from walproof.facts.watch import StreamPhase
from walproof.report.watch.view import ServerView, splits
from walproof.sentences import say_count
from walproof.settings.refusal import is_turned_away


class Nagios(IntEnum):
    """Statuses of plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer to a check."""

    status: Nagios
    text: str


def check(views: Sequence[ServerView], limits: Thresholds) -> Checked:
    """The worst of all servers. An unknown answer to what was asked is UNKNOWN, and hides no concern about
    what is seen."""
    unknown = [line for view in views for line in _unknown(view)]
    status = Nagios(max((view.severity for view in views if not _is_turned_away(view)), default=0))
    if unknown and status is Nagios.OK:
        status = Nagios.UNKNOWN
    # The worst first, whichever server it is of.
    concerns = sorted(
        ((view, concern) for view in views for concern in view.concerns), key=lambda found: -found[1].severity
    )
    said = [f"{view.name}: {_sentence(concern)}" for view, concern in concerns] + unknown
    if not said:
        said = [f"{say_count(len(views), 'server')} watched, no concern", *map(_unseen, views)]
    figures = " ".join(figure for view in views for figure in _figures(view, limits))
    text = _status_line("; ".join(words.removesuffix(".") for words in said if words))
    return Checked(status, f"WALPROOF {status.name} - {text}" + (f" | {figures}" if figures else ""))


def failed(message: str) -> Checked:
    """The answer when no check could be made at all."""
    return Checked(Nagios.UNKNOWN, f"WALPROOF UNKNOWN - {_status_line(message)}")


def _sentence(concern: Concern) -> str:
    """The concern, of a standby with its name, and what it rests on."""
    sentence = concern.sentence.removesuffix(".")
    if concern.key == "server":
        return f"{sentence}: {'; '.join(concern.evidence)}"
    kind, _, name = concern.key.partition(" ")
    about = f'standby "{name}": ' if kind == "standby" and f'"{name}"' not in sentence else ""
    return about + sentence + (f" ({', '.join(concern.evidence[:2])})" if concern.evidence else "")


def _is_turned_away(view: ServerView) -> bool:
    """Whether the server lets nobody in, so that its only concern is about what is not known."""
    return view.seen.no_answer is not None and is_turned_away(view.seen.no_answer.reason)


def _unknown(view: ServerView) -> Iterator[str]:
    if _is_turned_away(view):
        yield f"{view.name}: nothing of it is known"
    if view.seen.no_answer is not None or view.seen.look is None or view.seen.look.is_in_recovery:
        return
    # Who has turned the stream of a server off asks for no crash clock there, whatever target all have.
    if view.target_s is not None and view.clock is None and view.stream.phase is not StreamPhase.OFF:
        stream = view.stream
        why = stream.reason if stream.phase is StreamPhase.BROKEN else f"the stream of WAL is {stream.phase}"
        yield f"{view.name}: how long recovery takes is not known: {why}"
    disk = view.seen.disk
    if disk is not None and disk.room_bytes is not None and disk.pg_wal_bytes is None:
        yield f"{view.name}: the size of pg_wal is not known: {view.seen.look.lacks_of('the size of pg_wal')}"


def _unseen(view: ServerView) -> str:
    """What a concern could be about that nobody asked for, and that is not seen."""
    look = view.seen.look
    if look is None:
        return ""
    if look.is_in_recovery:
        why = look.lacks_of("the arrival of WAL")
        return f"{view.name}: not seen: whether WAL arrives: {why}" if why else ""
    disk, archive = view.seen.disk, view.seen.archive
    missing = [
        what
        for what, is_missing in (
            ("how long recovery takes", view.clock is None and _is_missed(view)),
            ("the size of pg_wal", disk is not None and disk.pg_wal_bytes is None),
            ("what waits for the archive", archive is not None and archive.waiting is None),
            ("how late standbys are", look.lacks_of("standbys") is not None),
        )
        if is_missing
    ]
    return f"{view.name}: not seen: {', '.join(missing)}" if missing else ""


def _is_missed(view: ServerView) -> bool:
    phase = view.stream.phase
    return phase is StreamPhase.BROKEN or (phase is StreamPhase.OFF and view.target_s is not None)


def _figures(view: ServerView, limits: Thresholds) -> Iterator[str]:
    """Performance data. A label holds neither quote nor equals sign."""
    seen = view.seen
    if view.clock is not None:
        # The forecast is critical above the target, the upper end of its range a warning.
        target = "" if view.target_s is None else _digits(view.target_s)
        yield _figure(view, "crash_recovery", f"{view.clock.warm.seconds:.3f}s;;{target};0")
        yield _figure(view, "crash_recovery_high", f"{view.clock.warm.high:.3f}s;{target};;0")
    if seen.disk is not None and seen.disk.pg_wal_bytes is not None:
        room = "" if seen.disk.room_bytes is None else str(seen.disk.room_bytes)
        yield _figure(view, "pg_wal", f"{seen.disk.pg_wal_bytes}B;;{room};0;{room}")
    if seen.disk is not None and seen.disk.full_s is not None:
        # The lower, the worse: a range of good values, "10:".
        warning, critical = _digits(limits.full_warning_s), _digits(limits.full_critical_s)
        yield _figure(view, "pg_wal_full", f"{seen.disk.full_s:.0f}s;{warning}:;{critical}:;0")
    if seen.archive is not None and seen.archive.waiting is not None:
        yield _figure(view, "archive_waiting", f"{seen.archive.waiting};;;0")
    for name, split in splits(view).items():
        # What was late before the first look is later than it seems: U is what plugins say of the unknown.
        late_s = limits.lag_warning_s if name in view.pairs else limits.unpaired_lag_s
        lag = "U" if split.is_least and split.lag_s < late_s else f"{split.lag_s:.3f}s"
        yield _figure(view, f"lag {name}", f"{lag};{_digits(late_s)};{_digits(limits.lag_critical_s)};0")


def _figure(view: ServerView, label: str, value: str) -> str:
    name = f"{view.name} {label}".replace("'", "").replace("=", ":").replace("|", "")
    return f"'{name}'={value}"


def _digits(value: float) -> str:
    """A number as the guidelines allow it: digits, minus and point, no exponent."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _status_line(text: str) -> str:
    """A bar would begin the performance data."""
    return " ".join(text.replace("|", "/").split())

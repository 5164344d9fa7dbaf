"""Advice on several servers: looking at all of them at once, then reading what each recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from walproof.cli.advised import Asked, FleetLook, Looked, keep, with_own_standbys
from walproof.cli.advising import AdviceOrder, advice_from
from walproof.cli.status_line import StatusLine
from walproof.errors import ProbeError, WalproofError
from walproof.report.advice.fleet import FleetView, Member
from walproof.report.advice.since import Earlier, with_since
from walproof.sentences import say_count
from walproof.units import format_bytes, format_duration


def look_at_many(look: FleetLook, seconds: float, line: StatusLine, *, keeps: bool) -> list[Looked]:
    """Look at all of them at once, and keep what was seen if that is wanted. Raises SettingError for a folder
    that has files, StoreError for one that cannot be written."""

    if keeps:
        look.check_folders()

    def show(passed_s: float, running: int, wal_bytes: int) -> None:
        line.show(
            f"looked for {format_duration(passed_s)} of {format_duration(seconds)}: "
            f"{say_count(running, 'server')}, {format_bytes(wal_bytes)} of WAL"
        )

    looked = look.look(show, line.say)
    line.clear()
    if keeps:
        # As each was seen: what is kept may be put together again.
        keep(looked, line.say)
    return with_own_standbys(looked)


def advise_many(
    looked: Sequence[Looked],
    order: AdviceOrder,
    earlier: Mapping[str, Earlier] | None,
    line: StatusLine,
) -> FleetView:
    """What each should set, by its own limits. A recording that cannot be read is an error of its server."""
    members = []
    for each in looked:
        line.show(f"reading what {each.asked.name} recorded")
        members.append(_member(each, order, earlier))
    line.clear()
    return FleetView(tuple(members))


def _member(looked: Looked, order: AdviceOrder, earlier: Mapping[str, Earlier] | None) -> Member:
    name, window = looked.asked.name, looked.window
    if window is None:
        assert looked.error is not None
        return _failed(name, looked.error)
    try:
        advice, view = advice_from(window, looked.folder, _limits(order, looked.asked))
    except WalproofError as error:
        return _failed(name, error)
    if earlier is not None and name in earlier:
        view = with_since(view, advice, earlier[name], order.mute)
    elif earlier is not None:
        view = replace(view, since=("The earlier advice has nothing on this server.",))
    return Member(name, window, view)


def _limits(order: AdviceOrder, asked: Asked) -> AdviceOrder:
    """The order with the server's own limits; of a running server they are what was typed, where it was."""
    if asked.is_recorded:
        return order
    server = asked.server
    return replace(
        order, recovery_s=server.recovery_s, wal_disk_bytes=server.wal_disk_bytes,
        calibration=server.calibration,
    )  # fmt: skip


def _failed(name: str, error: WalproofError) -> Member:
    return Member(name, error=error.message, detail=error.detail)


def check_all_seen(view: FleetView) -> None:
    """Raise ProbeError if there is no advice on a server: a script has to know."""
    if view.failed:
        raise ProbeError(
            f"no advice on {len(view.failed)} of {say_count(len(view.members), 'server')}",
            detail="\n".join(
                ": ".join(filter(None, (member.name, member.error, member.detail))) for member in view.failed
            ),
        )

"""Pairs on the pages of ``watch`` and ``replica watch``: everything is told for which there is room."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tests.advise.test_replica import recorded
from tests.schemas import assert_valid
from tests.watching import BEGAN, START, Server, assessed, assessor, gone, slot, standby, view
from walproof.advise.replica.diagnosis import diagnose
from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.analysis.watch.standbys import named, unpaired
from walproof.cli.watch_show import of_changes
from walproof.facts.watch import WatchedStandby
from walproof.report.replica import pair_page
from walproof.report.watch.json import watch_data, watch_line
from walproof.report.watch.page import fitting_page
from walproof.report.watch.plain import plain_text
from walproof.report.watch.view import ServerView, splits


def paired(name: str, lag_warning_s: float = 0.5) -> ServerView:
    """A primary with one standby, which is watched on both sides."""
    window = recorded(name)
    found = {"a": diagnose(window)}
    seen = replace(assessed(Server()), standbys=())
    rules = Concerns(Thresholds(lag_warning_s=lag_warning_s))
    said = rules.of(seen, None, None, found, BEGAN, (window,))
    return ServerView(seen, said, pairs=found, windows=(window,))


def shown(server_view: ServerView, height: int, width: int = 100) -> str:
    text = StringIO()
    console = Console(file=text, width=width, height=height, no_color=True, force_terminal=False)
    console.print(fitting_page([server_view], console))
    return text.getvalue()


def test_a_low_terminal_has_the_sentences_and_a_high_one_everything() -> None:
    view = paired("network")
    low, middle, high = (shown(view, height) for height in (12, 28, 80))
    for text in (low, middle, high):
        assert "network: The network is the limit" in text
    assert "wait on the upstream to be sent" not in low
    assert "wait on the upstream to be sent" in middle
    assert "walreceiver: Activity" not in middle
    assert "walreceiver: Activity" in high
    assert "stage" in high


def test_replica_watch_says_at_once_that_a_server_does_not_answer() -> None:
    """The session that makes windows may wait for the network for half a minute, with an old window."""
    seen: list[str] = []

    def show(views: Sequence[ServerView]) -> None:
        text = StringIO()
        Console(file=text, width=200).print(pair_page(views))
        seen.append(text.getvalue())

    changed, pair, standby_view = of_changes(show), paired("idle"), view(Server())
    away = assessor()
    away.see([Server().look(0), gone(BEGAN + 1)])
    silent = away.assess(7.0, BEGAN + 7)
    said = Concerns(Thresholds()).of(silent, None, None, {}, BEGAN + 7)
    missing = replace(standby_view, seen=silent, concerns=said)
    for other in (standby_view, standby_view, missing, missing, standby_view):
        changed([pair, other])
    assert len(seen) == 2
    assert "The standby has caught up." in seen[0]
    assert "does not answer" in seen[1]
    assert "caught up" not in seen[1]
    changed([replace(pair, windows=(replace(pair.windows[0]),)), standby_view])
    assert "The standby has caught up." in seen[2]


@pytest.mark.parametrize("name", ["network", "conflict", "replay-starved"])
def test_every_form_of_watch_has_what_replica_watch_has(name: str) -> None:
    one = paired(name)
    text = StringIO()
    Console(file=text, width=200).print(pair_page([one, view(Server())]))
    plain = plain_text([one], is_first=True)
    for cause in one.pairs["a"].causes:
        for line in (cause.sentence, *cause.evidence, *cause.advice):
            assert line in text.getvalue()
            assert line in plain
    assert_valid("watch", json.loads(watch_line(one)))
    (told,) = watch_data(one)["standbys"]
    assert told["name"] == "a"
    assert told["waits"] == {process: dict(counts) for process, counts in one.windows[0].waits.items()}


@pytest.mark.parametrize(("name", "is_told_alone"), [("missing-segment", False), ("network", True)])
def test_a_fault_of_a_pair_is_not_told_again_by_its_standby(name: str, is_told_alone: bool) -> None:
    away = Concern("walreceiver", Severity.WARNING, "This standby gets no WAL.", (), ("Read its log.",))
    other = Concern("replay paused", Severity.WARNING, "Replay is paused.", ())
    text = StringIO()
    standby_view = replace(view(Server()), concerns=(away, other))
    Console(file=text, width=200).print(pair_page([paired(name), standby_view]))
    assert ("This standby gets no WAL" in text.getvalue()) is is_told_alone
    assert "Replay is paused" in text.getvalue()


def test_a_pair_that_is_not_late_enough_for_a_concern_shows_its_cause_all_the_same() -> None:
    one = paired("network", lag_warning_s=3600.0)
    assert one.concerns == ()
    assert "network: The network is the limit" in shown(one, 80)
    assert "keeps up" not in plain_text([one], is_first=True)


def test_two_standbys_of_one_name_are_told_apart_and_a_pair_hides_its_own_alone() -> None:
    looks = [Server().look(second) for second in range(20)]
    both = [
        replace(look, standbys=(standby(*(look.lsn or 0,) * 3),
                                replace(standby(START, START, START), pid=8)))
        for look in looks
    ]  # fmt: skip
    found = assessor()
    found.see(both)
    seen = found.assess(19.0, BEGAN)
    assert [state.name for state in seen.standbys] == ["a", "a #2"]
    window = recorded("keeps-up")
    sender = window.last.upstream.sender
    assert sender is not None

    first, last = (
        replace(look, upstream=replace(look.upstream, sender=replace(sender, pid=8)))
        for look in (window.first, window.last)
    )
    changed = replace(window, first=first, last=last)
    seen = replace(seen, standbys=named(seen.standbys, {8: "db2"}))
    assert [state.name for state in unpaired(seen.standbys, (changed,), {"db2"})] == ["a"]
    view = ServerView(seen, (), pairs={"db2": diagnose(changed)}, windows=(changed,))
    assert list(splits(view)) == ["a", "db2"]
    # Its walsender is another one since it has connected again: the window shows the one before.
    again = replace(seen, standbys=named(assessed(Server()).standbys, {7: "db2"}))
    assert list(splits(replace(view, seen=again))) == ["db2"]


def test_only_standbys_that_are_not_watched_are_numbered() -> None:
    """A watched one that connects again, with a higher pid, changes no name of the others."""

    def names(watched: dict[int, str], *pids: int) -> list[str]:
        own = [replace(standby(START, START, START), pid=pid) for pid in pids]
        found = assessor()
        found.see([replace(Server().look(1), standbys=tuple(own))])
        return [state.name for state in named(found.assess(1.0, BEGAN).standbys, watched)]

    assert names({7: "db2"}, 7, 8, 9) == ["db2", "a", "a #2"]
    assert names({10: "db2"}, 8, 9, 10) == ["a", "a #2", "db2"]


def test_the_name_of_a_standby_stays_when_it_connects_again_or_another_one_leaves() -> None:
    def names(*standbys: WatchedStandby, temporary: tuple[str, ...] = ()) -> list[str]:
        look = Server().look(1)
        slots = tuple(replace(slot(name), is_temporary=True) for name in temporary)
        found = assessor()
        found.see([replace(look, standbys=standbys, slots=slots)])
        return [state.name for state in found.assess(1.0, BEGAN).standbys]

    one = replace(standby(START, START, START), name="18/main", host="10.0.0.2")
    other = replace(one, pid=8, slot="s3", host="10.0.0.3")
    assert names(one, other) == ["18/main (10.0.0.2)", "18/main (slot s3)"]
    assert names(replace(one, pid=9)) == ["18/main (10.0.0.2)"]
    assert names(replace(other, pid=10)) == ["18/main (slot s3)"]
    assert names(replace(other, name="s3")) == ["s3"]
    own = replace(other, slot="pg_walreceiver_8")
    assert names(own, temporary=("pg_walreceiver_8",)) == ["18/main (10.0.0.3)"]

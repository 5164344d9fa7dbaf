"""A standby that is meant to replay late, and receives late as well: only the latter is a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.test_replica import recorded
from tests.watching import BEGAN, MB, Server, assessed
from walproof.advise.replica.cause import Cause
from walproof.advise.replica.diagnosis import diagnose
from walproof.advise.replica.intended import unintended
from walproof.advise.watch.concern import Severity, Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.advise.watch.standbys import pair
from walproof.advise.watch.suspicion import is_suspected
from walproof.facts.replication import ReplicationWindow
from walproof.report.watch.view import ServerView, further_causes


def delayed(received_late_s: float) -> ReplicationWindow:
    """What is replayed is an hour old, as it is meant to be; what has come is this old."""
    window = recorded("apply-delay")
    first, last = window.first, window.last
    sender, receiver = last.upstream.sender, last.standby.receiver
    assert sender is not None
    assert receiver is not None
    replayed = last.standby.replayed
    come, end = replayed + 100 * MB, replayed + 200 * MB
    standby = replace(last.standby, received=come, receiver=replace(receiver, written=come, flushed=come))
    upstream = replace(last.upstream, inserted=end, flushed=end, sender=replace(sender, sent=come))
    now_s = 10_000.0
    first, last = replace(first, at_s=now_s - 1), replace(last, at_s=now_s)
    trail = ((now_s - 3600, replayed), (now_s - received_late_s, come), (now_s, end))
    return replace(window, first=first, last=replace(last, upstream=upstream, standby=standby), trail=trail)


def test_a_standby_that_is_meant_to_be_late_is_named_where_it_receives_late() -> None:
    found = diagnose(delayed(1800.0))
    assert [cause.cause for cause in found.causes] == [Cause.APPLY_DELAY, Cause.NETWORK]
    assert found.split.lag_s == pytest.approx(3600.0)
    cause, split = unintended(found)
    assert cause is found.causes[1]
    assert split.lag_s == pytest.approx(1800.0)
    assert split.lag_bytes == 100 * MB
    (concern,) = pair("a", found, Thresholds())
    assert (concern.key, concern.severity) == ("standby a", Severity.CRITICAL)
    assert concern.sentence.startswith("network: ")
    assert concern.evidence[:2] == (
        "200 MB and 1 h 00 min behind",
        "30 min 00 s of that are not intended",
    )
    assert list(pair("a", found, Thresholds(lag_warning_s=2000.0))) == []


def test_a_standby_that_is_only_meant_to_be_late_is_no_concern() -> None:
    found = diagnose(delayed(5.0))
    assert found.causes[0].cause is Cause.APPLY_DELAY
    assert list(pair("a", found, Thresholds())) == []
    assert list(pair("a", diagnose(recorded("apply-delay")), Thresholds(lag_warning_s=0.1))) == []


def test_every_cause_is_told_once_beside_the_concern() -> None:
    window = delayed(1800.0)
    found = diagnose(window)
    seen = replace(assessed(Server()), standbys=())
    said = Concerns(Thresholds()).of(seen, None, None, {"a": found}, BEGAN, (window,))
    view = ServerView(seen, said, pairs={"a": found}, windows=(window,))
    assert [cause.cause for cause in further_causes("a", found, view)] == [Cause.APPLY_DELAY]


def test_a_short_look_suspects_that_a_delayed_standby_receives_late() -> None:
    """How old what has not come is, nobody knows: it was there before the first look."""
    window = delayed(1800.0)
    end = window.last.upstream.inserted
    seen = replace(assessed(Server(), 2), standbys=())
    for is_late in (True, False):
        upstream = window.last.upstream
        if not is_late:
            assert upstream.sender is not None
            upstream = replace(upstream, inserted=upstream.sender.sent, flushed=upstream.sender.sent)
        last = replace(window.last, upstream=upstream)
        short = replace(window, last=last, trail=((window.last.at_s - 2, end), (window.last.at_s, end)))
        found = diagnose(short)
        assert found.causes[0].cause is Cause.APPLY_DELAY
        assert is_suspected(seen, None, Thresholds(), {"a": found}, (short,)) is is_late

"""A watched server in every form: page, lines, JSON, check, metrics; from the same assessments."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from io import StringIO

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from tests.schemas import assert_valid
from tests.watching import (
    BEGAN,
    MB,
    SEGMENT,
    Server,
    assessed,
    assessor,
    clock,
    concerns,
    gone,
    slot,
    standby,
    view,
)
from walproof.advise.watch.concern import Thresholds
from walproof.facts.wal_causes import WalCause, WalCauses
from walproof.facts.watch import Span, StreamPhase, StreamState, SyncForecast, WatchedCheckpoint
from walproof.report.watch.check import Checked, Nagios, check, failed
from walproof.report.watch.json import watch_data, watch_line
from walproof.report.watch.page import watch_page
from walproof.report.watch.panels import panels
from walproof.report.watch.plain import plain_text
from walproof.report.watch.prometheus import METRICS, registry
from walproof.report.watch.view import ServerView

LIMITS = Thresholds(recovery_s=60.0)
CALM = view(Server(), crash=clock(20.0))
TROUBLED = view(
    Server(slots=[slot('a "quoted" name')], archived_share=0.0, is_failing=True),
    room_bytes=100 * SEGMENT, crash=clock(90.0),
)  # fmt: skip


def unseen() -> ServerView:
    found = assessor()
    found.see([gone()])
    return ServerView(found.assess(1.0, BEGAN), ())


GONE = unseen()


def page(views: list[ServerView], width: int) -> str:
    text = StringIO()
    Console(file=text, width=width, no_color=True, force_terminal=False).print(watch_page(views, width))
    return text.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_page_fits_and_says_all_that_matters(width: int) -> None:
    text = page([CALM, TROUBLED, GONE], width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for said in ("if it crashed now", "1 min 30 s", "archiver", "does not answer", "connection refused"):
        assert said in words, said
    # Marks say what colours say.
    assert "● db1" in words
    assert "✖ db1" in words


def test_plain_lines_are_complete_by_themselves() -> None:
    lines = plain_text([CALM, TROUBLED], is_first=True).splitlines()
    assert all(line.startswith("db1: ") for line in lines)
    said = "db1: if it crashed now: 20 s (14 s to 28 s); redo 18 s, checkpoint 2 s; target 1 min 00 s"
    assert said in lines
    assert any("attention, pg_wal: " in line for line in lines)
    assert "●" not in "".join(lines)
    again = plain_text([CALM], is_first=False)
    assert "not included" in "".join(lines)
    assert "not included" not in again


def test_a_disk_that_fills_in_months_does_not_fill() -> None:
    filling = view(Server(), room_bytes=1000 * SEGMENT)
    assert filling.seen.disk is not None
    for days, said in ((29, "full in 696 h 00 min"), (31, None)):
        disk = replace(filling.seen.disk, full_s=days * 86400.0)
        text = plain_text([replace(filling, seen=replace(filling.seen, disk=disk))], is_first=False)
        assert ("full in" in text) is (said is not None)
        assert (said or "") in text


def test_json_is_a_line_with_the_figures_of_the_page() -> None:
    line = watch_line(TROUBLED)
    assert line.count("\n") == 1
    data = json.loads(line)
    for shown in (TROUBLED, CALM, GONE):
        assert_valid("watch", json.loads(watch_line(shown)))
    assert data["crash"]["warm"]["seconds"] == 90.0
    assert data["disk"]["room_bytes"] == 100 * SEGMENT
    assert {concern["key"] for concern in data["concerns"]} >= {"archiver", "crash recovery"}
    assert json.loads(watch_line(GONE))["no_answer"]["reason"] == "connection refused"


def test_a_check_has_the_status_of_the_worst_server() -> None:
    assert check([CALM], LIMITS).status is Nagios.OK
    done = check([CALM, TROUBLED], LIMITS)
    assert done.status is Nagios.CRITICAL
    assert done.text.startswith("WALPROOF CRITICAL - db1: ")
    text, _, figures = done.text.partition(" | ")
    assert "\n" not in text
    # The forecast is critical above the target, the upper end of its range a warning.
    assert "'db1 crash_recovery'=90.000s;;60;0 'db1 crash_recovery_high'=" in figures
    # The form that Nagios reads: 'label'=value[unit];[warning];[critical];[min];[max]
    for figure in re.findall(r"'[^']+'=\S+", figures):
        assert re.fullmatch(r"'[^'=]+'=([\d.]+(s|B)?|U)(;[\d.:]*){0,4}", figure), figure


def test_a_threshold_of_weeks_is_written_in_digits() -> None:
    """1.2096e+06 is a number that Nagios does not read."""
    weeks = Thresholds(recovery_s=2e6, full_warning_s=14 * 86400, full_critical_s=1.5, lag_critical_s=3e6)
    _, _, figures = check([replace(TROUBLED, target_s=2e6)], weeks).text.partition(" | ")
    assert "s;1209600:;1.5:;0" in figures
    assert "s;;2000000;0" in figures
    assert ";15;3000000;0" in figures
    assert "e+" not in figures


def test_a_warning_is_a_warning() -> None:
    seen = assessed(Server(slots=[slot("etl")]))
    assert check([ServerView(seen, concerns(seen))], Thresholds()).status is Nagios.WARNING


def test_a_server_that_is_gone_is_critical_and_one_that_lets_nobody_in_is_unknown() -> None:
    """A password that has expired says nothing of the server's health."""

    def checked(reason: str) -> Checked:
        found = assessor()
        found.see([replace(gone(), reason=reason)])
        seen = found.assess(1.0, BEGAN)
        return check([CALM, ServerView(seen, concerns(seen))], LIMITS)

    down = checked("connection refused")
    assert down.status is Nagios.CRITICAL
    assert down.text.startswith("WALPROOF CRITICAL - db1: The server does not answer: connection refused")
    starting = checked("FATAL: the database system is starting up")
    assert starting.status is Nagios.CRITICAL
    for said in (
        'FATAL: password authentication failed for user "monitor"',
        'FATAL: database "gone" does not exist',
        'FATAL: no pg_hba.conf entry for host "10.0.0.1", user "monitor", database "x", no encryption',
    ):
        refused = checked(said)
        assert refused.status is Nagios.UNKNOWN
        assert f"db1: The server does not let this session in: {said}" in refused.text


def test_the_worst_concern_comes_first_whichever_server_it_is_of() -> None:
    warned = assessed(Server(slots=[slot("etl")]))
    found = assessor()
    found.see([gone()])
    seen = found.assess(1.0, BEGAN)
    done = check([ServerView(warned, concerns(warned)), ServerView(seen, concerns(seen))], LIMITS)
    assert done.text.startswith("WALPROOF CRITICAL - db1: The server does not answer")
    assert '"etl"' in done.text


def test_what_is_not_known_hides_no_warning() -> None:
    warned = assessed(Server(slots=[slot("etl")]))
    stream = StreamState(StreamPhase.BROKEN, "must be replication role")
    unknown = ServerView(assessed(Server()), (), stream, target_s=60.0)
    found = assessor()
    found.see([replace(gone(), reason='FATAL: password authentication failed for user "monitor"')])
    refused = found.assess(1.0, BEGAN)
    for other in (unknown, ServerView(refused, concerns(refused))):
        done = check([other, ServerView(warned, concerns(warned))], LIMITS)
        assert done.status is Nagios.WARNING
        assert '"etl"' in done.text
        assert " known" in done.text


def test_what_was_asked_for_and_is_not_known_is_unknown() -> None:
    seen = assessed(Server())
    broken = ServerView(seen, (), StreamState(StreamPhase.BROKEN, "must be replication role"), target_s=60.0)
    done = check([broken], LIMITS)
    assert done.status is Nagios.UNKNOWN
    assert "must be replication role" in done.text
    unasked = check([replace(broken, target_s=None)], LIMITS)
    assert unasked.status is Nagios.OK
    assert "no concern; db1: not seen: how long recovery takes" in unasked.text
    assert "not seen" not in check([CALM], LIMITS).text
    blind = ServerView(assessed(Server(lists_files=False), room_bytes=64 << 30), ())
    assert check([blind], Thresholds()).status is Nagios.UNKNOWN
    off = check([replace(broken, stream=StreamState(StreamPhase.OFF))], LIMITS)
    assert off.status is Nagios.OK  # the operator has turned it off
    assert "no concern; db1: not seen: how long recovery takes" in off.text
    assert CALM.seen.archive is not None
    unread = replace(CALM.seen, archive=replace(CALM.seen.archive, waiting=None))
    said = check([replace(CALM, seen=unread)], LIMITS)
    assert "no concern; db1: not seen: what waits for the archive" in said.text
    assert CALM.seen.look is not None
    hidden = replace(CALM.seen.look, lacks=("standbys: pg_monitor is not granted",))
    said = check([replace(CALM, seen=replace(CALM.seen, look=hidden))], LIMITS)
    assert said.status is Nagios.OK
    assert "no concern; db1: not seen: how late standbys are" in said.text
    look = Server().look(0)
    standby = assessor()
    standby.see(
        [replace(look, is_in_recovery=True, lacks=("the arrival of WAL: pg_monitor is not granted",))]
    )
    said = check([ServerView(standby.assess(0.0, BEGAN), ())], LIMITS)
    assert said.status is Nagios.OK
    assert "db1: not seen: whether WAL arrives: pg_monitor is not granted" in said.text
    assert failed("no | such").text == "WALPROOF UNKNOWN - no / such"


def test_a_stream_is_not_said_to_be_missing_where_there_is_none() -> None:
    look = replace(Server().look(0), is_in_recovery=True)
    found = assessor()
    found.see([look])
    standby_view = ServerView(found.assess(0.0, BEGAN), (), StreamState(StreamPhase.BROKEN))
    off = replace(CALM, stream=StreamState(StreamPhase.OFF))
    broken = replace(CALM, stream=StreamState(StreamPhase.BROKEN))
    for server, is_said in ((standby_view, False), (off, False), (broken, True), (CALM, True)):
        text = generate_latest(registry(partial(list, (server,)))).decode()
        assert ("walproof_stream_live{" in text) is is_said


def test_metrics_are_what_prometheus_reads() -> None:
    text = generate_latest(registry(lambda: [CALM, TROUBLED])).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    names = {row.name.removesuffix("_total") for row in METRICS}
    assert set(found) == names
    recovery = {
        sample.labels["cache"]: sample.value for sample in found["walproof_crash_recovery_seconds"].samples
        if sample.value == 90.0
    }  # fmt: skip
    assert recovery == {"warm": 90.0, "cold": 90.0}
    held = found["walproof_slot_held_bytes"].samples
    assert [(segment.labels["slot"], segment.value) for segment in held] == [('a "quoted" name', 61 * MB)]
    assert found["walproof_archive_failures"].type == "counter"


def test_a_metric_names_each_concern_once() -> None:
    twice = replace(TROUBLED, concerns=(*TROUBLED.concerns, *TROUBLED.concerns))
    text = generate_latest(registry(lambda: [twice])).decode()
    told = [line for line in text.splitlines() if line.startswith("walproof_concern{")]
    assert 'walproof_concern{concern="archiver",server="db1",severity="critical"} 1.0' in told
    assert len(told) == len({concern.key for concern in TROUBLED.concerns})


def test_a_lag_whose_age_is_not_known_has_bytes_and_no_age() -> None:
    """An age of 0 s ended the alert on a standby that was late whenever walproof was started again."""
    paused = Server(standby=lambda lsn, _second: standby(lsn, lsn, lsn - 10240 * MB))
    for seconds, age in ((0, None), (2, None), (14, "14.0")):
        shown = view(paused, seconds=seconds)
        text = generate_latest(registry(partial(list, (shown,)))).decode()
        ages = re.findall(r'standby_lag_seconds\{server="db1",standby="a"\} (.+)', text)
        assert ages == ([] if age is None else [age])
        assert 'walproof_standby_lag_bytes{server="db1",stage="replay",standby="a"} 1.07' in text


def test_a_server_that_does_not_answer_has_no_figures_of_its_last_look() -> None:
    found = assessor()
    found.see([Server(slots=[slot()]).look(second) for second in range(31)])
    found.see([gone(BEGAN + 31)])
    seen = found.assess(35.0, BEGAN + 35)
    away = ServerView(seen, concerns(seen), StreamState(StreamPhase.BROKEN), target_s=60.0)
    text = generate_latest(registry(lambda: [away])).decode()
    told = {line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")}
    assert told == {
        "walproof_up", "walproof_last_look_timestamp_seconds", "walproof_stream_live",
        "walproof_stream_received_bytes_total", "walproof_wal_written_bytes_total",
        "walproof_crash_recovery_target_seconds", "walproof_concerns",
        "walproof_concern",
    }  # fmt: skip
    assert 'walproof_up{server="db1"} 0.0' in text
    assert 'walproof_last_look_timestamp_seconds{server="db1"} 1.79000003e+09' in text


def test_names_of_metrics_follow_the_convention() -> None:
    """Base units last; a counter ends with total (Prometheus, "Metric and label naming")."""
    for row in METRICS:
        assert re.fullmatch(r"walproof_[a-z_]+", row.name)
        assert row.about.endswith(".")
        base = row.name.removesuffix("_total")
        units = (
            "_seconds",
            "_bytes",
            "_segments",
            "_up",
            "_live",
            "_active",
            "_failures",
            "_concerns",
            "_concern",
        )
        assert base.endswith(units), row.name


def test_a_lost_machine_is_not_said_to_be_quicker_without_its_sync() -> None:
    crash = clock(90.0)
    synced = replace(crash, sync=SyncForecast(Span(3.0, 1.0, 9.0), "fsync", 1000, None, True))
    text = plain_text([view(Server(), crash=synced)], is_first=False)
    (lost,) = (line for line in text.splitlines() if "if the machine were lost" in line)
    assert lost.endswith("plus the sync of the data directory, which is not estimated for a cold cache")
    assert "plus the sync" not in plain_text([view(Server(), crash=crash)], is_first=False)
    assert "expected between 1 min 04 s and 2 min 06 s" in text


def panel(shown: ServerView, label: str) -> str:
    return next(f"{found.figure}; {found.remark}" for found in panels(shown) if found.label == label)


def test_rates_say_over_how_many_seconds_they_were_taken() -> None:
    """A look of few seconds, such as --once has, gives segments instead of a rate, and judges no archive."""
    behind = Server(wal_bytes_per_s=80 * MB, archived_share=0.0)
    once = view(behind, seconds=5)
    assert panel(once, "archive").endswith("25 made, 0 archived in 5 s, too short for a rate")
    assert panel(once, "pg_wal").startswith("560 MB; 80.0 MB/s of WAL over 5 s")
    assert not once.concerns
    longer = view(behind, seconds=30)
    assert "300/min made, 0/min archived, over 30 s" in panel(longer, "archive")
    assert [concern.key for concern in longer.concerns] == ["archiver"]
    assert panel(view(Server(), seconds=5), "archive").endswith("; less than one segment of WAL in 5 s")


@pytest.mark.parametrize(
    ("written", "age_s", "words"),
    [
        (320, 355, "none needed: next to nothing written since the last; 320 B of WAL"),
        (320, 100, "by time in 3 min 20 s"),
        (9000, 355, "running or due"),  # An image of a page: it may be running.
        (12 * MB, 355, "running or due"),
    ],
)
def test_an_idle_server_needs_no_checkpoint(written: int, age_s: int, words: str) -> None:
    """PostgreSQL skips one that is due by time where nothing important was written since the last."""
    found = assessor()
    for second in (0, 2):
        look = Server(wal_bytes_per_s=0).look(second)
        begun = WatchedCheckpoint((look.lsn or 0) - written, BEGAN + 2 - age_s, 1)
        found.see([replace(look, checkpoint=begun)])
    shown = ServerView(found.assess(2.0, BEGAN + 2), ())
    assert panel(shown, "next checkpoint").startswith(words)
    needless = watch_data(shown)["checkpoint"]["is_needless"]
    assert needless is words.startswith("none needed")


def test_a_standby_that_was_behind_before_anybody_looked_is_not_said_to_keep_up() -> None:
    paused = Server(standby=lambda lsn, _second: standby(lsn, lsn, lsn - 10240 * MB))
    for seconds in (0, 2, 11):
        assert panel(view(paused, seconds=seconds), "standby a") == (
            "10.0 GB behind (replay); for how long is not known yet"
        )
    assert panel(view(paused, seconds=13), "standby a") == (
        "at least 13 s behind (replay); not catching up; 10.0 GB"
    )
    # As far behind as a message is old: the position was passed while somebody looked.
    busy = Server(standby=lambda lsn, _second: standby(lsn, lsn, lsn - MB))
    assert panel(view(busy, seconds=2), "standby a") == "keeps up; 1.00 MB on the way"


def test_a_rate_of_the_wal_is_printed_once() -> None:
    causes = WalCauses(12.0, 2.0 * MB, 0.5, 10.0, (), {}, 12.0, ())
    both = replace(view(Server(), seconds=14), causes=causes)
    assert "of WAL over" not in panel(both, "pg_wal")
    assert panel(both, "WAL").startswith("2.00 MB/s over 12 s; ")


def test_names_of_a_server_are_plain_text_on_one_line() -> None:
    """Brackets are no markup, a terminal obeys nothing, and a line stays one."""
    name = "shop: public.x[/y]\x1b[31m\nz"
    cause = WalCause((1, 2, 3), name, "table", 2.0 * MB, 1.0, 0.5, 1.0)
    causes = WalCauses(12.0, 2.0 * MB, 0.5, 10.0, (cause,), {}, 12.0, ())
    hostile = replace(
        view(Server(slots=[slot("[dc1]\x1b")])), causes=causes, notes=("[/note]\x1b\nof two lines",)
    )
    for text in (page([hostile], 200), page([hostile], 60), plain_text([hostile], is_first=True)):
        words = " ".join(text.split())
        assert "shop: public.x[/y]?[31m z 2.00 MB/s" in words
        assert '"[dc1]?"' in words
        assert "[/note]? of two lines" in words
        assert "\x1b" not in text
    lines = plain_text([hostile], is_first=True).splitlines()
    assert all(line.startswith("db1: ") for line in lines)

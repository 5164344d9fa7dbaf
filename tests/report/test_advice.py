"""Advice as a page, as Markdown and JSON, and beside an earlier answer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.advise.server.stored import HEALTHY, PROVOKED, cases
from tests.advise.server.windows import healthy, with_settings
from tests.schemas import assert_valid
from walproof.advise.server.advice import Advice, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.server.rules import RULES, Advised, advise
from walproof.errors import ReportError
from walproof.facts.server import UNSHOWN_STANDBYS, ServerStandby
from walproof.platforms.recognised import choose
from walproof.platforms.registry import platform
from walproof.report.advice.json import to_json
from walproof.report.advice.page import to_html, to_markdown
from walproof.report.advice.since import Earlier, earlier_of_one, since, with_since
from walproof.report.advice.terminal import print_advice
from walproof.report.advice.view import AdviceView, advice_view, amount, change


def _advised(**settings: str) -> Advised:
    return advise(ServerCase(with_settings(healthy(), **settings)))


def test_a_healthy_server_is_told_to_change_nothing() -> None:
    view = advice_view(advise(cases(HEALTHY)["idle"], ("minors",)), platform("conf"))
    assert view.summary.startswith("Change nothing: ")
    assert view.all_lines is None


def test_every_heading_has_words_and_something_below_it() -> None:
    view = advice_view(advise(cases(HEALTHY)["idle"], ("minors",)), platform("conf"))
    assert view.fine
    for shown in (view, replace(view, fine=())):
        assert re.findall(r"(?m)^#+ *$", to_markdown(shown)) == []
        assert "<caption></caption>" not in to_html(shown)
        assert ("## What is fine" in to_markdown(shown)) == bool(shown.fine)


def test_the_lines_are_for_the_standbys_that_were_seen_as_well() -> None:
    window = with_settings(healthy(), log_checkpoints="off")
    pair = replace(window, standbys=(ServerStandby("b", "streaming", "async", 0),))
    # A role without pg_monitor sees that somebody streams, and no more.
    hidden = replace(window, lacks=(f"standbys: {UNSHOWN_STANDBYS}",))
    unread = replace(window, lacks=("standbys: permission denied",))
    each = (window, pair, hidden, unread)
    told = [advice_view(advise(ServerCase(one)), platform("alter-system")) for one in each]
    notes = [" ".join(view.all_lines.notes) for view in told if view.all_lines is not None]
    assert ["Standbys have settings of their own" in note for note in notes] == [False, True, True, False]


def test_a_server_whose_wal_nobody_read_is_not_told_to_change_nothing() -> None:
    first, last = healthy().looks
    quiet = replace(healthy(), looks=(first, replace(last, lsn=first.lsn)))
    asked = replace(with_settings(quiet, wal_compression="off"), is_wal_refused=True, role='"Ro le"')
    view = advice_view(advise(ServerCase(asked)), platform("conf"))
    assert view.summary.startswith("Nothing found, but the WAL could not be read, and the rules that usually")
    assert view.summary.endswith('ALTER ROLE "Ro le" REPLICATION; GRANT pg_monitor TO "Ro le";')
    reasons = {rule.rule: rule.reason for rule in view.unseen}
    assert reasons["wal_compression"] == reasons["hint images"] == "the WAL was not recorded"
    # Nobody there can grant it like this; an administrator grants pg_monitor.
    assert "ALTER ROLE" not in advice_view(advise(ServerCase(asked)), platform("rds")).summary
    lacking = ServerCase(replace(asked, role_lacks=("REPLICATION", "pg_monitor")))
    hosted = advice_view(advise(lacking), platform("rds")).summary
    assert hosted.endswith('What the role lacks to see all statistics: GRANT pg_monitor TO "Ro le";')
    neon = advice_view(advise(lacking), platform("values"), choose(None, ("neon.tenant_id",))).summary
    assert neon.endswith('GRANT pg_monitor TO "Ro le";')
    assert "ALTER ROLE" not in neon
    # Recorded, and nothing was written.
    seen = advice_view(advise(ServerCase(replace(asked, is_wal_refused=False))), platform("conf"))
    assert seen.summary.startswith("Change nothing: ")
    assert {rule.reason for rule in seen.unseen} >= {"too little WAL was written in the window"}
    # Advice does not hide it either.
    some = advice_view(
        advise(ServerCase(with_settings(asked, log_checkpoints="off", fsync="off"))), platform("conf")
    )
    assert "The WAL could not be read. If a right is missing: ALTER ROLE" in some.summary


def test_what_a_provider_does_not_take_is_known_and_not_counted_as_to_do() -> None:
    broken = with_settings(healthy(), autovacuum="off", fsync="off", log_checkpoints="off")
    case = ServerCase(broken, is_hosted=True)
    view = advice_view(advise(case, ("minors",)), platform("azure"))
    # fsync is read-only there, the others are not.
    assert view.summary.startswith(
        "2 things to do (1 dangerous and 1 missing evidence); one thing (1 dangerous) known, but not settable"
    )
    alone = ServerCase(with_settings(healthy(), fsync="off"), is_hosted=True)
    told = advice_view(advise(alone, ("minors",)), platform("azure")).summary
    assert told.startswith("Nothing to do that this platform takes: one thing (1 dangerous) known, but not")
    # A list that is not whole says nothing about what the platform takes.
    told = advice_view(advise(alone, ("minors",)), platform("cloudsql")).summary
    assert told.startswith("Nothing to do that walproof has a line for here: one thing (1 dangerous) known, ")
    assert "not settable" not in told
    # Who has the machine changes it there.
    assert advice_view(advise(alone, ("minors",)), platform("cnpg")).summary.startswith("One thing to do (1")


def test_nobody_is_sent_to_a_providers_machine() -> None:
    old = with_settings(healthy("16.2"), fsync="off")
    own, hosted = (
        to_markdown(advice_view(advise(ServerCase(old, is_hosted=is_hosted)), platform("rds")))
        for is_hosted in (False, True)
    )
    for words in ("initdb --sync-only", "The data directory stays"):
        assert words in own
        assert words not in hosted
    assert "Have the provider update to 16." in hosted


def test_rights_are_not_asked_for_where_they_would_not_help() -> None:
    asked = replace(healthy(), is_wal_refused=True, role="r")
    assert "ALTER ROLE" in advice_view(advise(ServerCase(asked)), platform("conf")).summary
    closed = with_settings(asked, max_wal_senders="0")
    summary = advice_view(advise(ServerCase(closed)), platform("conf")).summary
    assert "ALTER ROLE" not in summary
    assert "max_wal_senders is 0" in summary
    standby = replace(asked, is_in_recovery=True)
    assert "ALTER ROLE" not in advice_view(advise(ServerCase(standby)), platform("conf")).summary


@pytest.mark.parametrize(
    ("lacks", "words"),
    [
        (("REPLICATION",), "What the role lacks: ALTER ROLE r REPLICATION;"),
        (("REPLICATION", "pg_monitor"), "ALTER ROLE r REPLICATION; GRANT pg_monitor TO r;"),
        ((), "could not look."),
    ],
)
def test_only_what_the_role_lacks_is_to_be_granted(lacks: tuple[str, ...], words: str) -> None:
    """A line of pg_hba.conf may be missing instead, which no grant replaces."""
    asked = replace(healthy(), is_wal_refused=True, role="r", role_lacks=lacks)
    summary = advice_view(advise(ServerCase(asked)), platform("conf")).summary
    assert summary.endswith(words), summary
    assert ("GRANT" in summary, "ALTER ROLE" in summary) == ("pg_monitor" in lacks, "REPLICATION" in lacks)


def test_a_setting_of_the_command_line_is_not_in_the_lines_to_paste() -> None:
    window = with_settings(healthy(), autovacuum="off", log_checkpoints="off")
    started = replace(window.settings["autovacuum"], source="command line")
    window = replace(window, settings={**window.settings, "autovacuum": started})
    view = advice_view(advise(ServerCase(window)), platform("alter-system"))
    assert view.all_lines is not None
    assert "autovacuum" not in view.all_lines.apply
    assert "log_checkpoints" in view.all_lines.apply
    assert "autovacuum = on is left out: the server was started with it" in to_markdown(view)
    (item,) = [item for item in view.items if item.advice.rule == "autovacuum"]
    assert item.takes_effect_by == "-"


def test_the_undo_of_a_role_without_pg_monitor_keeps_what_is_set() -> None:
    """pg_settings tells such a role the value and its source, and no file."""
    window = with_settings(healthy(), log_checkpoints="off", wal_compression="off")
    hidden = replace(window.settings["log_checkpoints"], source="configuration file", file=None)
    window = replace(window, settings={**window.settings, "log_checkpoints": hidden})
    view = advice_view(advise(ServerCase(window)), platform("alter-system"))
    assert view.all_lines is not None
    assert "ALTER SYSTEM SET log_checkpoints = 'off';" in view.all_lines.undo
    assert any("cannot see which file sets log_checkpoints." in note for note in view.all_lines.notes)


def test_an_archiver_whose_backlog_may_not_be_seen_is_not_fine() -> None:
    window = with_settings(healthy(), archive_mode="on")
    unseen = replace(window, looks=tuple(replace(look, unarchived=None) for look in window.looks))
    advised = advise(ServerCase(unseen))
    assert "archiver" not in {rule.rule for rule in advised.fine}
    assert "archiver" in {rule.rule for rule in advised.unseen}


def test_addresses_of_sources_are_links_in_markdown() -> None:
    said = to_markdown(advice_view(_advised(log_checkpoints="off", fsync="off"), platform("aurora")))
    assert "Source: <https://www.postgresql.org/docs/" in said
    assert "is left out: " in said
    assert "\u2060" not in said


def _plain(view: AdviceView) -> str:
    return to_markdown(view).replace("\\_", "_")


def test_an_item_says_what_its_lines_set_and_what_they_need() -> None:
    provoked = cases(PROVOKED)
    view = advice_view(advise(provoked["slots/provoked"]), platform("alter-system"))
    (slots,) = (item for item in view.items if item.advice.rule == "slots")
    (change,) = slots.advice.changes
    assert slots.takes_effect_by == "reload"
    assert f"{change.name} becomes {change.value} (now {slots.before[change.name]})." in _plain(view)
    # ALTER SYSTEM reloads what a session could change, too.
    view = advice_view(advise(provoked["wal_compression/provoked"]), platform("alter-system"))
    (item,) = (item for item in view.items if item.advice.rule == "wal_compression")
    assert item.context.startswith("session")
    assert item.takes_effect_by == "reload"


def test_advice_that_is_little_sure_says_how_to_be_surer() -> None:
    window = with_settings(healthy(), wal_compression="off")
    first, last = window.looks
    counters = {**last.counters, "wal_fpi": first.counters["wal_fpi"] + 20_000}
    short = replace(window, looks=(first, replace(last, counters=counters)))
    said = _plain(advice_view(advise(ServerCase(short)), platform("conf")))
    (chosen,) = (item for item in advise(ServerCase(short)).advice if item.rule == "wal_compression")
    measure = (
        "walproof workload DSN --to load, then walproof compare --load load/load.toml --set "
        f"wal_compression={chosen.changes[0].value}"
    )
    assert (
        f"look for a whole checkpoint cycle (--for 15min), or measure it under a load like yours: {measure}"
        in said
    )
    long = replace(short, looks=(first, replace(short.looks[1], at=first.at + 3600)))
    said = _plain(advice_view(advise(ServerCase(long)), platform("conf")))
    assert "--for 15min" not in said
    assert measure in said
    items = json.loads(to_json(advice_view(advise(ServerCase(short)), platform("conf"))))["advice"]
    surer = {item["rule"]: item["surer"] for item in items}
    assert surer["wal_compression"].endswith(measure)
    sure = json.loads(to_json(advice_view(_advised(fsync="off"), platform("conf"))))["advice"]
    assert [item["surer"] for item in sure if item["sure"] == "high"] == [None]


@pytest.mark.parametrize(
    ("name", "case", "said"),
    [
        ("conf", "max_wal_size/provoked", "SELECT pg_reload_conf(); afterwards."),
        ("patroni", "wal_level/provoked", "In force after patronictl restart CLUSTER --pending: wal_level"),
        ("rds", "wal_compression/provoked", "The default parameter group cannot be changed"),
        ("cloudsql", "max_wal_size/provoked", "A patch replaces all flags"),
        ("cnpg", "wal_level/provoked", "restarts the instances one after the other for: wal_level"),
    ],
)
def test_what_to_know_before_applying_the_lines_is_in_the_json(name: str, case: str, said: str) -> None:
    view = advice_view(advise(cases(PROVOKED)[case]), platform(name))
    data = json.loads(to_json(view))
    assert_valid("advise", data)
    assert any(said in note for note in data["lines_notes"]), data["lines_notes"]
    assert any(said in note for item in data["advice"] for note in item["lines_notes"])
    for item, told in zip(view.items, data["advice"], strict=True):
        assert told["lines_notes"] == ([] if item.lines is None else list(item.lines.told))


@pytest.mark.parametrize("name", ["patroni", "azure", "cloudsql", "alter-system"])
def test_lines_of_a_terminal_can_be_pasted(name: str) -> None:
    """A here-document ends at the first column alone, and a line end inside a command ends it."""
    view = advice_view(_advised(log_checkpoints="off", max_wal_size="64MB"), platform(name))
    assert view.all_lines is not None
    out = StringIO()
    print_advice(view, Console(width=40, file=out))
    assert f"\nTo apply:\n{view.all_lines.apply}\nTo undo:\n{view.all_lines.undo}\n" in out.getvalue()


def test_rules_with_nothing_to_look_at_are_named_with_the_reason() -> None:
    view = advice_view(_advised(archive_mode="off"), platform("conf"))
    said = "archiver (archive_mode is off)"
    assert said in _plain(view)
    assert said in to_html(view).replace("<wbr>", "")
    console = Console(width=400, record=True, file=StringIO())
    print_advice(view, console)
    assert "Nothing to look at for " in (text := console.export_text())
    assert said in text
    data = json.loads(to_json(view))
    assert_valid("advise", data)
    assert {"rule": "archiver", "reason": "archive_mode is off"} in data["absent"]
    standby = replace(healthy(), is_in_recovery=True)
    stored = [*cases(HEALTHY).values(), *cases(PROVOKED).values(), ServerCase(standby), ServerCase(healthy())]
    for advised in map(advise, stored):
        parts = (advised.advice, advised.fine, advised.unseen, advised.absent)
        assert sorted(answer.rule for part in parts for answer in part) == sorted(RULES)
        assert all(rule.reason for rule in advised.absent), advised.absent
    on_standby = {rule.rule: rule.reason for rule in advise(ServerCase(standby)).absent}
    assert on_standby["flushes"] == on_standby["max_wal_size"] == "the server is a standby"


def test_what_a_platform_refuses_is_said_and_not_in_its_lines() -> None:
    advised = _advised(fsync="off", checkpoint_completion_target="0.5")
    view = advice_view(advised, platform("azure"))
    assert view.all_lines is not None
    assert "fsync" not in view.all_lines.apply
    assert "checkpoint_completion_target" in view.all_lines.apply
    assert "fsync = on is left out: it is on and read-only there" in to_markdown(view).replace("\\", "")


def test_names_of_a_hostile_server_make_no_markup() -> None:
    advised = _advised(synchronous_standby_names="<script>alert(1)</script>", synchronous_commit="local")
    view = advice_view(advised, platform("conf"))
    assert "<script>alert" not in to_html(view)
    assert "<script>alert" not in to_markdown(view)


def test_an_earlier_answer_is_compared_by_rule(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(to_json(advice_view(_advised(fsync="off", log_checkpoints="off"), platform("conf"))))
    now = _advised(log_checkpoints="off", autovacuum="off")
    compared = since(earlier_of_one(before), now.advice)
    assert compared.new == ("Turn autovacuum on",)
    assert compared.still == ("Set log_checkpoints = on",)
    assert compared.gone == ("Turn fsync on",)
    assert len(compared.sentences) == 4
    muted = with_since(advice_view(now, platform("conf")), now.advice, earlier_of_one(before), ["fsync"])
    assert muted.since[-1] == "Not looked at this time: Turn fsync on."


def test_other_advice_of_a_rule_is_new_and_what_was_not_looked_at_is_not_gone() -> None:
    """A slot that was lost since was "still open", and a rule without WAL had "no longer advised"."""
    lost = Advice("slots", Weight.DANGER, "Bring back the standby of a lost slot", ("x",))
    larger = Advice("max_wal_size", Weight.GAIN, "Double max_wal_size, to 4096 MB", ("x",))
    graver = Advice("archiver", Weight.DANGER, "Repair it", ("x",))
    before = Earlier(
        "Monday",
        {
            "slots": "Limit what slots may keep", "max_wal_size": "Double max_wal_size, to 2048 MB",
            "archiver": "Repair it", "wal_compression": "Set wal_compression = lz4", "fsync": "Turn fsync on",
        },
        {"slots": "danger", "max_wal_size": "gain", "archiver": "gain"},
    )  # fmt: skip
    compared = since(before, (lost, larger, graver), {"wal_compression"})
    assert compared.new == (
        "Bring back the standby of a lost slot (before: Limit what slots may keep)",
        "Repair it (before: a gain)",
    )
    assert compared.still == ("Double max_wal_size, to 4096 MB",)
    assert compared.gone == ("Turn fsync on",)
    assert compared.sentences[-1] == "Not looked at this time: Set wal_compression = lz4."


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "dateline": "x", "advice": [1]}', "[" * 9999]
)
def test_what_is_no_earlier_answer_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "before.json"
    path.write_text(text)
    with pytest.raises(ReportError):
        earlier_of_one(path)
    assert json.loads(to_json(advice_view(_advised(), platform("conf"))))["advice"] == []


def test_large_figures_can_be_read() -> None:
    assert amount(5_469_210.2, "/h") == "5,469,210/h"
    assert amount(9_999.0, "/h") == "9999/h"
    assert amount(43.0, "s") == "43 s"
    assert change(100.0, 60.0) == "-40 %"
    assert change(100.0, 250.0) == "+150 %"
    assert change(16.0, 4096.0) == "256 times"

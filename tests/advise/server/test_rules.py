"""Each rule fires on what provokes it, and is silent on its neighbour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.advise.server.windows import (
    DAY_S,
    found,
    healthy,
    setting,
    with_counters,
    with_growth,
    with_settings,
)  # fmt: skip
from walproof.advise.server.advice import Advice, Fine, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.advise.server.rules import RULES, advise, rule_texts
from walproof.errors import SettingError
from walproof.facts.server import (
    ServerIndex,
    ServerOverride,
    ServerSlot,
    ServerStandby,
    ServerTable,
    ServerWindow,
)
from walproof.facts.transactions import HorizonHolder, PreparedTransaction
from walproof.settings.durability import DurabilityClass

VERSIONS = ("13.23", "14.23", "15.18", "16.14", "17.11", "18.6", "19.0")


def _index(name: str, scans: int, *, needed: bool = False) -> ServerIndex:
    return ServerIndex(f"public.{name}", "public.t", 50 << 20, scans, needed, False, 17000)


def _table(**changes: object) -> ServerTable:
    table = ServerTable("public.t", 1 << 30, False, 10**6, 10**6, 100_000, 0, 10**6, 100)
    return replace(table, **changes)  # type: ignore[arg-type]


def _pending(window: ServerWindow) -> ServerWindow:
    changed = setting("wal_buffers", "16MB", window.version_num, is_pending=True)
    return replace(window, settings={**window.settings, "wal_buffers": changed})


def _archiving(
    window: ServerWindow, failed_at: float | None, archived_at: float | None, waiting: int
) -> ServerWindow:
    told = {"last_archive_failure_at": failed_at, "last_archived_at": archived_at, "archive_failures": 7.0}
    window = with_counters(
        with_settings(window, archive_mode="on"),
        {name: value for name, value in told.items() if value is not None},
    )
    first, last = window.looks
    return replace(window, looks=(first, replace(last, unarchived=waiting)))


Change = Callable[[ServerWindow], ServerWindow]


def _freezing_at(window: ServerWindow, age: int) -> ServerWindow:
    return with_settings(window, autovacuum_freeze_max_age=str(age))


def _aged(age: int) -> ServerTable:
    return ServerTable("public.old", 5 << 30, False, 0, 0, 0, 0, 10**8, 100, None, 16500, age)


def _staged(deleted: int) -> ServerTable:
    return ServerTable("public.stage", 1 << 20, False, 10**6, 0, 0, deleted, 10_000, 100)


def _prepared(age_s: float) -> PreparedTransaction:
    return PreparedTransaction("'it''s forgotten'", "shop", "orders", age_s, 120_000)


def _idle(since_s: float) -> HorizonHolder:
    return HorizonHolder("session", "4711", "idle in transaction", since_s, 2 * 10**7)


PROVOKED: dict[str, tuple[Change, Change]] = {
    "fsync": (lambda w: with_settings(w, fsync="off"), lambda w: w),
    "full_page_writes": (lambda w: with_settings(w, full_page_writes="off"), lambda w: w),
    "wal_level": (lambda w: with_settings(w, wal_level="minimal"), lambda w: w),
    "synchronous_commit": (
        lambda w: with_settings(w, synchronous_commit="off"),
        lambda w: with_settings(w, synchronous_commit="remote_apply"),
    ),
    "checksums": (
        lambda w: with_counters(w, {"checksum_failures": 2.0}),
        lambda w: with_settings(w, data_checksums="off"),
    ),
    "unlogged": (
        lambda w: replace(w, tables=(_table(is_unlogged=True),)),
        lambda w: replace(w, tables=(_table(is_unlogged=True, bytes=0), _table(hot_updated=10**6))),
    ),
    "pending": (_pending, lambda w: w),
    "autovacuum": (lambda w: with_settings(w, autovacuum="off"), lambda w: w),
    "minors": (
        lambda w: replace(w, version="18.4", version_num=180004),
        lambda w: replace(w, version="18.6", version_num=180006),
    ),
    "slots": (
        lambda w: replace(
            w, slots=(ServerSlot("etl", "logical", False, False, 52 << 30, "extended", 9 * DAY_S),)
        ),
        lambda w: replace(w, slots=(ServerSlot("etl", "logical", True, False, 52 << 30, "extended"),)),
    ),
    "archiver": (
        lambda w: _archiving(w, 1_795_000_500.0, 1_794_990_000.0, 40),
        lambda w: _archiving(w, 1_794_000_000.0, 1_795_000_500.0, 1),
    ),
    "standbys": (
        lambda w: replace(w, standbys=(ServerStandby("b", "streaming", "async", 5 << 30),)),
        lambda w: replace(w, standbys=(ServerStandby("b", "streaming", "async", 5 << 20),)),
    ),
    "prepared transactions": (
        lambda w: replace(w, prepared=(_prepared(2 * DAY_S),)),
        lambda w: replace(w, prepared=(_prepared(30.0),)),
    ),
    "horizon": (
        lambda w: replace(w, horizon=(_idle(3 * DAY_S),)),
        lambda w: replace(w, horizon=(_idle(60.0),)),
    ),
    "max_wal_size": (
        lambda w: with_counters(with_settings(w, max_wal_size="256MB"), {"checkpoints_requested": 4000.0}),
        lambda w: with_counters(w, {"checkpoints_requested": 50.0}),
    ),
    "checkpoint_completion_target": (
        lambda w: with_settings(w, checkpoint_completion_target="0.5"),
        lambda w: w,
    ),
    "writes of sessions": (
        lambda w: with_growth(w, backend_buffers=10.0, backend_fsyncs=7.0, checkpoint_buffers=1e5),
        lambda w: with_growth(w, backend_buffers=10.0, backend_fsyncs=0.0, checkpoint_buffers=1e5),
    ),
    "wal_compression": (
        lambda w: with_counters(with_settings(w, wal_compression="off"), {"wal_fpi": 16000.0}),
        lambda w: with_counters(with_settings(w, wal_compression="off"), {"wal_fpi": 1500.0}),
    ),
    "flushes": (
        lambda w: replace(
            w, waits={"IO/WALSync": 30, "LWLock/WALWrite": 20, "Timeout/CommitDelay": 30, "running": 120}
        ),
        lambda w: replace(w, waits={"IO/WALSync": 10, "running": 190}),
    ),
    "wal_buffers": (
        lambda w: with_counters(w, {"wal_buffers_full": 5000.0}),
        lambda w: with_counters(w, {"wal_buffers_full": 100.0}),
    ),
    "commit_delay": (
        lambda w: with_counters(with_settings(w, commit_delay="1000"), {"wal_flushes": 3.5e5}),
        lambda w: with_counters(with_settings(w, commit_delay="1000"), {"wal_flushes": 3.1e5}),
    ),
    "unused indexes": (
        lambda w: replace(w, indexes=(_index("old", 0),)),
        lambda w: replace(w, indexes=(_index("old", 3), _index("unique", 0, needed=True))),
    ),
    "HOT updates": (
        lambda w: replace(w, tables=(_table(),)),
        lambda w: replace(w, tables=(_table(fillfactor=80), _table(updated=500))),
    ),
    "overrides": (
        lambda w: replace(w, overrides=(ServerOverride("shop", None, "synchronous_commit", "off"),)),
        lambda w: replace(w, overrides=(ServerOverride("shop", None, "synchronous_commit", "local"),)),
    ),
    "freezing": (
        lambda w: replace(_freezing_at(w, 190_000_000), tables=(_aged(160_000_000),)),
        lambda w: replace(_freezing_at(w, 190_000_000), tables=(_aged(130_000_000),)),
    ),
    "staging": (
        lambda w: replace(w, tables=(_staged(deleted=0),)),
        lambda w: replace(w, tables=(_staged(deleted=990_000),)),
    ),
    "recovery_prefetch": (lambda w: with_settings(w, recovery_prefetch="off"), lambda w: w),
    "log_checkpoints": (lambda w: with_settings(w, log_checkpoints="off"), lambda w: w),
}
NEED_WAL = {"random keys", "hint images", "startup budget"}
"""tests/advise/test_provoked.py asks these."""
ALLOWED = {"flushes": DurabilityClass.LAST_COMMITS, "staging": DurabilityClass.TABLE}


def test_every_rule_is_provoked_and_described() -> None:
    assert set(PROVOKED) | NEED_WAL == set(RULES) == set(rule_texts())


@pytest.mark.parametrize("rule", PROVOKED)
def test_it_fires_on_what_provokes_it_and_is_silent_on_its_neighbour(rule: str) -> None:
    provoke, neighbour = PROVOKED[rule]
    may_lose = ALLOWED.get(rule, DurabilityClass.NONE)
    fired = found(rule, provoke(healthy()), may_lose=may_lose)
    assert isinstance(fired, Advice), fired
    assert fired.rule == rule
    assert fired.evidence
    assert not isinstance(found(rule, neighbour(healthy()), may_lose=may_lose), Advice)


@pytest.mark.parametrize(
    ("target", "is_fine"), [("0.9", True), ("0.95", True), ("0.96", False), ("1.0", False)]
)
def test_checkpoints_need_time_to_flush(target: str, is_fine: bool) -> None:
    told = found(
        "checkpoint_completion_target", with_settings(healthy(), checkpoint_completion_target=target)
    )
    assert isinstance(told, Fine) is is_fine
    if isinstance(told, Advice):
        assert told.changes[0].value == "0.9"
        assert "no time left to flush" in told.evidence[0]


def test_a_table_is_due_by_what_is_nearest_and_costs_what_is_not_frozen() -> None:
    # Its multixacts, TOAST table or own limit may be nearer than its transactions.
    due = replace(_aged(1000), freeze_share=0.8, frozen_bytes=15 << 28)
    told = found("freezing", replace(healthy(), tables=(due,)))
    assert told is None or isinstance(told, Unseen), "without the limit nothing is known"
    told = found("freezing", replace(_freezing_at(healthy(), 200_000_000), tables=(due,)))
    assert isinstance(told, Advice)
    assert "80 % of the way" in told.evidence[0]
    assert "up to 1.25 GB of WAL" in told.evidence[1]
    assert told.unknown == ("other databases than shop",)
    frozen = replace(due, frozen_bytes=5 << 30)
    assert isinstance(found("freezing", replace(_freezing_at(healthy(), 10**8), tables=(frozen,))), Fine)


@pytest.mark.parametrize(
    ("name", "step"),
    [("fsync", "-- initdb --sync-only -D DATA_DIRECTORY"), ("full_page_writes", "CHECKPOINT;")],
)
def test_what_was_written_unprotected_is_protected_by_a_step(name: str, step: str) -> None:
    advice = found(name, with_settings(healthy(), **{name: "off"}))
    assert isinstance(advice, Advice)
    assert f"once {name} is on" in advice.steps[0]
    assert advice.steps[-1].startswith(step)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_healthy_server_gets_no_advice(version: str) -> None:
    # Support of a version ends whatever the server does.
    muted = ["minors"] if version.startswith(("13.", "14.")) else []
    advised = advise(ServerCase(healthy(version)), muted)
    assert [advice.title for advice in advised.advice] == []
    assert len(advised.fine) >= 15


def test_danger_comes_first_and_then_what_saves_most() -> None:
    window = with_settings(healthy(), fsync="off", checkpoint_completion_target="0.5", log_checkpoints="off")
    advised = advise(ServerCase(window))
    assert [advice.weight for advice in advised.advice] == [Weight.DANGER, Weight.GAIN, Weight.EVIDENCE]


def test_what_the_owner_allows_is_no_danger() -> None:
    off = with_settings(healthy(), synchronous_commit="off")
    assert isinstance(found("synchronous_commit", off, may_lose=DurabilityClass.LAST_COMMITS), Fine)
    unlogged = replace(healthy(), tables=(_table(is_unlogged=True),))
    assert isinstance(found("unlogged", unlogged, may_lose=DurabilityClass.TABLE), Fine)


def test_an_empty_unlogged_table_is_no_danger() -> None:
    """Its TOAST index has a page, and no statistics say that rows pass through it."""
    empty = _table(is_unlogged=True, bytes=16384, inserted=0, live=0, rows_bytes=0)
    assert found("unlogged", replace(healthy(), tables=(empty,))) is None
    filled = replace(empty, rows_bytes=8192)
    assert isinstance(found("unlogged", replace(healthy(), tables=(filled,))), Advice)


def test_advice_that_risks_commits_needs_leave() -> None:
    waiting = PROVOKED["flushes"][0](healthy())
    assert isinstance(found("flushes", waiting), Fine)
    fired = found("flushes", waiting, may_lose=DurabilityClass.LAST_COMMITS)
    assert isinstance(fired, Advice)
    assert fired.durability is DurabilityClass.LAST_COMMITS


def test_young_statistics_accuse_no_index() -> None:
    young = replace(healthy(), indexes=(_index("old", 0),), reset_at=healthy().looks[0].at - DAY_S)
    assert isinstance(found("unused indexes", young), Unseen)
    unknown = replace(young, reset_at=None, started_at=None)
    assert isinstance(found("unused indexes", unknown), Unseen)


def test_counters_that_were_reset_within_the_window_say_nothing() -> None:
    assert isinstance(found("wal_buffers", with_counters(healthy(), {"wal_buffers_full": 0.0})), Unseen)


def test_a_rule_without_its_view_says_so() -> None:
    bare = replace(healthy(), settings={}, looks=(), slots=(), tables=(), indexes=(), waits={})
    advised = advise(ServerCase(bare))
    assert advised.advice == ()
    assert {unseen.rule for unseen in advised.unseen} >= {
        "fsync",
        "max_wal_size",
        "wal_compression",
        "archiver",
    }


def test_a_list_that_could_not_be_read_is_no_list_of_nothing() -> None:
    lock = "canceling statement due to lock timeout"
    window = replace(healthy(), tables=(), lacks=(f"tables: {lock}", "standbys: pg_monitor is not granted"))
    advised = advise(ServerCase(window))
    unseen = {answer.rule: answer.reason for answer in advised.unseen}
    for rule in ("unlogged", "HOT updates", "staging"):
        assert unseen[rule] == f"tables could not be read: {lock}"
    assert "standbys" in unseen
    assert not {answer.rule for answer in advised.absent} & set(unseen)
    # What was seen of a part counts.
    part = replace(window, tables=(_table(is_unlogged=True),))
    assert "unlogged" in {advice.rule for advice in advise(ServerCase(part)).advice}


def test_a_forgotten_transaction_is_ended_by_hand_alone() -> None:
    window = replace(healthy(), prepared=(_prepared(30.0), _prepared(2 * DAY_S)))
    advice = found("prepared transactions", window)
    assert isinstance(advice, Advice)
    assert advice.changes == ()
    assert advice.evidence[0] == (
        "'it''s forgotten' of shop in database orders: prepared 48 h 00 min ago, 120,000 transactions old."
    )
    assert "-- ROLLBACK PREPARED 'it''s forgotten';  -- in orders, of shop" in advice.steps
    hostile = replace(_prepared(2 * DAY_S), gid="'a\n; DROP TABLE t; --'")
    advice = found("prepared transactions", replace(window, prepared=(hostile,)))
    assert isinstance(advice, Advice)
    assert all(line.startswith("--") for step in advice.steps for line in step.splitlines())
    assert "\n" not in advice.evidence[0]


def test_muted_rules_are_not_asked_and_wrong_names_are_refused() -> None:
    case = ServerCase(with_settings(healthy(), fsync="off"))
    assert advise(case, ["fsync"]).advice == ()
    with pytest.raises(SettingError, match='no rule "fsink"'):
        advise(case, ["fsink"])


def test_an_index_that_only_a_standby_reads_is_none_to_drop() -> None:
    window = replace(
        healthy(),
        indexes=(replace(_index("old", 0), age=10**9),),
        standbys=(ServerStandby("b", "streaming", "async", 0),),
    )
    alone = found("unused indexes", window)
    assert isinstance(alone, Advice)
    assert alone.sure is Sure.LOW
    asked = found("unused indexes", window.with_scans({}, 30 * 86400.0))
    assert isinstance(asked, Advice)
    assert asked.sure is Sure.MEDIUM
    assert any("1 standby" in evidence for evidence in asked.evidence)
    read = window.with_scans({window.indexes[0].name: 3}, 86400.0)
    assert isinstance(found("unused indexes", read), Fine)


@pytest.mark.parametrize(
    ("done", "waiting", "words"),
    [
        (None, 4, "none since its statistics begin"),
        (-600.0, 18, "none for 10 min"),
        (-30.0, 5, None),
        (None, 1, None),
    ],
)
def test_an_archiver_that_archives_nothing_does_not_work(
    done: float | None, waiting: int, words: str | None
) -> None:
    looks = healthy().looks
    archived_at = None if done is None else looks[-1].at + done
    window = _archiving(healthy(), None, archived_at, waiting)
    unset = replace(setting("archive_mode", "on"), value="", source="default")
    window = replace(window, settings={**window.settings, "archive_command": unset})
    advice = found("archiver", window)
    assert isinstance(advice, Advice) is (words is not None), advice
    if isinstance(advice, Advice):
        assert words is not None
        assert words in advice.evidence[0]
        assert advice.evidence[1] == "No archive_command is set."


def test_an_archiver_that_only_reports_success_is_a_danger() -> None:
    """With archive_command = '/bin/true' nothing fails and nothing waits: it worked, said the answer."""
    window = PROVOKED["archiver"][1](healthy())
    fine = found("archiver", replace(window, is_archive_void=False))
    assert fine == Fine("archiver", "The archiver reports success; segments that wait for it: 1.")
    advice = found("archiver", replace(window, is_archive_void=True))
    assert isinstance(advice, Advice)
    assert "archives nothing" in advice.evidence[0]


def test_an_archiver_that_has_nothing_to_do_on_a_standby_is_not_repaired() -> None:
    """It failed while the server was the primary; nothing waits for it now, unless it archives always."""
    failed = replace(_archiving(healthy(), 1_795_000_500.0, 1_794_990_000.0, 40), is_in_recovery=True)
    assert found("archiver", failed) is None
    always = replace(failed, settings=with_settings(failed, archive_mode="always").settings)
    assert isinstance(found("archiver", always), Advice)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("13.7", "PostgreSQL 13 is supported until 2025-11-13"),
        ("14.24", "PostgreSQL 14 is supported until 2026-11-12"),
        ("15.5", "15 minor releases came after 15.5"),
        ("15.18", None),
        ("16.15", None),
    ],
)
def test_versions_without_support_and_old_minors_are_named(version: str, words: str | None) -> None:
    advice = found("minors", healthy(version))
    assert isinstance(advice, Advice) is (words is not None), advice
    if isinstance(advice, Advice):
        assert words is not None
        assert advice.evidence[0].startswith(words)


def test_who_waited_for_a_flush_is_told_by_role() -> None:
    window = replace(
        healthy(), waits={"IO/WALSync": 90, "running": 10}, flush_waits={'"Shop"': 80, "report": 10}
    )
    advice = found("flushes", window, may_lose=DurabilityClass.LAST_COMMITS)
    assert isinstance(advice, Advice)
    assert any('"Shop" (89 %) and report (11 %)' in sentence for sentence in advice.evidence)
    assert advice.steps[0] == 'ALTER ROLE "Shop" SET synchronous_commit = off;'
    assert 'ALTER ROLE "Shop" RESET synchronous_commit;' in advice.steps
    # The lines to paste would set it for every other role, too.
    assert advice.changes == ()


@pytest.mark.parametrize(
    ("role", "database", "line"),
    [
        ("shop", None, "ALTER ROLE shop RESET synchronous_commit;"),
        (None, "db", "ALTER DATABASE db RESET synchronous_commit;"),
        ("shop", "db", "ALTER ROLE shop IN DATABASE db RESET synchronous_commit;"),
        (None, None, "ALTER ROLE ALL RESET synchronous_commit;"),
    ],
)
def test_a_setting_is_reset_where_it_was_set(role: str | None, database: str | None, line: str) -> None:
    override = ServerOverride(role, database, "synchronous_commit", "off")
    advice = found("overrides", replace(healthy(), overrides=(override,)))
    assert isinstance(advice, Advice)
    assert advice.steps == (line,)
    window = replace(healthy(), overrides=(override,))
    assert isinstance(found("overrides", window, may_lose=DurabilityClass.LAST_COMMITS), Fine)

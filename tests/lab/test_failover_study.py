"""A study of failover: what its variants risk, and what of their settings is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from walproof.errors import StudyError
from walproof.facts import Install, Plan
from walproof.lab.asked import Overrides
from walproof.lab.reading import check_study
from walproof.lab.study import resolve
from walproof.settings.durability import DurabilityClass

STUDY: dict[str, Any] = {"name": "mine", "title": "?", "failover": {}, "workload": [{"name": "ledger"}]}


def planned(install: Install, tables: dict[str, Any], **overrides: Any) -> Plan:
    study = check_study({**STUDY, **tables}, "test")
    return resolve(study, Overrides(**overrides), folder=Path("/somewhere"), given=(install,))


@pytest.mark.parametrize(
    ("settings", "durability"),
    [
        ({}, DurabilityClass.NONE),
        ({"synchronous_commit": "remote_write"}, DurabilityClass.NONE),
        ({"standbys": "any 2 of 3"}, DurabilityClass.NONE),
        ({"synchronous_commit": "local"}, DurabilityClass.LAST_COMMITS),
        ({"synchronous_commit": "no"}, DurabilityClass.LAST_COMMITS),
        ({"standbys": "cascade"}, DurabilityClass.LAST_COMMITS),
        ({"synchronous_commit": "local", "fsync": "off"}, DurabilityClass.CORRUPT),
    ],
)
def test_a_class_covers_the_failover(
    embedded: Install, settings: dict[str, str], durability: DurabilityClass
) -> None:
    """``local`` is safe on a server alone: answers ranked it beside levels that lose nothing, and named it as
    the fastest of them."""
    plan = planned(embedded, {"variant": [{"name": "a", "settings": settings}]})
    assert plan.variant("a").durability is durability


def test_a_level_of_the_base_counts(embedded: Install) -> None:
    base = {"synchronous_commit": "local"}
    plan = planned(embedded, {"base": base, "factors": {"distance": ["0", "5ms"]}})
    assert {variant.durability for variant in plan.variants} == {DurabilityClass.LAST_COMMITS}


SYNCHRONOUS = {"synchronous_standby_names": "*"}


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"base": SYNCHRONOUS}, "the first commit would wait for ever with synchronous_standby_names=*"),
        ({"variant": [{"name": "a", "settings": SYNCHRONOUS}]}, "the first commit would wait for ever"),
        ({"base": {"wal_level": "minimal"}}, "a standby cannot be made with wal_level=minimal"),
        ({"base": {"max_wal_senders": "0"}}, "a standby cannot stream with max_wal_senders=0"),
        ({"base": {"max_replication_slots": "0"}}, "a standby cannot stream with max_replication_slots=0"),
        ({"base": {"recovery_target_lsn": "0/1"}}, "a standby does not replay all WAL with"),
        (
            {"base": {"hot_standby": "no"}, "factors": {"standbys": ["one", "any 2 of 3"]}},
            "the standby that has most WAL cannot be found with hot_standby=no",
        ),
        (
            {"base": {"hot_standby": "off"}, "factors": {"standbys": ["one", "cascade"]}},
            "no standby can follow a standby with hot_standby=off",
        ),
        (
            {"base": {"max_wal_senders": "2"}, "factors": {"standbys": ["one", "any 2 of 3"]}},
            "three standbys cannot stream with max_wal_senders=2",
        ),
    ],
)
def test_what_no_trial_could_run_with_is_refused(
    embedded: Install, tables: dict[str, Any], says: str
) -> None:
    """With names of standbys in [base] the first commit waited without end, for standbys to be made after
    it."""
    with pytest.raises(StudyError, match=re.escape(says)):
        planned(embedded, {"variant": [{"name": "a"}], **tables} if "factors" not in tables else tables)


def test_what_is_off_is_no_name_of_standbys(embedded: Install) -> None:
    base = {"synchronous_standby_names": "", "hot_standby": "off"}
    assert planned(embedded, {"base": base, "variant": [{"name": "a"}]}).variants


def test_one_sender_is_enough_for_one_standby(embedded: Install) -> None:
    few = {"max_wal_senders": "1", "max_replication_slots": "1"}
    assert planned(embedded, {"base": few, "variant": [{"name": "a"}]}).variants


@pytest.mark.parametrize(
    ("tables", "overrides", "says"),
    [
        ({}, {"duration_s": 60.0}, "--duration has no meaning in a study of failover"),
        ({}, {"warmup_s": 5.0}, "--warmup has no meaning in a study of failover"),
        (
            {"workload": [{"name": "ledger", "clients": 8, "duration": "60s"}]},
            {},
            'workload "ledger" of a study of failover has clients and duration',
        ),
    ],
)
def test_what_would_not_change_the_load_is_refused(
    embedded: Install, tables: dict[str, Any], overrides: dict[str, Any], says: str
) -> None:
    """The primary was loaded for five seconds by four sessions, whatever was asked."""
    with pytest.raises(StudyError, match=re.escape(says)):
        planned(embedded, {"variant": [{"name": "a"}], **tables}, **overrides)

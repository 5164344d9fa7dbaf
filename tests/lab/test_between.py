"""A study whose standbys may be on other hosts: which variants it gets, how many hosts, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from walproof.errors import StudyError
from walproof.facts import FailoverConditions, Install, Plan, StreamingConditions
from walproof.lab.asked import Overrides
from walproof.lab.between import lacks_tls, standby_hosts
from walproof.lab.reading import check_study
from walproof.lab.study import read_study, resolve

FAILOVER: dict[str, Any] = {"name": "mine", "title": "?", "failover": {}, "workload": [{"name": "ledger"}]}


def planned(install: Install, study: dict[str, Any] | str, *, between: bool = True) -> Plan:
    read = read_study(study)[0] if isinstance(study, str) else check_study(study, "test")
    return resolve(read, Overrides(between=between), folder=Path("/somewhere"), given=(install,))


def far(plan: Plan) -> list[str]:
    return [variant.name for variant in plan.variants if getattr(variant.conditions, "between_hosts", False)]


def test_each_variant_that_emulates_nothing_runs_once_more(embedded: Install) -> None:
    plan = planned(embedded, "replication-behind")
    assert far(plan) == ["default, between hosts", "replay has 3 % of a core, between hosts"]
    assert plan.baseline == "default"
    assert standby_hosts(plan) == 1
    near = planned(embedded, "replication-behind", between=False)
    assert standby_hosts(near) == 0
    assert len(near.variants) + 2 == len(plan.variants)


def test_a_factor_gets_a_level(embedded: Install) -> None:
    plan = planned(embedded, "synchronous")
    assert plan.factors["distance"] == ("0ms", "5ms", "hosts")
    assert len(far(plan)) == 5
    added = planned(embedded, {**FAILOVER, "factors": {"synchronous_commit": ["on", "off"]}})
    assert added.factors["distance"] == ("0ms", "hosts")
    assert len(far(added)) == 2


def test_a_study_may_name_hosts_itself(embedded: Install) -> None:
    variant = [{"name": "near"}, {"name": "far", "settings": {"distance": "hosts"}}]
    for between in (True, False):
        assert far(planned(embedded, {**FAILOVER, "variant": variant}, between=between)) == ["far"]


def test_a_quorum_needs_four_hosts_in_all(embedded: Install) -> None:
    assert standby_hosts(planned(embedded, "synchronous-quorum")) == 3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"distance": "hosts", "bandwidth": "1MB/s"}, "bandwidth cannot be emulated between hosts"),
        ({"distance": "hosts", "standby_device": "flush=1ms"}, "standby_device cannot be emulated"),
        ({"standbys": "seven"}, 'standbys cannot be "seven"'),
    ],
)
def test_what_cannot_be(embedded: Install, settings: dict[str, str], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        planned(embedded, {**FAILOVER, "variant": [{"name": "x", "settings": settings}]}, between=False)


@pytest.mark.parametrize("kind", [FailoverConditions, StreamingConditions])
def test_servers_of_two_hosts_need_tls(
    embedded: Install, monkeypatch: pytest.MonkeyPatch, kind: type[FailoverConditions | StreamingConditions]
) -> None:
    monkeypatch.setattr("walproof.lab.between.has_tls", lambda _: False)
    said = f"PostgreSQL {embedded.label} was built without TLS, which servers of two hosts need"
    assert lacks_tls(kind(between_hosts=True), embedded) == said
    assert lacks_tls(kind(), embedded) is None
    monkeypatch.setattr("walproof.lab.between.has_tls", lambda _: True)
    assert lacks_tls(kind(between_hosts=True), embedded) is None


def test_only_studies_with_standbys(embedded: Install) -> None:
    with pytest.raises(StudyError, match="has no standbys"):
        planned(embedded, "wal-level")


def test_a_live_stream_has_one_standby(embedded: Install) -> None:
    study = {
        "name": "mine", "title": "?", "streaming": {}, "workload": [{"name": "w", "duration": "1s"}],
        "variant": [{"name": "x", "settings": {"standbys": "cascade"}}],
    }  # fmt: skip
    with pytest.raises(StudyError, match="standbys has no meaning in a study of a live stream"):
        planned(embedded, study, between=False)

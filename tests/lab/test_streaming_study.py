"""A study of a live stream becomes a plan; what has no meaning is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from walproof.errors import StudyError
from walproof.facts import Install, Plan, Streaming, StreamingConditions
from walproof.lab.asked import Asked, Overrides
from walproof.lab.kinds.streaming.stream import catch_up_patience_s
from walproof.lab.kinds.streaming.study import check_streaming
from walproof.lab.reading import check_study
from walproof.lab.study import read_study, resolve

STUDY: dict[str, Any] = {
    "name": "mine",
    "title": "?",
    "streaming": {"preloaded_rows": 1000, "rows_per_commit": 100},
    "quick": {"duration": "1s"},
    "workload": [{"name": "full", "clients": 2, "duration": "5s"}, {"name": "offered", "rate": 4}],
    "variant": [{"name": "plain"}, {"name": "summed", "settings": {"data_checksums": "on"}}],
}


def _plan(install: Install, changes: dict[str, Any] | None = None, **overrides: Any) -> Plan:
    study = check_study({**STUDY, **(changes or {})}, "test")
    return resolve(study, Overrides(**overrides), folder=Path("/somewhere"), given=(install,))


def test_streams_rates_and_checksums_are_resolved(embedded: Install) -> None:
    plan = _plan(embedded)
    assert plan.kind == Streaming(1000, 100)
    assert [(w.clients, w.rate_tps, w.duration_s, w.protocol) for w in plan.workloads] == [
        (2, None, 5.0, "prepared"), (1, 4.0, 60.0, "prepared"),
    ]  # fmt: skip
    assert [variant.conditions_as(StreamingConditions).checksums for variant in plan.variants] == [
        False,
        True,
    ]
    assert plan.variants[1].settings == {}
    assert [w.duration_s for w in _plan(embedded, quick=True).workloads] == [1.0, 1.0]


def test_link_and_share_of_a_core_are_no_settings(embedded: Install) -> None:
    held = {"replay_cpu": "2.5 %", "bandwidth": "3MB/s", "distance": "25ms", "data_checksums": "on"}
    plan = _plan(embedded, {"variant": [{"name": "plain"}, {"name": "held", "settings": held}]})
    plain, variant = plan.variants
    assert plain.conditions == StreamingConditions()
    assert variant.settings == {}
    assert variant.conditions == StreamingConditions(
        checksums=True, distance_s=0.025, bandwidth_bytes_per_s=3 << 20, replay_cpu_share=0.025
    )


def test_the_built_in_study_has_the_published_figures_of_two_variants(embedded: Install) -> None:
    study, _, folder = read_study("replication-live")
    plan = resolve(study, Overrides(), folder=Path("/somewhere"), scripts=folder, given=(embedded,))
    full = plan.workloads[0].name
    assert [reference.variant for reference in plan.references_of(full)] == ["default", "wal_compression=on"]
    assert not plan.references_of(plan.workloads[1].name)
    assert plan.workloads[1].rate_tps is not None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"workload": [{"name": "w", "builtin": "tpcb-like"}]}, "script of its own"),
        ({"workload": [{"name": "w", "transactions": 10}]}, "no fixed length"),
        ({"workload": [{"name": "w", "warmup": "2s"}]}, "no fixed length"),
        ({"variant": [{"name": "v", "settings": {"cache": "cold"}}]}, "cache has no meaning"),
        ({"variant": [{"name": "v", "settings": {"kernel_audit": "quiet"}}]}, "kernel_audit has no meaning"),
        ({"variant": [{"name": "v", "settings": {"wal_level": "minimal"}}]}, "cannot be made with"),
        ({"base": {"MAX_WAL_SENDERS": "0"}}, "cannot stream with MAX_WAL_SENDERS=0"),
        ({"base": {"recovery_target": "immediate"}}, "does not replay all WAL"),
        ({"variant": [{"name": "v", "settings": {"standby_device": "hdd-7200"}}]}, "standby_device has no"),
        ({"variant": [{"name": "v", "settings": {"replay_cpu": "0%"}}]}, 'replay_cpu cannot be "0%"'),
        ({"variant": [{"name": "v", "settings": {"replay_cpu": "half"}}]}, 'replay_cpu cannot be "half"'),
        ({"variant": [{"name": "v", "settings": {"replay_cpu": "101%"}}]}, 'replay_cpu cannot be "101%"'),
        ({"variant": [{"name": "v", "settings": {"bandwidth": "1B/s"}}]}, 'bandwidth "1B/s" is impossible'),
        ({"streaming": {"rows_per_commit": 1}}, "mistake"),
    ],
)
def test_what_has_no_meaning_is_refused(embedded: Install, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(StudyError, match=says):
        _plan(embedded, changes)


def test_an_emulated_disk_is_refused(embedded: Install) -> None:
    with pytest.raises(StudyError, match="--device has no meaning"):
        _plan(embedded, device="hdd-7200")


def test_a_pgbench_without_pipelines_is_refused(embedded: Install) -> None:
    old = replace(embedded, version="13.7", version_num=130007)
    with pytest.raises(StudyError, match=r"pgbench 13\.7 cannot make the load"):
        check_streaming(Asked(check_study(STUDY, "test"), Overrides(), Path(), old))


def test_a_long_load_is_given_long_to_be_caught_up() -> None:
    """3 % of a core replayed 6,000 of 20,000 rows/s: of a load of three minutes 400 s of work were left, more
    than anybody waited, and each trial of the variant that the study is about had failed."""
    assert catch_up_patience_s(10.0) == 300.0
    assert catch_up_patience_s(180.0) > 180.0 * (20_000 - 6_000) / 6_000


def test_a_warm_up_is_refused_on_the_command_line_too(embedded: Install) -> None:
    """It was counted as load, and said to be none."""
    with pytest.raises(StudyError, match="--warmup has no meaning in a study of a live stream"):
        _plan(embedded, warmup_s=2.0)
    assert [w.duration_s for w in _plan(embedded, duration_s=3.0).workloads] == [3.0, 3.0]

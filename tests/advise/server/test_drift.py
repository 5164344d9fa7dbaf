"""Settings that differ between a primary and its standbys."""

from __future__ import annotations

from dataclasses import replace

from tests.advise.server.windows import healthy, setting, with_settings
from walproof.advise.server.drift import clusters, drifts
from walproof.facts.server import ServerWindow


def _standby(window: ServerWindow) -> ServerWindow:
    return replace(window, is_in_recovery=True)


def test_what_a_failover_would_change_is_named() -> None:
    standby = _standby(with_settings(healthy(), max_wal_size="1GB", wal_compression="off"))
    found = drifts({"a": healthy(), "b": standby})
    assert [drift.name for drift in found] == ["max_wal_size", "wal_compression"]
    assert found[0].values == {"a": "8GB", "b": "1GB"}
    assert drifts({"a": healthy(), "b": _standby(healthy())}) == ()


def test_what_is_a_servers_own_or_a_sessions_is_no_drift() -> None:
    own = {name: setting(name, value) for name, value in (("port", "5433"), ("hot_standby_feedback", "on"))}
    session = replace(setting("work_mem", "1GB"), source="database")
    fixed = replace(setting("wal_segment_size", "64MB"), context="internal")
    primary = replace(
        healthy(),
        settings={
            **healthy().settings, "port": setting("port", "5432"), "work_mem": setting("work_mem", "4MB"),
            "hot_standby_feedback": setting("hot_standby_feedback", "off"),
        },
    )  # fmt: skip
    other = {**healthy().settings, **own, "work_mem": session, "wal_segment_size": fixed}
    assert drifts({"a": primary, "b": _standby(replace(healthy(), settings=other))}) == ()


def test_a_setting_that_one_of_them_does_not_show_is_left_out() -> None:
    hidden = {name: value for name, value in healthy().settings.items() if name != "max_wal_size"}
    assert drifts({"a": healthy(), "b": _standby(replace(healthy(), settings=hidden))}) == ()


def test_a_cluster_has_a_standby() -> None:
    a, b = healthy(), _standby(healthy())
    other = replace(healthy(), system_identifier="8")
    assert [list(found) for found in clusters({"a": a, "b": b, "c": other})] == [["a", "b"]]
    # The same server by another name, one whose identifier is not known, and an old standby's new home.
    assert clusters({"a": a, "again": a}) == ()
    unknown = replace(b, system_identifier=None)
    assert clusters({"a": replace(a, system_identifier=None), "b": unknown}) == ()
    assert clusters({"a": a, "b": _standby(healthy("17.5"))}) == ()

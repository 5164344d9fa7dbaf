"""What may move: by version, machine, promises, and what the user keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from walproof.advise.tune.space import Bounds, Capacity, SearchSpace, search_space
from walproof.advise.tune.starts import as_start, own_conf, with_unsearched_kept
from walproof.analysis.tuning.space import Space
from walproof.errors import SettingError
from walproof.facts.tuning import Candidate, Limit, Objective, Promises, TuningPlan
from walproof.platforms.registry import refusal_there
from walproof.settings.catalogue import Catalogue
from walproof.settings.change import Change
from walproof.settings.durability import DurabilityClass

GB = 1 << 30
MACHINE = Capacity(16 * GB, 200 * GB)
SAFE = Promises(DurabilityClass.NONE)
LOSING = Promises(DurabilityClass.LAST_COMMITS)


def _space(
    version: int = 18,
    promises: Promises = SAFE,
    *,
    machine: Capacity = MACHINE,
    clients: int = 20,
    keep: Mapping[str, str] | None = None,
    only: tuple[str, ...] | None = None,
    refused: tuple[str, ...] = (),
    toggles: bool = True,
    platform: str = "conf",
) -> SearchSpace:
    number = version * 10000
    bounds = Bounds(
        number, machine, promises, clients, lambda _, value: value not in refused, keep or {},
        lambda name, value: refusal_there(platform, number, Change(name, value)),
    )  # fmt: skip
    return search_space(bounds, only=only, toggles=toggles)


def _choices(space: SearchSpace) -> dict[str, tuple[str, ...]]:
    return {factor.setting: factor.choices for factor in space.factors}


@pytest.mark.parametrize("version", [13, 14, 15, 16, 17, 18, 19])
def test_every_choice_is_a_value_of_the_version_and_the_default_is_among_them(version: int) -> None:
    catalogue = Catalogue.for_version(version * 10000)
    for factor in _space(version, LOSING).factors:
        assert factor.default in factor.choices
        normal = [catalogue.normalise(factor.setting, value) for value in factor.choices]
        assert len(set(normal)) == len(normal)


@pytest.mark.parametrize(
    ("promises", "name", "value", "is_too_large"),
    [
        (SAFE, "shared_buffers", "7TB", True),
        (replace(SAFE, memory_bytes=1 << 30), "shared_buffers", "7TB", False),
        (SAFE, "max_wal_size", "500TB", True),
        (replace(SAFE, wal_disk_bytes=2 << 30), "max_wal_size", "500TB", False),
        (SAFE, "fsync", "off", False),
        (SAFE, "shared_buffers", "128MB", False),
    ],
)
def test_a_line_that_only_this_machine_cannot_try_is_told_from_one_that_breaks_a_promise(
    promises: Promises, name: str, value: str, is_too_large: bool
) -> None:
    bounds = Bounds(180000, MACHINE, promises, 20, lambda *_: True, {})
    assert bounds.is_too_large_here(name, value) is is_too_large


def test_nothing_may_be_lost_so_nothing_that_loses_is_there() -> None:
    space = _space()
    assert {"synchronous_commit", "fsync", "full_page_writes", "wal_writer_delay"}.isdisjoint(_choices(space))
    why = {unmoved.setting: unmoved for unmoved in space.not_moved}
    assert why["synchronous_commit"].limit is Limit.MAY_LOSE
    assert why["synchronous_commit"].value == "off"
    assert why["wal_writer_delay"].reason == "it does nothing without synchronous_commit=off"


@pytest.mark.parametrize("only", [None, ("commit_delay",), ("min_wal_size", "max_wal_size")])
def test_every_setting_that_moves_is_tried(only: tuple[str, ...] | None) -> None:
    """Also where it needs another one that nobody moves, and that has what it needs by default."""
    factors = _space(only=only).factors
    space = Space(TuningPlan(factors, {}, (), SAFE, Objective("tps", True), 600.0, 1))
    near = list(space.neighbours(Candidate.of({})))
    tried = {name for one in near for other in (one, *space.neighbours(one)) for name in other.conf}
    assert tried == {factor.setting for factor in factors}


def test_a_neighbour_that_a_cap_makes_of_several_values_comes_once() -> None:
    """min_wal_size acts up to max_wal_size: above it every value is the same server."""
    space = Space(TuningPlan(_space().factors, {}, (), SAFE, Objective("tps", True), 600.0, 1))
    near = list(space.neighbours(Candidate.of({})))
    assert len(near) == len(set(near))


def test_what_may_be_lost_brings_its_settings() -> None:
    found = _choices(_space(promises=LOSING))
    assert found["synchronous_commit"] == ("off", "on")
    assert "wal_writer_delay" in found
    assert "fsync" not in found
    assert {"fsync", "full_page_writes"} <= set(_choices(_space(promises=Promises(DurabilityClass.CORRUPT))))


@pytest.mark.parametrize(
    ("version", "refused", "expected"),
    [
        (13, (), ("off", "on")),
        (15, (), ("off", "pglz", "lz4", "zstd")),
        (18, ("lz4", "zstd"), ("off", "pglz")),
        (19, (), ("off", "pglz", "lz4", "zstd")),
    ],
)
def test_compression_by_version_and_build(
    version: int, refused: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert _choices(_space(version, refused=refused))["wal_compression"] == expected


def test_sizes_by_promise_and_by_the_disk_here() -> None:
    assert _choices(_space(promises=replace(SAFE, wal_disk_bytes=3 * GB)))["max_wal_size"][-1] == "2GB"
    assert _choices(_space(promises=replace(SAFE, wal_disk_bytes=2 * GB)))["max_wal_size"][-1] == "1GB"
    space = _space(machine=Capacity(16 * GB, 10 * GB))
    assert _choices(space)["max_wal_size"][-1] == "4GB"
    assert {unmoved.limit for unmoved in space.not_moved if unmoved.setting == "max_wal_size"} == {None}


def test_buffers_by_the_memory_that_a_server_may_take() -> None:
    """256 MB of buffers, 8 MB of WAL buffers and 20 sessions of 8 MB are more than 400 MB."""
    machine = Capacity(4 * GB, 200 * GB)
    assert _choices(_space(machine=machine))["shared_buffers"] == (
        "128MB", "224MB", "480MB", "1024MB", "1632MB",
    )  # fmt: skip
    space = _space(machine=machine, promises=replace(SAFE, memory_bytes=400 << 20))
    assert _choices(space)["shared_buffers"] == ("128MB", "224MB")
    assert _choices(space)["wal_buffers"] == ("-1", "1MB", "16MB", "64MB")
    why = {unmoved.value: unmoved for unmoved in space.not_moved if unmoved.setting == "shared_buffers"}
    assert {unmoved.limit for unmoved in why.values()} == {Limit.MEMORY}
    assert why["480MB"].reason == "with it a server takes 655 MB, and may take 400 MB"


def test_nothing_is_toggled_under_an_offered_rate() -> None:
    assert {factor.design for factor in _space().factors} == {"fresh", "toggled"}
    offered = _space(toggles=False)
    assert {factor.design for factor in offered.factors} == {"fresh"}
    assert _choices(offered) == _choices(_space())


def test_a_few_clients_have_no_use_for_commit_delay() -> None:
    assert "commit_delay" not in _choices(_space(clients=5))
    assert "commit_delay" in _choices(_space(clients=6))


def test_min_wal_size_acts_up_to_max_wal_size_and_where_segments_are_recycled() -> None:
    """XLOGfileslop: what max_wal_size allows is the end of it."""
    small = _space(keep={"max_wal_size": "1GB"})
    assert _choices(small)["min_wal_size"] == ("80MB", "512MB", "1GB")
    (left,) = [unmoved for unmoved in small.not_moved if unmoved.value == "4GB"]
    assert left.reason == "it acts up to max_wal_size, which is 1GB at most"
    assert "min_wal_size" not in _choices(_space(keep={"max_wal_size": "80MB"}))
    assert "4GB" not in _choices(_space(only=("min_wal_size", "commit_delay")))["min_wal_size"]
    assert "min_wal_size" not in _choices(_space(keep={"wal_recycle": "off"}))
    factors = _space(only=("min_wal_size", "max_wal_size", "wal_recycle")).factors
    plan = TuningPlan(factors, {}, (), SAFE, Objective("tps", True), 600.0, 1)
    space = Space(plan)

    def lines(**values: str) -> dict[str, str]:
        return space.candidate(values).conf

    large = {"min_wal_size": "4GB", "max_wal_size": "8GB"}
    assert lines(**large) == large
    assert lines(**large, wal_recycle="off") == {"max_wal_size": "8GB", "wal_recycle": "off"}
    assert lines(min_wal_size="4GB") == {"min_wal_size": "1GB"}
    assert lines(min_wal_size="1GB", max_wal_size="256MB") == {"max_wal_size": "256MB"}
    assert space.without(Candidate.of(large), "max_wal_size").conf == {"min_wal_size": "1GB"}
    # The user's own, in megabytes.
    own = Candidate.of({"min_wal_size": "3000", "max_wal_size": "2048"})
    space = Space(replace(plan, starts=(own,)))
    assert space.candidate(own.conf).conf == {"min_wal_size": "1GB", "max_wal_size": "2048"}
    assert all(space.candidate(space.values(each)) == each for each in space.everything())


def test_what_the_platform_refuses_does_not_move() -> None:
    space = _space(17, platform="azure")
    why = {unmoved.setting: unmoved for unmoved in space.not_moved if unmoved.limit is Limit.PLATFORM}
    whole = {"wal_sync_method", "wal_init_zero", "wal_recycle", "checkpoint_flush_after"}
    assert set(why) == {*whole, "wal_compression"}
    assert whole.isdisjoint(_choices(space))
    assert {why[name].value for name in whole} == {None}
    assert why["wal_recycle"].reason.startswith("it is on and read-only there (MicrosoftDocs/")
    # Below 18 a line can only say on, which is pglz.
    assert _choices(space)["wal_compression"] == ("off", "pglz")
    assert _choices(_space(18, platform="azure"))["wal_compression"] == ("off", "pglz", "lz4", "zstd")
    assert _choices(_space(14, platform="azure"))["wal_compression"] == ("off", "on")
    assert set(_choices(_space(platform="aurora"))) == {
        "wal_buffers",
        "shared_buffers",
        "backend_flush_after",
    }
    # What may not be lost is told by its own limit.
    assert not [each for each in _space(platform="rds").not_moved if each.limit is Limit.PLATFORM]


def test_what_the_platform_has_and_does_not_change_stays_in_every_configuration() -> None:
    conf = {"wal_sync_method": "fdatasync", "max_wal_size": "6GB", "wal_compression": "off"}

    def there(name: str, value: str) -> str | None:
        return refusal_there("azure", 170000, Change(name, value))

    found = own_conf(conf, 170000, lambda *_: True, None, there)
    assert found.kept == {"wal_sync_method": "fdatasync"}
    assert found.moved == {"max_wal_size": "6GB", "wal_compression": "off"}


def test_kept_and_only() -> None:
    space = _space(keep={"wal_compression": "lz4"}, only=("max_wal_size", "commit_delay"))
    assert set(_choices(space)) == {"max_wal_size", "commit_delay"}
    with pytest.raises(SettingError, match="both in --only and kept"):
        _space(keep={"max_wal_size": "1GB"}, only=("max_wal_size",))
    with pytest.raises(SettingError, match='no tuning moves "work_mem"'):
        _space(only=("work_mem",))
    with pytest.raises(SettingError, match='unrecognized configuration parameter "max_wal_siz"'):
        _space(only=("max_wal_siz",))
    with pytest.raises(SettingError, match="no setting is left") as refused:
        _space(only=("fsync",))
    assert "fsync = off: " in (refused.value.detail or "")
    assert (refused.value.hint or "").startswith("Promise less (--may-lose")


def test_a_conf_is_parted_into_what_moves_and_what_stays() -> None:
    conf = {
        "max_wal_size": "6GB", "shared_buffers": "128MB", "work_mem": "64MB", "port": "5433",
        "wal_compression": "zstd", "archive_command": "cp %p /x", "pg_stat_statements.max": "5",
        "wal_siz": "1",
    }  # fmt: skip
    found = own_conf(conf, 180000, lambda _, value: value != "zstd")
    assert found.moved == {"max_wal_size": "6GB", "shared_buffers": "128MB"}
    assert found.kept == {"work_mem": "64MB"}
    assert {text.split(":")[0] for text in found.left_out} == {
        "port", "wal_compression", "archive_command", "pg_stat_statements.max", "wal_siz",
    }  # fmt: skip
    assert own_conf(conf, 180000, lambda *_: True, ("max_wal_size",)).kept == {
        "work_mem": "64MB", "shared_buffers": "128MB", "wal_compression": "zstd",
    }  # fmt: skip
    # Without a line a server has the default, which is what it had, or what is kept.
    assert found.replaced({}, 180000) == {"max_wal_size": "1GB"}
    assert found.replaced({"shared_buffers": "1GB", "max_wal_size": "6GB"}, 180000) == {
        "shared_buffers": "1GB"
    }
    # A value between two choices is kept as it was written; a default is no line.
    assert as_start(found.moved, _space().factors, 180000) == Candidate.of({"max_wal_size": "6GB"})


def test_own_lines_that_no_search_moves_are_in_every_configuration() -> None:
    """Nothing is known against them: a synchronous_commit about standbys, a commit_delay for few clients."""
    lines = {
        "synchronous_commit": "remote_apply", "commit_delay": "200", "wal_writer_delay": "10ms",
        "max_wal_size": "6GB", "wal_recycle": "on",
    }  # fmt: skip
    own = own_conf(lines, 180000, lambda *_: True)
    bounds = Bounds(180000, MACHINE, LOSING, 4, lambda *_: True, {})
    searched = {factor.setting for factor in search_space(bounds).factors}
    found = with_unsearched_kept(own, searched, bounds)
    assert found.kept == {"synchronous_commit": "remote_apply", "commit_delay": "200"}
    assert "wal_writer_delay" in found.moved
    # Nothing needs it any more, once synchronous_commit is not off in any configuration.
    bounds = replace(bounds, keep=found.kept)
    searched = {factor.setting for factor in search_space(bounds).factors}
    assert "wal_writer_delay" in with_unsearched_kept(found, searched, bounds).kept
    # What breaks a promise, and what somebody asked for, is not kept.
    strict = replace(bounds, promises=SAFE, keep={})
    off = own_conf({"synchronous_commit": "off"}, 180000, lambda *_: True)
    assert with_unsearched_kept(off, set(), strict) == off
    asked = own_conf({"synchronous_commit": "local"}, 180000, lambda *_: True, ("synchronous_commit",))
    assert with_unsearched_kept(asked, asked.moved.keys(), strict, ("synchronous_commit",)) == asked


@pytest.mark.parametrize(("value", "is_searched"), [("remote_apply", True), ("local", True), ("off", False)])
def test_commit_delay_acts_with_every_commit_that_waits(value: str, is_searched: bool) -> None:
    found = _space(promises=LOSING, keep={"synchronous_commit": value})
    factors = {factor.setting: factor for factor in found.factors}
    assert ("commit_delay" in factors) is is_searched
    if is_searched:
        plan = TuningPlan(
            found.factors, {"synchronous_commit": value}, (), SAFE, Objective("tps", True), 1, 1
        )
        delayed = {"commit_delay": "100"}
        assert Space(plan).candidate(delayed).conf == delayed


def test_a_value_that_no_server_here_takes_is_not_replaced_by_another() -> None:
    """What pglz gives beside the lz4 of the user's server cannot be measured without lz4."""
    conf = {"wal_compression": "lz4", "max_wal_size": "6GB", "work_mem": "many"}
    found = own_conf(conf, 180000, lambda _, value: value != "lz4")
    assert found.not_here == {"wal_compression": "lz4"}
    bounds = Bounds(
        180000, MACHINE, SAFE, 20, lambda _, value: value != "lz4", {}, not_here=found.not_here
    )  # fmt: skip
    space = search_space(bounds)
    assert "wal_compression" not in _choices(space)
    (left,) = [unmoved for unmoved in space.not_moved if unmoved.setting == "wal_compression"]
    assert left.reason == "your server has lz4, which this build of PostgreSQL does not take"
    assert "wal_compression" in _choices(search_space(replace(bounds, not_here={})))

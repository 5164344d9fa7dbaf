"""The table of what a tuning may move, held against the catalogue of every version."""

from __future__ import annotations

import pytest

from walproof.settings.catalogue import Catalogue
from walproof.settings.pgtune import pgtune_conf
from walproof.settings.risk import about
from walproof.settings.tuning import movables
from walproof.settings.value import Context, parse

VERSIONS = (13, 14, 15, 16, 17, 18, 19)
GB = 1 << 30
DECIDED_ELSEWHERE = {"shared_buffers", "wal_sync_method"}
"""Defaults that initdb or the platform decides."""


@pytest.mark.parametrize("name", movables())
def test_every_row_is_a_setting_with_values_that_some_version_takes(name: str) -> None:
    row = movables()[name]
    assert name in about(), "what it risks is in durability.csv"
    assert row.why
    assert row.source.startswith("https://www.postgresql.org/docs/current/")
    for version in VERSIONS:
        setting = Catalogue.for_version(version * 10000).get(name)
        assert setting.context is not Context.INTERNAL
        taken = []
        for value in row.values_of(16 * GB):
            if setting.vartype in ("enum", "bool") and value not in (*setting.values, "on", "off"):
                continue
            if setting.vartype == "bool" and value not in ("on", "off"):
                continue
            taken.append(parse(setting, value))
        assert len(set(taken)) >= 2
        if row.scale is not None:
            assert taken == sorted(taken)
        assert parse(setting, row.default) in taken
        if name not in DECIDED_ELSEWHERE and setting.boot and (name, version) != (
            "checkpoint_completion_target", 13,
        ):  # fmt: skip
            assert parse(setting, row.default) == parse(setting, setting.boot)


def test_what_a_row_needs_is_a_value_of_the_table() -> None:
    for row in movables().values():
        for other, value in row.needs:
            assert value in movables()[other].values


def test_shares_of_memory_are_whole_megabytes() -> None:
    assert movables()["shared_buffers"].values_of(16 * GB) == (
        "128MB", "960MB", "1952MB", "4096MB", "6528MB",
    )  # fmt: skip
    # Of a small machine several are the same.
    assert movables()["shared_buffers"].values_of(128 << 20) == ("128MB", "32MB")


def test_pgtune_of_a_machine_with_16_gb() -> None:
    conf = pgtune_conf(16 * GB, 18)
    assert conf["shared_buffers"] == "4096MB"
    assert conf["wal_buffers"] == "16MB"
    assert conf["max_wal_size"] == "8GB"
    assert conf["wal_compression"] == "lz4"
    assert "wal_compression" not in pgtune_conf(16 * GB, 14)
    for name, value in conf.items():
        Catalogue.for_version(180000).check(name, value)

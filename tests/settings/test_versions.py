"""What differs between versions before anybody sets anything."""

from __future__ import annotations

import pytest

from walproof.settings.minors import compared_minors, major_minor
from walproof.settings.versions import changed_defaults, meaning_of_on, name_compression


def test_versions_in_words() -> None:
    assert [major_minor(text) for text in ("18.4", "13.23", "19rc1", "19")] == [
        (18, 4), (13, 23), (19, None), (19, None),
    ]  # fmt: skip


@pytest.mark.parametrize("versions", [(), ("18.4",), ("18.4", "18.4"), ("13.7", "16.14", "18.6", "19rc1")])
def test_no_two_minors(versions: tuple[str, ...]) -> None:
    assert compared_minors(versions) is None


def test_minors_of_which_one_names_the_map() -> None:
    """As servers write it: 17.11 and 18.6 are the first that do, of those that were tried."""
    said = compared_minors(["18.6", "15.18", "18.4"])
    assert said is not None
    assert "(18.4 and 18.6)" in said
    assert "from 18.6 on, records that clear bits of the visibility map name its page" in said
    both = compared_minors(["17.10", "18.4", "17.12", "18.6"])
    assert both is not None
    assert "(17.10 and 17.12; 18.4 and 18.6)" in both
    assert "from 17.11 and 18.6 on" in both


@pytest.mark.parametrize("versions", [("16.14", "16.15"), ("17.11", "17.12"), ("18.3", "18.4")])
def test_minors_of_which_nothing_is_known(versions: tuple[str, ...]) -> None:
    said = compared_minors(versions)
    assert said == (
        f"WAL of minors of one major version is compared ({versions[0]} and {versions[1]}), "
        "and minors can write different WAL."
    )


def test_defaults_of_18_and_19() -> None:
    assert changed_defaults(["18.6", "19rc1"], ()) == (
        "Defaults that differ between these versions: default_toast_compression (18: pglz, 19: lz4); "
        "jit (18: on, 19: off); log_lock_waits (18: off, 19: on)."
    )
    said = changed_defaults(["18.6", "19rc1"], {"jit", "log_lock_waits"})
    assert said is not None
    assert "jit" not in said, "what the study sets is the same everywhere"


def test_defaults_that_are_initdbs() -> None:
    said = changed_defaults(["17.10", "18.4"], ()) or ""
    assert "data checksums (initdb makes them from 18 on)" in said
    assert "shared_buffers" not in said
    assert "data checksums" not in (changed_defaults(["17.10", "18.4"], {"data_checksums"}) or "")
    assert changed_defaults(["18.4", "18.6"], ()) is None


def test_what_on_means() -> None:
    every = ("pglz", "on", "off", "lz4", "zstd")
    assert meaning_of_on({"17.10": every, "18.6": every}) is None
    assert meaning_of_on({"18.6": every, "19rc1": every}) == (
        "wal_compression=on is pglz in 18.6, zstd in 19rc1: what it means is up to the build from 19 on."
    )
    assert meaning_of_on({"18.6": every, "19.0": ("pglz", "on", "off")}) is None
    assert "lz4 in 19.1" in (meaning_of_on({"19.0": every, "19.1": ("pglz", "lz4")}) or "")


@pytest.mark.parametrize(
    ("version_num", "value", "build", "named"),
    [
        (190000, "on", {"pglz", "lz4", "zstd"}, "zstd"),
        (190000, "TRUE", {"pglz", "lz4"}, "lz4"),
        (190000, "1", {"pglz"}, "pglz"),
        (190000, "lz4", {"pglz", "lz4", "zstd"}, "lz4"),
        (190000, "off", {"pglz", "lz4", "zstd"}, "off"),
        (180004, "on", {"pglz", "lz4", "zstd"}, "on"),  # which the catalogue knows to be pglz
        (130007, "on", set(), "on"),
    ],
)
def test_the_method_that_on_means_to_a_build(
    version_num: int, value: str, build: set[str], named: str
) -> None:
    settings = {"fsync": "off", "wal_compression": value}
    found = name_compression(settings, version_num, lambda _, method: method in build)
    assert found == {"fsync": "off", "wal_compression": named}
    assert name_compression({"fsync": "off"}, version_num, lambda _, method: False) == {"fsync": "off"}

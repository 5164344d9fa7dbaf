"""The table of settings and designs: about settings that exist, and toggled only where a reload can."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from walproof.errors import SettingError
from walproof.settings import designs as module
from walproof.settings.catalogue import Catalogue
from walproof.settings.designs import acts_at_checkpoints, designs, unsliced, untoggled
from walproof.settings.tuning import movables
from walproof.settings.value import Context

VERSIONS = range(13, 20)


def test_every_row_is_whole() -> None:
    with (Path(module.__file__).with_name("designs.csv")).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["setting"] for row in rows}) == len(rows)
    for row in rows:
        assert row["design"] in ("fresh", "toggled", "sliced", "cycles"), row
        assert row["why"], row
        assert re.fullmatch(r"(20\d\d-\d\d-\d\d .+)?", row["shown"]), row
        assert row["source"].startswith("https://www.postgresql.org/docs/"), row


@pytest.mark.parametrize("name", designs())
def test_a_setting_is_toggled_only_where_a_reload_changes_it(name: str) -> None:
    contexts = {
        setting.context
        for version in VERSIONS
        if (setting := Catalogue.for_version(version * 10000).settings.get(name)) is not None
    }
    assert contexts, "some version has it"
    if designs()[name].is_toggled:
        assert contexts <= {Context.SESSION, Context.SUPERUSER_SESSION, Context.RELOAD}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("synchronous_commit", None),
        ("Commit_Delay", None),
        ("wal_compression", None),
        ("max_wal_size", "max_wal_size acts at checkpoints"),
        ("full_page_writes", "full_page_writes leaves pages that were changed without an image"),
        ("fsync", "fsync leaves the variants that share its server dirty data"),
        ("shared_buffers", "shared_buffers changes with a restart only"),
        ("work_mem", "nobody has shown that toggling work_mem leaves nothing behind"),
        ("pg_stat_statements.track", "nobody has shown that toggling pg_stat_statements.track"),
    ],
)
def test_why_a_setting_is_not_toggled(name: str, reason: str | None) -> None:
    found = untoggled(name, 180000)
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(reason)


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("wal_buffers", True, None),
        ("Shared_Buffers", True, None),
        ("shared_buffers", False, None),
        ("synchronous_commit", False, None),
        ("full_page_writes", True, None),
        ("fsync", True, None),
        ("fsync", False, "nobody has shown on servers yet that slices of fsync agree with separate servers"),
        ("max_wal_size", True, "max_wal_size acts at checkpoints"),
        ("work_mem", False, "nobody has shown that work_mem acts under load alone"),
        ("work_mem", True, None),
    ],
)
def test_why_a_setting_is_not_sliced(name: str, *, asked: bool, reason: str | None) -> None:
    assert unsliced(name, is_asked=asked) == reason


def test_what_acts_at_checkpoints_is_known_as_tuning_knows_it() -> None:
    both = [name for name in designs() if name in movables() and name != "full_page_writes"]
    assert len(both) > 5
    for name in both:
        assert acts_at_checkpoints(name) == movables()[name].acts_at_checkpoints, name
    assert not acts_at_checkpoints("work_mem"), "nobody has looked at it"


def test_a_setting_that_a_version_lacks_is_complained_of() -> None:
    with pytest.raises(SettingError):
        untoggled("track_wal_io_timing", 130000)

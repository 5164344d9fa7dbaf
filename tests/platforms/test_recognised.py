"""The platform is recognised by what only it has, said in one line, and overridden by --platform."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.server.windows import healthy, with_settings
from walproof.advise.server.case import ServerCase
from walproof.advise.server.rules import RULES, advise
from walproof.errors import SettingError
from walproof.facts.server import ServerTable
from walproof.platforms.inapplicable import inapplicable
from walproof.platforms.platform import PlatformTarget
from walproof.platforms.recognised import Chosen, choose, recognise
from walproof.platforms.registry import PLATFORMS, platform
from walproof.settings.change import Before, Change

# What the servers of each have, beside the settings that PostgreSQL itself has.
SEEN = {
    "alloydb": ("max_wal_size", "alloydb.logical_decoding", "cloudsql.iam_authentication"),
    "aurora": ("apg_ccm_enabled", "rds.logical_replication"),
    "rds": ("rds.extensions", "rds.logical_replication"),
    "azure": ("azure.extensions",),
    "cloudsql": ("cloudsql.iam_authentication",),
    "neon": ("neon.pageserver_connstring",),
    "supabase": ("role supabase_admin",),
    "cnpg": ("cnpg.config_sha256",),
    "patroni": ("cluster_name on the command line",),
}


@pytest.mark.parametrize("name", SEEN)
def test_each_platform_is_recognised(name: str) -> None:
    found = recognise(SEEN[name])
    assert found is not None
    assert found.platform == name
    assert found.lines in PLATFORMS
    assert set(found.fits) <= set(PLATFORMS)
    chosen = choose(None, SEEN[name])
    assert chosen.platform.name == found.lines
    assert chosen.notice.startswith(f"Recognised as {found.title} by ")
    # Who names what fits hears nothing of it.
    assert choose(found.lines, SEEN[name]).notice == ""


def test_aurora_is_told_from_rds_by_its_function_alone() -> None:
    assert choose(None, ("rds.extensions", "aurora_version()")).runs_on == "aurora"


def test_the_sentence_says_why_and_what_overrides() -> None:
    assert choose(None, SEEN["rds"]).notice == (
        "Recognised as Amazon RDS by rds.* settings; --platform NAME overrides."
    )
    assert "values alone" in choose(None, SEEN["neon"]).notice
    assert "--platform zalando or crunchy" in choose(None, SEEN["patroni"]).notice


def test_a_platform_that_contradicts_what_is_seen_is_written_for_and_warned_of() -> None:
    chosen = choose("alter-system", SEEN["rds"])
    assert (chosen.platform.name, chosen.runs_on) == ("alter-system", "rds")
    assert "the server looks like Amazon RDS, by rds.* settings" in chosen.notice
    assert choose("rds-terraform", SEEN["rds"]).notice == ""
    assert choose("zalando", SEEN["patroni"]).notice == ""
    assert choose("values", SEEN["rds"]).notice == ""


def test_a_plain_server_is_nobodys() -> None:
    plain = ("max_wal_size", "plpgsql.check_asserts", "pg_stat_statements.max", "role postgres")
    assert choose(None, plain) == Chosen(PLATFORMS["alter-system"])
    assert choose("rds", plain) == Chosen(PLATFORMS["rds"])
    with pytest.raises(SettingError, match='no platform "heroku"'):
        choose("heroku", plain)


def test_who_has_the_machine() -> None:
    assert choose(None, SEEN["neon"]).is_hosted
    assert choose("rds-terraform", ()).is_hosted
    assert not choose(None, SEEN["cnpg"]).is_hosted
    assert not choose("values", ()).is_hosted
    # Lines of another kind do not move it to another machine.
    assert choose("alter-system", SEEN["aurora"]).is_hosted
    assert choose("conf", SEEN["rds"]).is_hosted
    assert choose("values", SEEN["supabase"]).is_hosted
    # AlloyDB Omni, and a Supabase that its owner runs.
    assert not choose("conf", SEEN["alloydb"]).is_hosted
    assert not choose("alter-system", SEEN["supabase"]).is_hosted


def test_values_come_without_commands() -> None:
    before = {"max_wal_size": Before("1GB", is_default=False, is_in_auto_conf=False)}
    changes = [Change("max_wal_size", "8GB"), Change("wal_buffers", "64MB")]
    lines = platform("values").write(changes, PlatformTarget(180006, before))
    assert lines.apply == "max_wal_size: 8GB\nwal_buffers: 64MB"
    assert lines.undo == "max_wal_size: 1GB\nwal_buffers: its default"
    assert "In force after a restart: wal_buffers." in lines.notes
    with pytest.raises(SettingError):
        platform("values").refuse(Change("max_wal_size", "8 parsecs"), PlatformTarget(180006, before))


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        (
            "aurora",
            {"unlogged", "staging", "full_page_writes", "max_wal_size", "checkpoint_completion_target"},
        ),
        ("neon", {"fsync", "full_page_writes"}),
    ],
)
def test_rules_that_do_not_hold_there_are_listed_with_their_source(name: str, rules: set[str]) -> None:
    broken = with_settings(
        replace(healthy(), tables=(ServerTable("public.u", 1 << 30, True, 10, 0, 0, 0, 10, 100),)),
        fsync="off",
        full_page_writes="off",
        checkpoint_timeout="1min",
    )
    assert "max_wal_size" in {advice.rule for advice in advise(ServerCase(broken)).advice}
    given = advise(ServerCase(broken), (), inapplicable(name))
    dangers = {"fsync", "full_page_writes", "unlogged"}
    assert {advice.rule for advice in given.advice} & dangers == dangers - rules
    assert not {advice.rule for advice in given.advice} & rules
    told = {absent.rule: absent.reason for absent in given.absent}
    assert rules <= set(told)
    assert all("2026-" in told[rule] for rule in rules)
    assert set(inapplicable(name)) == rules <= set(RULES)
    assert inapplicable("rds") == {}

"""Commands that only tell: help, version, studies, plans, installs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import walproof
from tests.postgres.installs import put_install


def test_help_names_every_command(tmp_path: Path) -> None:
    done = walproof("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in ("run", "compare", "studies", "runs", "show", "report", "disk", "pg"):
        assert f"  {command} " in done.stdout


def test_version(tmp_path: Path) -> None:
    done = walproof("--version", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("walproof ")


def test_studies_are_listed_and_printed(tmp_path: Path) -> None:
    listed = walproof("studies", cwd=tmp_path)
    assert listed.returncode == 0
    assert "durability" in listed.stdout
    assert "commit-delay" in listed.stdout
    text = walproof("studies", "commit-delay", cwd=tmp_path)
    assert 'name = "commit-delay"' in text.stdout
    # What is printed is a study that can be run.
    (tmp_path / "mine.toml").write_text(text.stdout)
    again = walproof("run", "mine.toml", "--dry-run", "--pg", "embedded", cwd=tmp_path)
    assert again.returncode == 0, again.stderr


def test_a_dry_run_prints_the_plan_and_makes_nothing(tmp_path: Path) -> None:
    done = walproof(
        "run",
        "durability",
        "--dry-run",
        "--pg",
        "embedded",
        "--rounds",
        "6",
        "--duration",
        "10s",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for part in (
        "84 trials",
        "may corrupt",
        "max_wal_senders = 0",
        "minutes at most",
        "GB of disk",
        "seed 1",
    ):
        assert part in done.stdout, part
    lines = [line.strip() for line in done.stdout.splitlines()]
    # The class once, in the variant's line; a risk's line only says one that is less bad.
    assert "fsync=off  [may corrupt]" in lines
    assert any(line.startswith("fsync=off: nothing is flushed") for line in lines)
    of_commits = [line for line in lines if line.startswith("synchronous_commit=off: a crash loses")]
    assert [line.endswith("[may lose last commits]") for line in of_commits] == [False, True]
    assert "may corrupt: " not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_for_machines(tmp_path: Path) -> None:
    done = walproof("run", "durability", "--dry-run", "--json", "--pg", "embedded", "--quick", cwd=tmp_path)
    plan = json.loads(done.stdout)
    assert plan["study"] == "durability"
    assert plan["quick"] is True
    assert len(plan["variants"]) == 7


def test_installs_are_listed(tmp_path: Path) -> None:
    rows = json.loads(walproof("pg", "list", "--json", cwd=tmp_path).stdout)
    assert {row["origin"] for row in rows} >= {"embedded"}
    text = walproof("pg", "list", cwd=tmp_path).stdout
    assert len([line for line in text.splitlines() if not line.startswith(" ")]) == len(rows)


def test_installs_below_a_known_fix_say_so(tmp_path: Path) -> None:
    """Folders that can only say their version, in the place of fetched installs: 17.10 lacks a fix."""
    for version in ("17.10", "17.11"):
        bindir = put_install(tmp_path / f"cache/installs/{version}", version)
        assert bindir.is_dir()
    listed = walproof("pg", "list", cwd=tmp_path, WALPROOF_CACHE=str(tmp_path / "cache"))
    lines = listed.stdout.splitlines()
    (old,) = [at for at, line in enumerate(lines) if line.startswith("17.10 ")]
    (new,) = [at for at, line in enumerate(lines) if line.startswith("17.11 ")]
    assert lines[old + 1].startswith("  17.11 mends: records that clear bits of the visibility map")
    assert "https://www.postgresql.org/docs/release/17.11/" in lines[old + 1]
    assert not lines[new + 1].startswith("  17.")
    assert "there may be more" in listed.stderr
    told = walproof("pg", "list", "--json", cwd=tmp_path, WALPROOF_CACHE=str(tmp_path / "cache")).stdout
    fixes = {row["version"]: [fix["version"] for fix in row["missing_fixes"]] for row in json.loads(told)}
    assert (fixes["17.10"], fixes["17.11"]) == (["17.11"], [])

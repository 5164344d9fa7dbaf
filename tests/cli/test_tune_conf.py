"""A user's own postgresql.conf as a start of a tuning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.command import walproof
from tests.lab.tune_loads import SHOP, shop
from walproof.cli.app import app
from walproof.cli.tune_objective import warn_of_distance
from walproof.errors import StoreError
from walproof.facts import Install
from walproof.facts.tuning import Factor, Objective
from walproof.postgres.build import available_values
from walproof.postgres.install import major


def test_the_plan_says_how_it_is_known_what_acts_at_checkpoints(tmp_path: Path) -> None:
    names = "max_wal_size,checkpoint_flush_after,commit_delay"
    options = ("--load", str(shop(tmp_path)), "--only", names, "--budget", "45min", "--dry-run")
    done = walproof("tune", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    marks = {row.split()[0]: row.split()[-1] for row in done.stdout.splitlines() if row.startswith("  c")}
    marks |= {row.split()[0]: row.split()[-1] for row in done.stdout.splitlines() if row.startswith("  max")}
    assert (marks["max_wal_size"], marks["checkpoint_flush_after"]) == ("*", "+")
    assert marks["commit_delay"] not in "*+"
    assert "checked in a run as long as the recording (2 min 42 s)" in " ".join(done.stdout.split())
    assert "no simulation knows it" in done.stdout


def test_the_plan_is_without_what_the_platform_refuses(tmp_path: Path) -> None:
    options = ("--load", str(shop(tmp_path)), "--only", "wal_recycle,wal_buffers", "--dry-run")
    plans = {name: walproof("tune", *options, "--platform", name, cwd=tmp_path) for name in ("rds", "aurora")}
    assert [done.returncode for done in plans.values()] == [0, 0]
    told = plans["aurora"].stdout
    assert "settings that may move (5 configurations)" in told
    assert "wal_recycle: no line for the platform: it is not in the list of parameters" in told
    assert "settings that may move (10 configurations)" in plans["rds"].stdout
    # What was measured for one is not what the other can have.
    assert told.splitlines()[0] != plans["rds"].stdout.splitlines()[0]
    assert "warning: Aurora's storage is its own" in plans["aurora"].stderr
    assert plans["rds"].stderr == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("tps=0.95", "and tps at least 0.95 of the defaults'"),
        ("latency_ms_p99=0.9", "and latency_ms_p99 at most 0.9 of the defaults'"),
    ],
)
def test_the_plan_says_on_which_side_of_its_limit_a_second_metric_stays(
    tmp_path: Path, given: str, words: str
) -> None:
    done = walproof(
        "tune", "--load", str(shop(tmp_path)), "--objective", "wal_bytes_per_txn", "--no-worse", given,
        "--dry-run", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    # An unchanged configuration is at 1.
    assert ("warning: the defaults themselves break" in done.stderr) == ("0.9 " in words)


def test_where_time_away_is_measured_nothing_is_toggled(tmp_path: Path) -> None:
    words = ("tune", "--load", str(shop(tmp_path)), "--dry-run", "--json")
    for options, toggles in (((), True), (("--no-worse", "recovery_s=1.2"), False)):
        done = walproof(*words, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        designs = {factor["design"] for factor in json.loads(done.stdout)["factors"]}
        assert ("toggled" in designs) == toggles


def test_a_time_away_that_no_trial_can_show_is_warned_of(tmp_path: Path) -> None:
    options = ("--only", "max_wal_size,wal_compression", "--objective", "recovery_s", "--dry-run")
    done = walproof("tune", "--load", str(shop(tmp_path)), *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "its recovery_s does not show what max_wal_size does; --recovery-target" in done.stderr
    assert "recovery_s is that of crashes after windows" in done.stdout
    assert "throughput comes from windows" not in done.stdout


def test_at_an_offered_rate_latency_is_the_objective(tmp_path: Path) -> None:
    options = ("tune", "--load", str(shop(tmp_path)), "--dry-run")
    done = walproof(*options, "--rate", "50", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "objective\n  latency_ms_p99, less is better\n" in done.stdout
    assert "the objective is latency_ms_p99, since throughput is what the offered rate says" in done.stderr
    # So it is where the load itself has the rate.
    rated = shop(tmp_path, f"{SHOP}rate = 50.0\n")
    planned = json.loads(walproof(*options, "--json", cwd=tmp_path).stdout)
    assert planned["objective"]["metric"] == "latency_ms_p99"
    typed = walproof("tune", "--load", str(rated), "--objective", "tps", "--dry-run", cwd=tmp_path)
    assert typed.returncode == 2
    assert "tps cannot be improved at an offered rate" in typed.stderr
    shop(tmp_path)
    plain = walproof(*options, cwd=tmp_path)
    assert "objective\n  tps, more is better\n" in plain.stdout
    assert "the objective is" not in plain.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("tps=nan", '--no-worse is "tps=nan"'),
        ("tps=inf", '--no-worse is "tps=inf"'),
        ("wal_bytes_per_txn=1.1", "--no-worse is about wal_bytes_per_txn, which is the objective"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(tmp_path: Path, given: str, words: str) -> None:
    done = walproof(
        "tune", "--load", str(shop(tmp_path)), "--objective", "wal_bytes_per_txn", "--no-worse", given,
        "--dry-run", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr


def test_a_conf_with_folders_and_alter_system_is_read_as_a_whole(tmp_path: Path) -> None:
    """As Debian lays it out: conf.d beside the file, ALTER SYSTEM's lines in the data directory."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "main").mkdir()
    (tmp_path / "conf.d" / "own.conf").write_text("max_wal_size = 4GB\nwal_buffers = 64MB\n")
    (tmp_path / "main" / "postgresql.auto.conf").write_text("max_wal_size = '2GB'\n")
    conf = tmp_path / "postgresql.conf"
    conf.write_text(f"data_directory = '{tmp_path / 'main'}'\nmax_wal_size = 1GB\ninclude_dir = 'conf.d'\n")
    options = ("--load", str(shop(tmp_path)), "--conf", str(conf), "--dry-run", "--json")
    done = walproof("tune", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert dict(json.loads(done.stdout)["starts"][0][0]) == {"max_wal_size": "2GB", "wal_buffers": "64MB"}
    # What has no line in the end is told before the budget is spent.
    for platform, words in (
        ("conf", "max_wal_size is searched, but not in the lines for conf: ALTER SYSTEM has set it, which"),
        ("patroni", "run ALTER SYSTEM RESET max_wal_size; SELECT pg_reload_conf(); on each server"),
        ("alter-system", ""),
    ):
        done = walproof("tune", *options, "--platform", platform, cwd=tmp_path)
        assert done.returncode == 0
        assert words in done.stderr
        assert ("warning" in done.stderr) is bool(words)


def test_own_lines_that_this_machine_cannot_try_are_no_reason_not_to_try_the_others(tmp_path: Path) -> None:
    conf = tmp_path / "postgresql.conf"
    conf.write_text("max_wal_size = 500TB\nshared_buffers = 7TB\nwal_buffers = 64MB\n")
    options = ("--load", str(shop(tmp_path)), "--conf", str(conf), "--dry-run", "--json")
    done = walproof("tune", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert dict(json.loads(done.stdout)["starts"][0][0]) == {"wal_buffers": "64MB"}


def test_an_archiver_and_wal_that_is_kept_need_room_beside_max_wal_size(tmp_path: Path) -> None:
    conf = tmp_path / "postgresql.conf"
    conf.write_text("archive_mode = ON\n")
    command = ("tune", "--load", str(shop(tmp_path)), "--only", "commit_delay", "--dry-run", "--wal-disk")
    refused = walproof(*command, "1900MB", "--conf", str(conf), cwd=tmp_path)
    assert refused.returncode == 2
    assert "your server's archiver may keep WAL beside it" in refused.stderr
    assert "--wal-disk 2048MB or more" in refused.stderr
    refused = walproof(*command, "2GB", "--keep", "wal_keep_size=1100MB", cwd=tmp_path)
    assert refused.returncode == 2
    assert "wal_keep_size keeps 1.07 GB beside it" in refused.stderr
    assert "--wal-disk 2124MB or more" in refused.stderr
    done = walproof(*command, "2124MB", "--keep", "wal_keep_size=1100MB", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # What was judged for one is not the answer for the other.
    names = set()
    for given in ((), ("--conf", str(conf))):
        done = walproof(*command, "4GB", *given, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        names.add(done.stdout.splitlines()[0])
    assert len(names) == 2


def test_kept_settings_are_named_as_the_server_names_them(tmp_path: Path) -> None:
    options = ("--load", str(shop(tmp_path)), "--keep", "MAX_WAL_SIZE=64GB", "--keep", "Wal_Compression=ON")
    done = walproof("tune", *options, "--dry-run", "--wal-disk", "5GB", cwd=tmp_path)
    assert done.returncode == 2
    assert "--keep max_wal_size=64GB breaks --wal-disk" in done.stderr


@pytest.mark.pg(">= 15", ends=True)
def test_compression_that_is_on_is_a_method_that_the_build_has(install: Install, tmp_path: Path) -> None:
    """What is simulated of a configuration needs the method, and from 19 on the word does not say it."""
    conf = tmp_path / "postgresql.conf"
    conf.write_text("wal_compression = on\n")
    options = ("--load", str(shop(tmp_path)), "--pg", install.bindir, "--conf", str(conf), "--dry-run")
    done = walproof("tune", *options, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    start = dict(json.loads(done.stdout)["starts"][0][0])
    methods = available_values(install, "wal_compression")
    best = next(method for method in ("zstd", "lz4", "pglz") if method in methods)
    assert start == {"wal_compression": best if major(install) >= 19 else "pglz"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--keep", "fsync=off"), "--keep fsync=off breaks --may-lose nothing"),
        (
            ("--keep", "synchronous_commit=off", "--may-lose", "nothing"),
            "--keep synchronous_commit=off breaks --may-lose nothing",
        ),
        (("--keep", "full_page_writes=off", "--may-lose", "commits"), "breaks --may-lose commits"),
        (
            ("--keep", "max_wal_size=100GB", "--wal-disk", "5GB"),
            "--keep max_wal_size=100GB breaks --wal-disk 5.00 GB",
        ),
        (("--keep", "wal_keep_size=6GB", "--wal-disk", "5GB"), "--keep wal_keep_size=6GB breaks --wal-disk"),
        (
            ("--keep", "shared_buffers=2GB", "--memory", "1GB"),
            "--keep shared_buffers=2GB breaks --memory 1.00 GB",
        ),
        (("--keep", "shared_buffers=7TB"), "--keep shared_buffers=7TB breaks the memory of this machine"),
    ],
)
def test_what_is_kept_has_to_keep_the_promises(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = walproof("tune", "--load", str(shop(tmp_path)), *options, "--dry-run", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Leave it out, or promise less" in done.stderr or "Keep" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--memory", "100MB"), "no configuration keeps memory within 100 MB"),
        (("--wal-disk", "10MB"), "no configuration keeps --wal-disk 10.0 MB"),
    ],
)
def test_what_no_configuration_keeps_is_refused_before_anything_runs(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = walproof("tune", "--load", str(shop(tmp_path)), *options, "--dry-run", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("options", "size", "room"),
    [((), "256 MB", "384MB"), (("--only", "commit_delay"), "1.00 GB", "1536MB")],
)
def test_the_least_room_for_pg_wal_is_said_and_enough(
    tmp_path: Path, options: tuple[str, ...], size: str, room: str
) -> None:
    """max_wal_size = 256MB may be tried, but 1 GB was called the smallest."""
    command = ("tune", "--load", str(shop(tmp_path)), *options, "--dry-run", "--wal-disk")
    refused = walproof(*command, "300MB", cwd=tmp_path)
    assert refused.returncode == 2
    assert f"pg_wal grows to {size}, the smallest max_wal_size" in refused.stderr
    assert f"--wal-disk {room} or more" in refused.stderr
    done = walproof(*command, room, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("place", "message"),
    [("shop.toml", '"shop.toml" exists already'), ("absent/tuning.db", 'no folder "absent"')],
)
def test_a_study_that_could_not_be_exported_is_refused_before_anything_runs(
    tmp_path: Path, place: str, message: str, options: tuple[str, ...]
) -> None:
    shop(tmp_path)
    done = walproof("tune", "--load", "shop.toml", "--export", place, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "walproof-out").exists()


def test_a_study_in_a_folder_that_is_closed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    words = ["tune", "--load", str(shop(tmp_path)), "--export", str(tmp_path / "tuning.db"), "--dry-run"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, StoreError)
    assert f'could not write study "{tmp_path}/tuning.db": "{tmp_path}" cannot be' in done.exception.message


def test_the_time_is_said_once(tmp_path: Path) -> None:
    options = ("tune", "--load", str(shop(tmp_path)), "--quick")
    done = walproof(*options, "--budget", "3min", "--dry-run", cwd=tmp_path)
    assert done.returncode == 2
    assert "--quick and --budget both say how long the tuning takes" in done.stderr
    assert "steps within 10 min 00 s" in walproof(*options, "--dry-run", cwd=tmp_path).stdout


def test_what_is_kept_and_allowed_is_planned(tmp_path: Path) -> None:
    options = (
        "--keep",
        "synchronous_commit=off,max_wal_size=2GB",
        "--may-lose",
        "commits",
        "--wal-disk",
        "3GB",
    )
    done = walproof("tune", "--load", str(shop(tmp_path)), *options, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "  synchronous_commit=off" in done.stdout


def test_a_setting_of_the_load_that_breaks_a_promise_is_named_by_its_place(tmp_path: Path) -> None:
    load = shop(tmp_path, SHOP + '\n[base]\nfsync = "off"\n')
    done = walproof("tune", "--load", str(load), "--dry-run", cwd=tmp_path)
    assert done.returncode == 2
    assert "the load's [base] fsync=off breaks --may-lose nothing" in done.stderr
    done = walproof("tune", "--load", str(load), "--keep", "fsync=on", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_plan_offers_nothing_that_the_promises_exclude(tmp_path: Path) -> None:
    """pgtune's max_wal_size is 8 GB; the user's own breaks the promise and is listed as not run."""
    conf = tmp_path / "postgresql.conf"
    conf.write_text("max_wal_size = 4GB\n")
    options = ("--wal-disk", "3GB", "--memory", "400MB", "--conf", str(conf), "--dry-run")
    done = walproof("tune", "--load", str(shop(tmp_path)), *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    own, of_pgtune = rows[rows.index("tried first") + 1 :][:2]
    reason = "it may take 2.00 GB of the room for pg_wal"
    assert own == f"  max_wal_size=4GB; not run, for max_wal_size=4GB: {reason}"
    assert "max_wal_size" not in of_pgtune
    assert "shared_buffers" not in of_pgtune
    assert "min_wal_size=2GB" in of_pgtune
    assert "  shared_buffers=" not in "".join(row for row in rows[: rows.index("not moved")])
    assert "memory: with it a server takes" in done.stdout


def test_wal_that_no_window_can_show_is_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    factors = [Factor(name, ("1", "2"), None, "1", "fresh") for name in ("max_wal_size", "commit_delay")]
    warn_of_distance(Objective("wal_bytes_per_txn", False), factors, 4.0)
    assert "its wal_bytes_per_txn does not show what max_wal_size does" in capsys.readouterr().err
    warn_of_distance(Objective("tps", True, ("recovery_s", 2.0)), factors, 4.0)
    assert "its recovery_s does not show what max_wal_size does" in capsys.readouterr().err
    warn_of_distance(Objective("wal_bytes_per_txn", False), factors[1:], 4.0)
    warn_of_distance(Objective("tps", True), factors, 4.0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("only", [(), ("--only", "wal_writer_delay,max_wal_size")])
def test_own_lines_that_no_search_moves_are_settings_of_every_configuration(
    tmp_path: Path, only: tuple[str, ...]
) -> None:
    conf = tmp_path / "postgresql.conf"
    conf.write_text("synchronous_commit = remote_apply\nwal_writer_delay = 10ms\nmax_wal_size = 2GB\n")
    options = ("--load", str(shop(tmp_path)), "--conf", str(conf), *only, "--dry-run", "--json")
    done = walproof("tune", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["keep"] == {"synchronous_commit": "remote_apply", "wal_writer_delay": "10ms"}
    assert dict(plan["starts"][0][0]) == {"max_wal_size": "2GB"}
    assert ("commit_delay" in {factor["setting"] for factor in plan["factors"]}) is (only == ())

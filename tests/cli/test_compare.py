"""``walproof compare``: what is measured, from options and from a load's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import walproof
from tests.lab.tune_loads import shop
from walproof.cli.compare import CompareOptions, in_full

LOAD = """
pg = ["embedded"]
initdb = ["--no-data-checksums"]

[base]
shared_buffers = "64MB"
work_mem = "8MB"

[[workload]]
name = "shop"
setup = "schema.sql"
clients = 6
threads = 3
duration = "2s"
warmup = "1s"
protocol = "prepared"

[[workload.script]]
file = "order.sql"
weight = 3

[[variant]]
name = "not asked for"
settings = { fsync = "off" }
"""


@pytest.fixture
def load(tmp_path: Path) -> Path:
    folder = tmp_path / "drafted"
    folder.mkdir()
    (folder / "schema.sql").write_text("CREATE TABLE orders (id bigint);\n")
    (folder / "order.sql").write_text("INSERT INTO orders VALUES (1);\n")
    return shop(folder, LOAD)


def plan(load: Path, *options: str) -> dict[str, Any]:
    """What ``--dry-run`` says, from a folder other than the load's."""
    arguments = ("--load", str(load), "--set", "commit_delay=100", *options, "--dry-run", "--json")
    done = walproof("compare", *arguments, cwd=load.parent.parent)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_load_brings_its_scripts_tables_and_settings(load: Path) -> None:
    found = plan(load)
    (workload,) = found["workloads"]
    assert (workload["name"], workload["clients"], workload["threads"]) == ("shop", 6, 3)
    assert (workload["duration_s"], workload["warmup_s"], workload["protocol"]) == (2.0, 1.0, "prepared")
    assert workload["setup_sql"] == "CREATE TABLE orders (id bigint);\n"
    assert workload["scripts"] == [
        {"name": "order.sql", "text": "INSERT INTO orders VALUES (1);\n", "weight": 3}
    ]
    assert [variant["name"] for variant in found["variants"]] == ["default", "commit_delay=100"]
    assert found["initdb_options"] == ["--no-data-checksums"]
    assert {install["origin"] for install in found["installs"]} == {"embedded"}
    assert found["base_settings"]["work_mem"] == "8MB"


def test_a_load_for_another_major_version_is_told(load: Path) -> None:
    load.write_text(load.read_text().replace('pg = ["embedded"]', 'pg = ["16"]'))
    words = ("compare", "--load", str(load), "--set", "commit_delay=100", "--dry-run", "--json")
    done = walproof(*words, "--pg", "embedded-18", cwd=load.parent)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"load {load} is of PostgreSQL 16, and 18.")
    assert json.loads(done.stdout)["notes"] == [done.stderr.strip()]
    for chosen in ([], ["--pg", "embedded-16"], ["--pg", "embedded-16", "--pg", "embedded-18"]):
        done = walproof(*words, *chosen, cwd=load.parent)
        assert (done.returncode, done.stderr) == (0, ""), chosen


def test_what_is_typed_goes_before_what_the_load_says(load: Path) -> None:
    typed = ("--clients", "2", "--transactions", "50", "--rate", "90", "--protocol", "extended")
    found = plan(load, *typed, "--base", "work_mem=4MB")
    (workload,) = found["workloads"]
    assert workload["protocol"] == "extended"
    assert (workload["clients"], workload["threads"]) == (2, 2)
    assert (workload["duration_s"], workload["transactions"], workload["rate_tps"]) == (None, 50, 90.0)
    assert workload["warmup_s"] == 0.0
    assert found["base_settings"] == {"shared_buffers": "64MB", "work_mem": "4MB"}
    (workload,) = plan(load, "--settle", "45s", "--design", "fresh")["workloads"]
    assert workload["warmup_s"] == 45.0
    (workload,) = plan(load, "--duration", "7s")["workloads"]
    assert (workload["duration_s"], workload["transactions"]) == (7.0, None)


def test_a_conf_goes_before_what_the_load_says(load: Path) -> None:
    conf = load.parent / "own.conf"
    conf.write_text("work_mem = 16MB\n")
    found = plan(load, "--conf", str(conf))
    assert found["base_settings"] == {"shared_buffers": "64MB", "work_mem": "16MB"}


def test_a_gate_on_wal_has_equally_many_transactions_where_the_load_has_no_rate(load: Path) -> None:
    options = ("--fail-if", "wal_bytes_per_txn > 1.02x")
    (workload,) = plan(load, *options)["workloads"]
    assert (workload["duration_s"], workload["transactions"], workload["warmup_s"]) == (None, 667, 0.0)
    load.write_text(load.read_text().replace("clients = 6", "clients = 6\nrate = 100"))
    (workload,) = plan(load, *options)["workloads"]
    assert (workload["duration_s"], workload["transactions"]) == (2.0, None)


@pytest.mark.parametrize(
    "options",
    [("--scale", "5"), ("--builtin", "select-only"), ("--script", "x.sql"), ("--setup", "y.sql"),
     ("--script-against", "x.sql", "--fail-if", "tps < 0.9x")],
)  # fmt: skip
def test_the_load_is_said_once(load: Path, options: tuple[str, ...]) -> None:
    done = walproof("compare", "--load", str(load), "--set", "commit_delay=100", *options, cwd=load.parent)
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"--load and {options[0]} both say what the load is" in done.stderr


def test_a_load_that_is_none(tmp_path: Path) -> None:
    for name, said in (
        ("none.toml", 'could not read load "none.toml"'),
        ("power-cut", '"power-cut" is a study of power cuts'),
    ):
        done = walproof("compare", "--load", name, "--set", "commit_delay=100", cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr


def test_without_a_load_everything_has_its_default() -> None:
    given = in_full(CompareOptions(["a=1"]), {"workload": [{}]})
    assert (given.scale, given.clients, given.threads, given.builtin, given.duration) == (
        50, 20, 2, "tpcb-like", "10s",
    )  # fmt: skip
    assert in_full(CompareOptions(["a=1"], script=["x.sql"]), {"workload": [{}]}).builtin is None
    wal = in_full(CompareOptions(["a=1"], fail_if=["wal_bytes > 1.1x"]), {"workload": [{}]})
    assert (wal.duration, wal.transactions) == (None, 200)


def test_a_file_that_makes_tables_may_have_any_name(tmp_path: Path) -> None:
    """Without ".sql" its name was taken for the SQL itself, and run."""
    text = "CREATE TABLE orders (id bigint);\n-- as in tables.sql\n"
    (tmp_path / "schema.ddl").write_text(text)
    words = ("compare", "--pg", "embedded", "--set", "commit_delay=100", "--dry-run", "--json", "--setup")
    done = walproof(*words, "schema.ddl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (workload,) = json.loads(done.stdout)["workloads"]
    assert workload["setup_sql"] == text
    done = walproof(*words, "schema.sq", cwd=tmp_path)
    assert (done.returncode, 'could not read setup "schema.sq"' in done.stderr) == (2, True)

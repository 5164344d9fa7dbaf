"""What a gate is told on the command line: pages and the workflow name options that there are, and mistakes
are refused before anything runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.cli.command import walproof
from walproof.cli.compare import CompareOptions
from walproof.cli.declaration import options_of
from walproof.cli.status import ExitStatus

DOCS = Path(__file__).parents[2] / "docs"
GATE = ("compare", "--pg", "embedded", "--fail-if", "wal_bytes_per_txn > 1.02x")


@pytest.mark.parametrize("page", ["gate.md", "examples/write-path-gate.yml"])
def test_pages_name_options_that_there_are(page: str) -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (DOCS / page).read_text()))
    assert "--fail-if" in named
    assert named <= {str(option.flag) for option in options_of(CompareOptions)}


def test_the_workflow_takes_up_no_gate_that_was_cancelled() -> None:
    """A runner that is not the forge's keeps its folder, and the next change is another one."""
    workflow = yaml.safe_load((DOCS / "examples" / "write-path-gate.yml").read_text())
    (gate,) = (step for step in workflow["jobs"]["gate"]["steps"] if step.get("name") == "Gate")
    assert "--new" in gate["run"].split()


def test_the_workflow_uses_actions_that_run_on_node_24() -> None:
    """The first majors that do: runners of GitHub no longer have Node 20."""
    text = (DOCS / "examples" / "write-path-gate.yml").read_text()
    used = {name: int(major) for name, major in re.findall(r"uses: actions/([\w-]+)@v(\d+)", text)}
    least = {"checkout": 5, "setup-python": 6, "upload-artifact": 6}
    assert used.keys() == least.keys()
    assert all(used[name] >= major for name, major in least.items())


def test_the_workflow_compares_with_the_base_that_was_merged_with(tmp_path: Path) -> None:
    """GitHub checks out refs/pull/N/merge; the base in the event may be older than the one in that merge."""
    lines = (DOCS / "examples" / "write-path-gate.yml").read_text().splitlines()
    (command,) = (line.partition("run: ")[2] for line in lines if "worktree add" in line)

    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ["git", *identity, "-C", str(tmp_path / "this"), *words],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout

    (tmp_path / "this").mkdir()
    git("init")
    git("commit", "--allow-empty", "-m", "before")
    git("checkout", "-b", "change")
    git("commit", "--allow-empty", "-m", "this one")
    git("checkout", "main")
    git("commit", "--allow-empty", "-m", "of others")
    git("merge", "--no-ff", "change")
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    assert git("-C", "../base", "log", "-1", "--format=%s").strip() == "of others"


def test_the_workflow_holds_for_the_pull_request_that_brings_its_files(tmp_path: Path) -> None:
    workflow = yaml.safe_load((DOCS / "examples" / "write-path-gate.yml").read_text())
    steps = {step.get("name"): step for step in workflow["jobs"]["gate"]["steps"]}
    names = list(steps)
    assert names.index("Files that are new") < names.index("Gate")
    for name, text in (("this/db/load.sql", "new"), ("this/db/tables.sql", "a"), ("base/db/tables.sql", "b")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        ["bash", "-e", "-c", steps["Files that are new"]["run"]],
        cwd=tmp_path, check=True, capture_output=True, text=True,
        env={**os.environ, "TABLES": "db/tables.sql", "LOAD": "db/load.sql"},
    )  # fmt: skip
    assert (tmp_path / "base/db/load.sql").read_text() == "new"
    assert (tmp_path / "base/db/tables.sql").read_text() == "b"
    assert done.stdout.count("::notice::") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (GATE, "there is nothing to compare"),
        (("compare",), "there is nothing to compare"),
        (("compare", "--conf", "a.conf"), "there is nothing to compare"),
        ((*GATE, "--script-against", "a.sql"), "--script-against needs --script"),
        (("compare", "--setup-against", "a.sql"), "compared by a gate only"),
        (("compare", "--set", "commit_delay=1", "--junit", "a.xml"), "there is none"),
        ((*GATE, "--set", "commit_delay=1", "--junit", "absent/a.xml"), "folder that does not exist"),
        (("compare", "--set", "commit_delay=1", "--undecided", "ok"), "--undecided is for a gate"),
        (
            ("compare", "--set", "commit_delay=1", "--duration", "3s", "--transactions", "100"),
            "--duration and --transactions both say when a window ends",
        ),
        (("compare", "--set", "commit_delay=1", "--script", "a@0"), 'the weight of script "a" is 0'),
        ((*GATE, "--script", "a", "--script-against", "b@00"), 'the weight of script "b" is 0'),
        ((*GATE, "--set", "commit_delay=1", "--within", "3%"), "--within and --fail-if"),
    ],
)
def test_mistakes_are_refused_before_anything_runs(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = walproof(*words, cwd=tmp_path)
    assert done.returncode == ExitStatus.ERROR
    assert said in done.stderr
    assert "hint: " in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_dry_run_says_what_is_decided_and_how_long_it_may_take(tmp_path: Path) -> None:
    done = walproof(*GATE, "--set", "commit_delay=1", "--budget", "3min", "--dry-run", cwd=tmp_path)
    assert done.returncode == ExitStatus.DONE, done.stderr
    assert "gate: fails if wal_bytes_per_txn > 1.02x\n" in done.stdout
    assert "length: until the gate is decided, 3 min 00 s at most, but one round in any case" in done.stdout
    assert "--fail-if 'wal_bytes_per_txn > 1.02x'" in done.stdout


NEW, OLD = "CREATE TABLE t (i bigint);\n", "CREATE TABLE t (i int);\n"


def _setups(folder: Path, *words: str) -> dict[str, str | None]:
    """What makes the tables of each version, by a dry run."""
    for name, text in (("a", "SELECT 1;\n"), ("b", "SELECT 2;\n"), ("new", NEW), ("old", OLD)):
        (folder / f"{name}.sql").write_text(text)
    words = ("--script", "a.sql", *words, "--dry-run", "--json")
    done = walproof(*GATE, *words, cwd=folder, timeout_s=60.0)
    assert done.returncode == ExitStatus.DONE, done.stderr
    return {workload["name"]: workload["setup_sql"] for workload in json.loads(done.stdout)["workloads"]}


def test_each_version_has_the_tables_that_were_given_for_it(tmp_path: Path) -> None:
    both = _setups(tmp_path, "--setup", "new.sql", "--setup-against", "old.sql")
    assert both == {"this version": NEW, "the other version": OLD}
    alone = _setups(tmp_path, "--setup-against", "old.sql")
    assert alone == {"this version": None, "the other version": OLD}


def test_tables_of_both_versions_are_read_once(tmp_path: Path) -> None:
    """What the shell makes of <(git show main:tables.sql) has nothing more to read the second time."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as writer:
        writer.submit(pipe.write_text, NEW)
        try:
            found = _setups(tmp_path, "--setup", "pipe", "--script-against", "b.sql")
        finally:
            os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # a writer that nobody read waits no longer
    assert found == {"this version": NEW, "the other version": NEW}


def test_a_limit_that_no_change_breaks_is_warned_of(tmp_path: Path) -> None:
    done = walproof(*GATE, "--fail-if", "tps < 1.2x", "--set", "commit_delay=1", "--dry-run", cwd=tmp_path)
    assert done.returncode == ExitStatus.DONE, done.stderr
    assert done.stderr == 'warning: an unchanged configuration breaks "tps < 1.2x": its ratio is 1x\n'


def test_a_gate_on_two_files_names_them(tmp_path: Path) -> None:
    """Where they set the same, too: a change of a comment breaks nothing, and a gate on it holds."""
    for name, text in (
        ("old.conf", "commit_delay = 1\n"),
        ("new.conf", "commit_delay = 1 # a word\nport = 1\n"),
    ):
        (tmp_path / name).write_text(text)
    files = ("--conf", str(tmp_path / "old.conf"), "--conf", str(tmp_path / "new.conf"), "--dry-run")
    done = walproof(*GATE, *files, cwd=tmp_path)
    assert done.returncode == ExitStatus.DONE, done.stderr
    assert done.stderr == (
        "Not measured of new.conf: port.\n"
        "new.conf differs from the baseline, old.conf, in nothing that acts: a difference between them is "
        "chance.\n"
    )
    assert "variants (compared with old.conf)\n" in done.stdout
    done = walproof("compare", "--pg", "embedded", *files, cwd=tmp_path)
    assert (done.returncode, "set the same" in done.stderr) == (ExitStatus.ERROR, True)


@pytest.mark.parametrize(
    ("line", "hint"),
    [("max_wal_sise = 3", "Did you mean max_wal_size"), ("max_wal_size = many", "hint: ")],
)
def test_a_file_that_no_server_would_start_with_is_compared_by_nothing(
    tmp_path: Path, line: str, hint: str
) -> None:
    (tmp_path / "a.conf").write_text("commit_delay = 1\n")
    (tmp_path / "b.conf").write_text(f"commit_delay = 2\nport = 1\n{line}\n")
    files = ("--conf", "a.conf", "--conf", "b.conf", "--dry-run")
    study = ("run", "durability", "--pg", "embedded", "--conf", "b.conf", "--dry-run")
    for words in ((*GATE, *files), ("compare", "--pg", "embedded", *files), study):
        done = walproof(*words, cwd=tmp_path)
        assert done.returncode == ExitStatus.ERROR, done.stdout
        assert f'"b.conf" has a line that PostgreSQL refuses: {line}\ndetail: ' in done.stderr
        assert hint in done.stderr


def test_a_study_may_run_on_somebodys_own_configuration(tmp_path: Path) -> None:
    """What is typed counts after the file, and the file after what the study says of every variant."""
    (tmp_path / "own.conf").write_text("shared_buffers = 256MB\nmax_wal_size = 2GB\nport = 1\n")
    options = ("--pg", "embedded", "--conf", "own.conf", "--set", "max_wal_size=3GB", "--dry-run", "--json")
    done = walproof("run", "replication-live", *options, cwd=tmp_path)
    assert done.returncode == ExitStatus.DONE, done.stderr
    assert done.stderr == "Not measured of own.conf: port.\n"
    base = json.loads(done.stdout)["base_settings"]
    assert (base["shared_buffers"], base["max_wal_size"], base["autovacuum"]) == ("256MB", "3GB", "off")
    assert json.loads(done.stdout)["notes"] == ["Not measured of own.conf: port."]


def test_a_gate_on_wal_gives_both_sides_as_many_transactions(tmp_path: Path) -> None:
    both = (*GATE, "--set", "commit_delay=1", "--clients", "4", "--fail-if", "tps < 0.9x", "--dry-run")
    done = walproof(*both, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1000 transactions per client" in done.stdout
    assert (
        "WAL bytes of equally many transactions vary least; tps is judged by the same trials" in done.stdout
    )
    assert "--transactions 1000" in done.stdout, "what repeats it says so"
    typed = walproof(*both, "--duration", "3s", cwd=tmp_path)
    assert "design toggled" in typed.stdout


def test_a_round_that_is_longer_than_the_budget_is_said(tmp_path: Path) -> None:
    """The first round is run in any case: nobody is told that it ends with the budget."""
    both = (*GATE, "--set", "commit_delay=1", "--budget", "1min", "--dry-run")
    done = walproof(*both, "--duration", "10min", "--design", "fresh", cwd=tmp_path)
    assert done.returncode == ExitStatus.DONE, done.stderr
    (said,) = (line for line in done.stdout.splitlines() if line.startswith("length: "))
    assert re.fullmatch(
        r"length: until the gate is decided, but one round alone takes about 20 min \d\d s: longer than the "
        r"budget, 1 min 00 s",
        said,
    )
    done = walproof(*both, cwd=tmp_path)
    assert "1 min 00 s at most, but one round in any case, after what is prepared" in done.stdout

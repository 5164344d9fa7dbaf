"""``load-advice`` as a user runs it: mistakes, the plan, a whole small study, and the recipe in psql."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.schemas import assert_valid
from tests.workload.loading.shop import REPLAY, SHOP
from walproof.advise.loading import LoadAdvice
from walproof.cli.load_advice import LoadAdviceOptions, _refuse_beside_run, may_lose_again
from walproof.errors import ClusterError, SettingError, StudyError
from walproof.facts import Environment, Install, LoadStep, Trial, TrialState, Variant
from walproof.facts.store import Store
from walproof.lab.asked import Overrides
from walproof.lab.kinds.loading.advice import Wanted, advice_study
from walproof.lab.kinds.loading.study import method_table
from walproof.lab.study import resolve
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.schema import dump_schema
from walproof.postgres.workspace import Workspace
from walproof.report.kinds.loading.script import Recipe, load_script
from walproof.settings.durability import DurabilityClass
from walproof.workload.loading.owner import apply_ddl
from walproof.workload.loading.steps import around
from walproof.workload.loading.table import Definition, ForeignKey, LoadedColumn, LoadedTable, read_table

pytestmark = pytest.mark.live

CASES: list[tuple[tuple[str, ...], str]] = [
    (("--table", "absent.sql"), 'could not read file "absent.sql"'),
    (("--table", "shop.sql"), "the DDL makes 3 tables"),
    (("--table", "shop.sql:nothing"), 'table "nothing" does not exist'),
    (("--table", "shop.sql:orders"), 'Capitals need quotes: "Orders"'),
    (("--table", "shop.sql:audit", "--rows", "many"), '--rows is "many"'),
    (("--table", "shop.sql:audit", "--may-lose", "face"), "nothing, commits, table, cluster"),
    (("--table", "shop.sql:audit", "--replay", "absent.sql"), 'could not read file "absent.sql"'),
    (("--table", "shop.sql:audit", "--file", "absent.csv"), "absent.csv"),
    (("--table", "bad.sql"), "DDL, line 2: syntax error"),
    (("--table", "nothing"), "names no table"),
    ((), "no table is named"),
    (("--table", "shop.sql:audit", "--file", "audit.csv", "--rows", "500"), "--rows and --file exclude"),
    (("--table", "shop.sql:audit", "--run", "last"), "--run and --table exclude each other"),
    (("--run", "last", "--rounds", "3"), "--run and --rounds exclude each other"),
    (("--table", "shop.sql:audit", "--filled", "some"), '--filled is "some"'),
    (("--table", "secret=word:t"), "names no table"),
    (("--table", "shop.sql:audit", "--file", "a\nb.csv"), r'file "/'),
    (("--table", "shop.sql:audit", "--replay", "system.psql"), "a backslash outside of quotes"),
    (("--table", "system.sql:a"), "DDL, line 2: permission denied"),
    (("--table", "hostile.sql"), "holds a control character"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("advice")
    (path / "shop.sql").write_text(SHOP)
    (path / "bad.sql").write_text("CREATE TABLE a\n (x int,, y int);")
    (path / "system.sql").write_text("CREATE TABLE a (x int);\nALTER SYSTEM SET work_mem = '8MB';")
    (path / "system.psql").write_text("SELECT 1 \\gexec")
    (path / "hostile.sql").write_text('CREATE TABLE "a\n\\! ls" (x int);')
    (path / "replay.sql").write_text(REPLAY)
    return path


@pytest.mark.parametrize(("arguments", "says"), CASES)
def test_a_mistake_is_one_clear_error(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    done = walproof("load-advice", "--pg", "embedded", *arguments, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "word" not in done.stderr


def test_the_plan_leaves_each_step_out_once(folder: Path) -> None:
    done = walproof(
        "load-advice", "--pg", "embedded", "--table", 'shop.sql:"Orders"', "--replay", "replay.sql",
        "--may-lose", "table", "--dry-run", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for step in ("COPY FREEZE", "late indexes", "late foreign keys", "triggers off"):
        assert f"without {step}  [none]" in done.stdout
    assert "UNLOGGED, then SET LOGGED  [may lose table]" in done.stdout
    assert "200,000 rows into" in done.stdout
    assert "nothing: copy, 100, 1,000, 10,000, 100,000 rows a batch" in done.stdout
    assert "nothing: copy, 1, 2, 4, 8" in done.stdout
    assert "--rows 200k" in done.stdout


def test_a_table_that_holds_rows_is_planned_with_them(folder: Path) -> None:
    """It is not emptied, so no row can be loaded frozen."""
    words = (
        "load-advice", "--pg", "embedded", "--table", 'shop.sql:"Orders"', "--replay", "replay.sql",
        "--dry-run", "--json",
    )  # fmt: skip
    for typed, rows in (((), 0), (("--filled", "2k"), 2000)):
        done = walproof(*words, *typed, cwd=folder)
        assert done.returncode == 0, done.stderr
        plan = json.loads(done.stdout)
        assert plan["kind"]["filled"] == rows
        assert any("COPY FREEZE" in variant["name"] for variant in plan["variants"]) == (not rows)


def test_the_plan_counts_the_rows_of_the_file(folder: Path) -> None:
    """Batches larger than the file are not tried; the command that is kept names no rows."""
    (folder / "few.csv").write_text("id,said\n" + '1,"two\nlines"\n' * 1500)
    (folder / "few.sql").write_text("CREATE TABLE few (id int, said text);")
    done = walproof(
        "load-advice", "--pg", "embedded", "--table", "few.sql", "--file", "few.csv", "--dry-run", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "  1,500 rows into few, /" in done.stdout
    assert "plain COPY, 1,000 rows a commit" in done.stdout
    assert "10,000 rows a commit" not in done.stdout
    assert "--rows" not in done.stdout


def test_the_servers_major_version_is_measured(embedded: Install, workspace: Workspace) -> None:
    folder = workspace.make_folder("read")
    templates.clone(templates.prepare_empty(workspace, embedded, ()), folder, flush=False)
    cluster = Cluster(embedded, workspace, folder)
    cluster.start(templates.LOAD_SETTINGS)
    try:
        apply_ddl(cluster.conninfo, SHOP)
        words = ("load-advice", "--table", f"{cluster.conninfo}:audit", "--dry-run")
        same = walproof(*words, cwd=folder.parent)
        other = walproof(*words, "--json", "--pg", "embedded-16", cwd=folder.parent)
    finally:
        cluster.stop("immediate")
    assert same.returncode == 0, same.stderr
    assert f"PostgreSQL\n  {embedded.version}" in same.stdout
    assert f"--pg {embedded.version_num // 10000}" in same.stdout
    assert "differs between major versions" not in same.stderr
    assert other.returncode == 0, other.stderr
    note = f"the server of audit is of PostgreSQL {embedded.version_num // 10000}, and 16."
    assert note in other.stderr
    assert note in json.loads(other.stdout)["description"]


def test_what_runs_as_superuser_is_said_before_anything_runs(folder: Path) -> None:
    """Also where only the plan is printed; an option that was given is part of the command that is kept."""
    arguments = ("load-advice", "--table", "shop.sql:audit", "--pg", "embedded", "--dry-run")
    done = walproof(*arguments, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    done = walproof(*arguments, "--ddl-as-superuser", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "the DDL and the loads run as superuser of a throw-away server (--ddl-as-superuser)\n"
    )
    assert "--ddl-as-superuser" in done.stdout


def test_a_small_study_from_the_file_to_the_page(folder: Path) -> None:
    """Two methods, one of which the first round also breaks off; facts are stored and shown."""
    (folder / "small.toml").write_text(
        'name = "small"\ntitle = "?"\n[design]\nrounds = 1\n[load]\ntable = "a"\nrows = 500\ncrash = true\n'
        'ddl = "CREATE TABLE a (x int PRIMARY KEY, y text)"\n[[workload]]\nname = "rows"\n'
        '[[variant]]\nname = "COPY"\n[[variant]]\nname = "late"\nload = { steps = ["late indexes"] }\n'
    )
    done = walproof("run", "small.toml", "--pg", "embedded", "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "What is at risk" in done.stdout
    store = Store(folder / "out" / "walproof.sqlite")
    trials = store.trials(store.run("last").id)
    store.close()
    assert [trial.reason for trial in trials] == [None] * 2
    assert [t.metrics.get("crash_rows_share") for t in trials] == [0.0, 0.0]
    assert list((folder / "out" / "reports").iterdir())


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A folder that every user can reach, on another filesystem where there is one in memory."""
    with tempfile.TemporaryDirectory(prefix="walproof-tests-", dir="/dev/shm") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_wal_in_another_folder(folder: Path, other_disk: Path) -> None:
    """One method with pg_wal in the data directory and elsewhere; nothing is left there."""
    (folder / "wal.toml").write_text(
        'name = "wal"\ntitle = "?"\n[design]\nrounds = 1\n[load]\ntable = "a"\nrows = 500\n'
        'ddl = "CREATE TABLE a (x int PRIMARY KEY, y text)"\n[[workload]]\nname = "rows"\n'
        '[[variant]]\nname = "COPY"\n'
    )
    arguments = ("run", "wal.toml", "--pg", "embedded", "--out", "wal-out", "--waldir")
    done = walproof(*arguments, str(other_disk), cwd=folder)
    assert done.returncode == 0, done.stderr
    store = Store(folder / "wal-out" / "walproof.sqlite")
    trials = store.trials(store.run("last").id)
    store.close()
    assert sorted(trial.variant for trial in trials) == ["COPY", f"COPY, WAL in {other_disk}"]
    assert [trial.reason for trial in trials] == [None] * 2
    assert list(other_disk.iterdir()) == []
    work = folder / "inside"
    (work / "walproof-work" / "wal").mkdir(parents=True)
    for refused, says in (
        (("absent",), "the folder for WAL is not a folder"),
        ((str(work / "walproof-work" / "wal"), "--on", str(work)), "lies inside the folder of the clusters"),
    ):
        done = walproof(*arguments, *refused, cwd=folder)
        assert done.returncode == 2, done.stderr
        assert says in done.stderr


def test_a_folder_for_wal_that_the_server_cannot_reach(folder: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    # Not to be written by others; root, who may, has a server user who does not get there.
    closed.mkdir(mode=0o500)
    done = walproof(
        "run", "small.toml", "--pg", "embedded", "--out", "o", "--waldir", str(closed), cwd=folder
    )
    assert done.returncode == 2, done.stderr
    assert "--waldir" in done.stderr
    assert list(closed.iterdir()) == []


def test_the_recipe_of_a_finished_run_is_printed_again(folder: Path, embedded: Install) -> None:
    """Trials at made rates: late indexes gain, the rest does nothing. The table holds rows."""
    ddl = "CREATE TABLE t (id bigint PRIMARY KEY, x text)"
    table = LoadedTable(
        "t", (LoadedColumn("id", "bigint", "int8", "b", -1, True),), (("id",),), (), (), (), (), False, False
    )
    key = replace(table, key_constraints=(Definition("t_pkey", "PRIMARY KEY (id)"),))
    wanted = Wanted("t", ddl, 500, None, None, DurabilityClass.NONE, filled=300)
    study = advice_study(wanted, key, embedded)
    assert all("truncate" not in method_table(variant).steps for variant in study.variant)
    plan = resolve(study, Overrides(rounds=3), folder=folder, given=(embedded,))
    (folder / "again").mkdir()
    store = Store(folder / "again" / "walproof.sqlite")
    try:
        run = store.add_run(plan, ("walproof", "load-advice", "--table", "t.sql"), Environment({}, {}), "1")
        number = 0
        for round_ in (1, 2, 3):
            for cell in plan.cells:
                number += 1
                rate = (500.0 if "late indexes" in cell[2] else 1000.0) + round_ + number / 1000
                metrics = {"complete_rows_per_s": rate, "rows_per_s": rate}
                done = Trial(number, round_, *cell, TrialState.DONE, 0.0, 1.0, 0.0, 1.0, metrics, {})
                store.add_trial(run.id, done, ())
        arguments = ("load-advice", "--run", "last", "--out", "again")
        early = walproof(*arguments, cwd=folder)
        assert early.returncode == 2
        assert "is not finished" in early.stderr
        store.finish_run(run.id)
    finally:
        store.close()
    said = walproof(*arguments, cwd=folder)
    assert said.returncode == 0, said.stderr
    assert (
        "-- What each step gains in the company of the others, as complete rows/s:\n--   late indexes: "
        in (said.stdout)
    )
    assert "ALTER TABLE t DROP CONSTRAINT t_pkey;" in said.stdout
    assert "the table is not empty" not in said.stdout
    assert "into a table that holds rows already" in said.stdout
    told = json.loads(walproof(*arguments, "--json", cwd=folder).stdout)
    assert told["script"] == said.stdout
    assert_valid("load-advice", told)
    (late,) = [step for step in told["steps"]["kept"] if step["step"] == "late indexes"]
    assert late["conclusion"] == "higher"
    assert late["interval"][0] < late["ratio"] < late["interval"][1]
    assert (told["table"], told["durability_class"]) == ("t", "none")


def test_a_store_makes_nobody_run_its_ddl_as_superuser(folder: Path, embedded: Install) -> None:
    """A superuser may start programs, and others may write to a store."""
    table = LoadedTable(
        "t", (LoadedColumn("id", "bigint", "int8", "b", -1, True),), (("id",),), (), (), (), (), False, False
    )
    ddl = f"CREATE TABLE t (id bigint PRIMARY KEY); COPY t FROM PROGRAM 'touch {folder}/started'"
    wanted = Wanted("t", ddl, 500, None, None, DurabilityClass.NONE, ddl_as_superuser=True)
    plan = resolve(
        advice_study(wanted, table, embedded), Overrides(rounds=3), folder=folder, given=(embedded,)
    )
    store = Store(folder / "theirs" / "walproof.sqlite")
    try:
        run = store.add_run(plan, ("walproof", "load-advice", "--table", "t.sql"), Environment({}, {}), "1")
        store.finish_run(run.id)
    finally:
        store.close()
    done = walproof("load-advice", "--run", "last", "--out", "theirs", cwd=folder)
    assert done.returncode == 2
    assert f"the DDL of run {run.id} was run as superuser" in done.stderr
    assert "--ddl-as-superuser runs it so again" in done.stderr
    assert not (folder / "started").exists()
    _refuse_beside_run(LoadAdviceOptions(run="last", ddl_as_superuser=True))


def test_a_recipe_loses_what_was_measured_or_less() -> None:
    """Whoever asked a run of --may-lose cluster for one that loses nothing got fsync = off."""
    command = ("walproof", "load-advice", "--table", "t.sql", "--may-lose", "table", "--rounds", "3")
    assert may_lose_again(command, None) is DurabilityClass.TABLE
    assert may_lose_again(command, "nothing") is DurabilityClass.NONE
    assert may_lose_again(command, "last commits") is DurabilityClass.LAST_COMMITS
    assert may_lose_again(command[:4], None) is DurabilityClass.NONE
    with pytest.raises(StudyError, match="did not measure loads that may lose cluster"):
        may_lose_again(command, "cluster")
    with pytest.raises(SettingError, match="--may-lose is"):
        may_lose_again(command, "face")


def test_indexes_and_foreign_keys_are_one_step_where_the_table_points_to_itself(embedded: Install) -> None:
    """Its key can only be dropped together with the foreign key."""
    key = Definition("t_pkey", "PRIMARY KEY (id)")
    up = Definition("t_up", "FOREIGN KEY (up) REFERENCES t(id)")
    column = LoadedColumn("id", "bigint", "int8", "b", -1, True)
    names = {}
    for target in ("t", "others"):
        table = LoadedTable(
            "t", (column, replace(column, name="up")), (("id",),), (), (key,),
            (ForeignKey(up, ("up",), target, ("id",)),), (), False, False,
        )  # fmt: skip
        study = advice_study(Wanted("t", "", 500, None, None, DurabilityClass.NONE), table, embedded)
        names[target] = [variant.name for variant in study.variant if "late" in variant.name]
        assert method_table(study.variant[0]).steps[-2:] == ("late indexes", "late foreign keys")
    assert names == {
        "t": ["without late indexes and foreign keys"],
        "others": ["without late indexes", "without late foreign keys"],
    }


def test_psql_takes_the_recipe(folder: Path, embedded: Install, workspace: Workspace) -> None:
    """Every step at once, in a database of the DDL; afterwards all of its definition is there again."""
    steps: tuple[LoadStep, ...] = ("truncate", "freeze", "late indexes", "late foreign keys", "triggers off")
    home = workspace.make_folder("recipe")
    templates.clone(templates.prepare_empty(workspace, embedded, ()), home, flush=False)
    cluster = Cluster(embedded, workspace, home)
    cluster.start({})
    try:
        apply_ddl(cluster.conninfo, SHOP)
        with cluster.connect() as session:
            before = read_table(session, '"Orders"')
            session.execute("INSERT INTO customers SELECT i, 'c' FROM generate_series(1, 3) i")
        about = around(before, steps, REPLAY, embedded.version_num)
        rows = folder / "orders.csv"
        rows.write_text(before.column_list + "\n" + "1,2,2026-01-01,2026-01-01,5,1,1,t,5,n,c,,,{1},,new,,\n")
        advice = LoadAdvice("18", Variant("every step", {}), (), (), False, (), (), ())
        recipe = Recipe(
            before.name, before.column_list, about.before, about.first, about.after, about.is_frozen, ()
        )
        script = load_script(advice, recipe, [("max_wal_size", "2GB")], str(rows))
        (folder / "recipe.sql").write_text(script)
        psql = Path(embedded.bindir) / "psql"
        done = subprocess.run(
            [str(psql), "-X", "-d", cluster.conninfo, "-f", str(folder / "recipe.sql")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        again = subprocess.run(
            [str(psql), "-X", "-d", cluster.conninfo, "-f", str(folder / "recipe.sql")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "the table is not empty" in again.stderr
        with cluster.connect() as session:
            after = read_table(session, '"Orders"')
            count = session.execute('SELECT (SELECT count(*) FROM "Orders"), count(*) FROM audit').fetchone()
        assert count == (1, 1)
        assert (set(after.indexes), after.key_constraints, after.foreign_keys, after.triggers) == (
            set(before.indexes), before.key_constraints, before.foreign_keys, before.triggers,
        )  # fmt: skip
    finally:
        cluster.stop("immediate")


def test_definitions_come_from_a_server_and_secrets_do_not(embedded: Install, workspace: Workspace) -> None:
    home = workspace.make_folder("schema")
    templates.clone(templates.prepare_empty(workspace, embedded, ()), home, flush=False)
    cluster = Cluster(embedded, workspace, home)
    cluster.start({})
    try:
        apply_ddl(cluster.conninfo, SHOP)
        text = dump_schema(cluster.conninfo + " password=hush", Path(embedded.bindir) / "pg_dump")
        with cluster.connect() as session:
            session.execute("CREATE DATABASE other")
        apply_ddl(cluster.conninfo.replace("dbname=postgres", "dbname=other"), text)
    finally:
        cluster.stop("immediate")
    assert "CREATE TABLE public.audit" in text


def test_definitions_are_not_waited_for(embedded: Install, workspace: Workspace) -> None:
    """pg_dump takes locks; where it would have to wait for one, it ends, instead of making others wait."""
    home = workspace.make_folder("locked")
    templates.clone(templates.prepare_empty(workspace, embedded, ()), home, flush=False)
    cluster = Cluster(embedded, workspace, home)
    cluster.start({})
    try:
        apply_ddl(cluster.conninfo, SHOP)
        with cluster.connect() as session:
            session.execute("BEGIN")
            session.execute("LOCK TABLE audit")
            with pytest.raises(ClusterError, match="pg_dump could not read") as caught:
                dump_schema(
                    cluster.conninfo + " options='-c work_mem=5MB'", Path(embedded.bindir) / "pg_dump"
                )
        assert "statement timeout" in (caught.value.detail or "")
    finally:
        cluster.stop("immediate")


def test_a_pg_dump_without_ssl_says_so(embedded: Install) -> None:
    with pytest.raises(ClusterError) as caught:
        dump_schema("host=127.0.0.1 port=1 sslmode=verify-full", Path(embedded.bindir) / "pg_dump")
    assert "sslmode=verify-full demands" in (caught.value.hint or ""), caught.value.detail

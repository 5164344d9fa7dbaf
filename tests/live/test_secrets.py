"""Secrets stay where they were put: each command, with canaries in every place that could hold one.

Searched are the words and environment of every process that a command starts, what it prints, every file that
it leaves, and the shared store. tests/settings/test_conninfo.py has what is shown of a connection string.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from tests.golden.unpack import unpack
from tests.live.canaries import Canaries, leaks_in_files, open_to_others, watch
from tests.live.pair import Pair, watcher
from tests.workload.loading.shop import SHOP
from walproof.facts import Install

pytestmark = pytest.mark.live

OTHERS = (
    "CREATE TABLE elsewhere (i int); COMMENT ON TABLE elsewhere IS '{comment}'",
    "CREATE FUNCTION unrelated() RETURNS text LANGUAGE sql AS $$ SELECT '{function}' $$",
    "CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere password={subscription}' PUBLICATION p"
    " WITH (connect = false)",
    "CREATE FOREIGN DATA WRAPPER w",
    "CREATE SERVER far FOREIGN DATA WRAPPER w OPTIONS (host '{server}')",
    "CREATE USER MAPPING FOR postgres SERVER far OPTIONS (password '{mapping}')",
)
"""What a database has besides the table that is asked about."""
FORMS = ("pairs", "URI", "in its query")
SMALL = (
    'name = "small"\ntitle = "?"\n[design]\nrounds = 1\n[load]\ntable = "a"\nrows = 300\n'
    'ddl = "CREATE TABLE a (x int PRIMARY KEY, y text)"\n[[workload]]\nname = "rows"\n'
    '[[variant]]\nname = "COPY"\n'
)
PGBENCH = (
    'name = "bench"\ntitle = "?"\n[design]\nrounds = 1\n[[workload]]\nname = "w"\nscale = 1\nclients = 1\n'
    'transactions = 20\n[[variant]]\nname = "default"\n'
)


@pytest.fixture(scope="module")
def canaries(pair: Pair) -> Canaries:
    """With a database ``shop`` that has some of them."""
    found = Canaries()
    with psycopg.connect(pair.primary.conninfo, autocommit=True) as session:
        session.execute("CREATE DATABASE shop")
        session.execute("CREATE DATABASE facts")
    with psycopg.connect(pair.primary.conninfo, autocommit=True, dbname="shop") as session:
        session.execute(SHOP.encode())
        for other in OTHERS:
            for part in other.split("; "):
                names = ("comment", "function", "subscription", "server", "mapping")
                session.execute(part.format(**{name: found.at(name) for name in names}).encode())
    return found


@pytest.fixture(scope="module")
def addresses(pair: Pair, canaries: Canaries) -> dict[str, str]:
    """The same server by both forms of a connection string, secrets in all that may hold one."""
    options = f"-c walproof.token={canaries.at('options')}"
    socket = str(pair.primary.sockets).replace("/", "%2F")
    quoted = f"{canaries.at('password')} with\\' a quote"
    return {
        "pairs": f"{pair.primary.conninfo.replace('dbname=postgres', 'dbname=shop')} password='{quoted}'"
        f" sslpassword={canaries.at('sslpassword')} options='{options}'",
        "URI": f"postgresql://postgres:{canaries.at('uri')}%40%2Fx@/shop?host={socket}"
        f"&port={pair.primary.port}&sslpassword={canaries.at('uri-sslpassword')}"
        f"&options=-c%20walproof.token%3D{canaries.at('uri-options')}",
        "in its query": f"postgresql:///shop?user=postgres&host={socket}&port={pair.primary.port}"
        f"&password={canaries.at('query')}",
    }


@pytest.fixture
def place(open_place: Path) -> Path:
    return open_place


@pytest.fixture
def on_path(embedded: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_dump."""
    monkeypatch.setenv("PATH", f"{embedded.bindir}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("form", FORMS)
def test_the_names_of_a_server(
    canaries: Canaries, addresses: dict[str, str], tmp_path: Path, place: Path, form: str
) -> None:
    done = watch(["wal", "map", addresses[form]], canaries, tmp_path, place, PGPASSWORD="")
    assert done.status == 0, done.stderr
    assert done.leaks == set()


def test_what_is_compressed_is_searched(tmp_path: Path) -> None:
    canaries = Canaries()
    with pa.output_stream(tmp_path / "segment.zst", compression="zstd") as file:
        file.write(canaries.at("row").encode() * 2)
    assert leaks_in_files(tmp_path, canaries) == {"segment.zst: row"}


def test_a_server_that_is_observed(
    pair: Pair, canaries: Canaries, addresses: dict[str, str], tmp_path: Path, place: Path
) -> None:
    """Its WAL and its standby, by commands that take its address, with secrets in that."""
    (tmp_path / "wal").mkdir()
    unpack(17, tmp_path / "wal")
    dsn, other = addresses["pairs"], watcher(pair.standby)
    _write(pair, canaries.at("row"))
    segment = str(tmp_path / "wal" / "00000001000000000000000A")
    for arguments, status in (
        (["wal", "stats", segment, "--resolve", dsn], 2),  # of another cluster
        (["wal", "capture", dsn, "--to", "recording", "--for", "1s"], 0),
        (["advise", dsn, "--for", "1s", "--save", "seen", "--html", "advice.html"], 0),
        (["wal", "strip", "recording", "--to", "stripped"], 0),
        (
            [
                "replica",
                "watch",
                "--primary",
                dsn,
                "--standby",
                other,
                "--once",
                "--every",
                "500ms",
                "--json",
            ],
            0,
        ),
    ):
        done = watch(arguments, canaries, tmp_path, place, PGPASSWORD="")
        assert done.status == status, (arguments, done.stderr)
        assert done.leaks == set(), arguments
    recorded = leaks_in_files(tmp_path / "recording", canaries)
    assert any(leak.endswith(": row") for leak in recorded), "there is something to strip"
    assert recorded <= _of_contents(tmp_path, canaries)
    assert leaks_in_files(tmp_path / "stripped", canaries) == set()
    assert leaks_in_files(tmp_path / "seen", canaries) == set()
    assert canaries.found_in((tmp_path / "advice.html").read_bytes()) == []
    for name in ("recording", "stripped"):
        assert open_to_others(tmp_path / name) == []
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


def _write(pair: Pair, value: str) -> None:
    """Rows with the value, in the segment that a recording begins with."""
    with psycopg.connect(pair.primary.conninfo, autocommit=True, dbname="shop") as session:
        session.execute("SELECT pg_switch_wal()")
        session.execute("CREATE TABLE written (value text)")
        session.execute(f"INSERT INTO written SELECT '{value}' FROM generate_series(1, 20)".encode())


def _of_contents(folder: Path, canaries: Canaries) -> set[str]:
    """What segments hold is the server's: docs/wal.md says so, and --strip takes it out."""
    return {
        f"{path.name}: {kind}"
        for path in (folder / "recording").glob("0*")
        for kind in ("comment", "function", "subscription", "server", "mapping", "row")
        if kind in canaries
    }


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("form", FORMS)
def test_a_plan_holds_the_table_that_was_asked_about(
    embedded: Install,
    canaries: Canaries,
    addresses: dict[str, str],
    tmp_path: Path,
    place: Path,
    form: str,
) -> None:
    """No other one, no subscription, no mapping; and what repeats the command has no secret."""
    asked = ["load-advice", "--pg", embedded.bindir, "--table", f'{addresses[form]}:"Orders"', "--dry-run"]
    done = watch([*asked, "--json"], canaries, tmp_path, place, PGPASSWORD="")
    assert done.leaks == set()
    assert done.status == 0, done.stderr
    assert "pg_dump" in done.programs
    ddl = json.loads(done.stdout)["kind"]["ddl"]
    for needed in ('"Orders"', "customers", "audit", "status", "cents", "audit_order", "orders_lower"):
        assert needed in ddl
    assert "elsewhere" not in ddl
    if form == "pairs":
        shown = watch(asked, canaries, tmp_path, place, PGPASSWORD="")
        assert shown.leaks == set()
        assert "dbname=shop" in shown.stdout


@pytest.mark.long
def test_a_shared_store(
    pair: Pair, canaries: Canaries, tmp_path: Path, place: Path, addresses: dict[str, str]
) -> None:
    """Studies that start servers, pgbench, loading clients and helpers, into a store with a password."""
    store = addresses["URI"].replace("/shop?", "/facts?")
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "bench.toml").write_text(PGBENCH)
    programs: set[str] = set()
    for arguments in (
        ["run", "small.toml", "--pg", "embedded", "--store", store],
        ["run", "bench.toml", "--pg", "embedded", "--json"],
        ["runs"],
        ["show", "last"],
        ["report", "last", "--format", "md"],
        ["report", "last", "--format", "json"],
        ["report", "last", "--output", "page.html"],
        ["store", "upgrade", "--json"],
    ):
        done = watch(arguments, canaries, tmp_path, place, WALPROOF_STORE=store)
        assert done.status == 0, (arguments, done.stderr)
        assert done.leaks == set(), arguments
        programs |= done.programs
    assert {"postgres", "pgbench", "initdb"} & programs >= {"postgres", "pgbench"}
    assert any(program.startswith("python") for program in programs)
    assert leaks_in_files(tmp_path, canaries) == set()
    assert open_to_others(tmp_path / "walproof-out") == []
    with psycopg.connect(pair.primary.conninfo, autocommit=True, dbname="facts") as session:
        tables = ("run", "trial", "metric", "series", "run_end")
        rows = [session.execute(f"SELECT x::text FROM {table} x".encode()).fetchall() for table in tables]
    assert len(rows[0]) == 2
    assert canaries.found_in(str(rows)) == []


def test_a_store_in_a_file_is_its_owners(canaries: Canaries, tmp_path: Path, place: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    done = watch(["run", "small.toml", "--pg", "embedded"], canaries, tmp_path, place, WALPROOF_STORE="")
    assert done.status == 0, done.stderr
    assert done.leaks == set()
    assert leaks_in_files(tmp_path, canaries) == set()
    assert open_to_others(tmp_path / "walproof-out") == []
    assert stat.S_IMODE((tmp_path / "walproof-out").stat().st_mode) == 0o700


WRONG = (
    ("wal", "map", "host=/nowhere password='{c}"),
    ("wal", "map", "host=/nowhere password=x {c}"),
    ("wal", "map", "host=/nowhere", "password={c}"),
    ("wal", "map", "postgresql://me:a@{c}@127.0.0.1:1/shop"),
    ("wal", "map", "postgresql://me:{c}/b@127.0.0.1:1/shop"),
    ("wal", "map", "postgresql://me:a/{c}@127.0.0.1:1/shop"),
    ("wal", "map", "postgresql://me:a:{c}@127.0.0.1:1/shop"),
    ("wal", "map", "postgresql://me@127.0.0.1:1/shop?password={c}=x"),
    ("wal", "map", "service=absent password={c}"),
    ("wal", "capture", "host=/nowhere password={c} port=x", "--to", "new"),
    ("advise", "host=/nowhere password={c} port=x", "--for", "1s"),
    ("replica", "watch", "--primary", "host=/nowhere password={c}", "--standby", "{c}", "--once"),
    ("load-advice", "--table", "postgresql://me:{c}@127.0.0.1/shop"),
    ("load-advice", "--table", "host=/nowhere password=a:{c}"),
    ("load-advice", "--table", "host=/nowhere password={c}.sql"),
    ("load-advice", "--table", "host=/nowhere password={c}"),
    ("load-advice", "--table", "service=absent password={c} dbname=d:t"),
    ("runs", "--store", "mysql://me:{c}@127.0.0.1/d"),
    ("runs", "--store", "postgresql:/me:{c}@127.0.0.1/d"),
    ("runs", "--store", "postgresql+other://me:{c}@127.0.0.1/d"),
    ("runs", "--store", "host=/nowhere password={c}"),
    ("runs", "--store", "postgresql://me:a@{c}@127.0.0.1:1/d"),
    ("runs", "--store", "postgresql://me@127.0.0.1:1/d?password={c}&sslpassword={c}"),
    ("store", "upgrade", "--store", "postgresql://me:x@127.0.0.1:1/d?passwort={c}"),
    ("show", "last", "postgresql://me:{c}@127.0.0.1:1/d"),
    ("postgresql://me:{c}@127.0.0.1:1/d",),
)  # fmt: skip


@pytest.mark.usefixtures("on_path")
def test_what_is_wrong_is_not_repeated(tmp_path: Path, place: Path) -> None:
    """Addresses with mistakes in them: the error says what is wrong, and none of the text."""
    leaks: set[tuple[str, str]] = set()
    for number, template in enumerate(WRONG):
        canaries = Canaries()
        secret = canaries.at(f"wrong{number}")
        done = watch([word.format(c=secret) for word in template], canaries, tmp_path, place, PGPASSWORD="")
        leaks |= {(" ".join(template), leak) for leak in done.leaks}
        leaks |= {
            (" ".join(template), "a file's name") for path in tmp_path.rglob("*") if secret in path.name
        }
        assert done.status == 2, (template, done.stderr)
        assert "rror: " in done.stderr
    assert leaks == set()


def test_a_package_client_gets_its_own_variables(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of Maven, npm and proxies, and what the user names; nothing else."""
    canaries = Canaries()
    programs = tmp_path / "programs"
    programs.mkdir()
    for client in ("mvn", "npm"):
        (programs / client).write_text("#!/bin/sh\nexit 1\n")
        (programs / client).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    done = watch(
        ["pg", "install", "13.7"], canaries, tmp_path, place,
        WALPROOF_CACHE=str(tmp_path / "cache"), MAVEN_OPTS="-Xmx1g", NEXUS_USER="me",
        WALPROOF_KEEP_ENV="NEXUS_USER",
    )  # fmt: skip
    assert done.status == 2
    assert {"mvn", "npm"} & done.programs
    assert done.leaks == set()

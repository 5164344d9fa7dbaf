"""Is a drafted load like the application that it was drafted from?

    PYTHONPATH=. python bench/workload/alike.py [--pg 15] [--seconds 30] [--only APP] [--keep FOLDER]

Applications run, at a fixed rate, on a server that counts their statements. ``walproof workload`` looks for
``--seconds`` with a role that may read statistics, and drafts a load, which runs on a fresh server that
counts, too, at the rate that the draft names. Both begin with a checkpoint, and are compared after three
times as long: images depend on the time since a checkpoint, and a draft is of use only if that is right for
other times than that of the look. Per verb and table stand records, images and bytes of WAL per call. Before
that the draft is tried as its users try it: script by script.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.advise.servers import LOOKER, Laboratory, Server, laboratory
from walproof.advise.workload.naming import Catalog, NoneOfIt, Unreadable
from walproof.advise.workload.parameters import read_statement
from walproof.advise.workload.transactions import committed
from walproof.facts.application import Application
from walproof.observe.application import read_application

HERE = Path("bench/workload/apps")
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements", "fsync": "off", "max_wal_size": "20GB",
    "checkpoint_timeout": "1h", "autovacuum": "off", "wal_level": "replica",
}  # fmt: skip
_NEW_ROW = re.compile(r"currval\(pg_get_serial_sequence\([^()]*\)\)")
CLIENTS = 4
LOOKS = 3
"""Both run for so many times the look."""


@dataclass(frozen=True, slots=True)
class App:
    """An application."""

    name: str
    schema: Path | None
    scripts: Mapping[Path, int]
    rate: int
    """Transactions a second."""
    builtin: str | None = None

    @property
    def words(self) -> list[str]:
        """Options of pgbench that run it."""
        if self.builtin is not None:
            return ["-b", self.builtin]
        return [word for path, weight in self.scripts.items() for word in ("-f", f"{path}@{weight}")]


APPS = (
    App("tpcb", None, {}, 100, "tpcb-like"),
    App("shop", Path("examples/tune/schema.sql"),
        {Path("examples/tune/order.sql"): 12, Path("examples/tune/browse.sql"): 70}, 800),
    App("tickets", HERE / "tickets/schema.sql",
        {HERE / "tickets" / f"{name}.sql": weight
         for name, weight in (("open", 20), ("comment", 30), ("close", 15), ("drain", 7), ("read", 40))},
        400),
    App("orm", HERE / "orm/schema.sql",
        {HERE / "orm" / f"{name}.sql": weight
         for name, weight in (("login", 10), ("save", 20), ("post", 10), ("score", 25), ("like", 15),
                              ("feed", 30), ("clean", 1))}, 300),
    App("metrics", HERE / "metrics/schema.sql",
        {HERE / "metrics/sample.sql": 9, HERE / "metrics/recent.sql": 1}, 600),
    App("orders", HERE / "orders/schema.sql",
        {HERE / "orders/place.sql": 2, HERE / "orders/list.sql": 3, HERE / "orders/items.sql": 3}, 400),
    App("baskets", HERE / "baskets/schema.sql",
        {HERE / "baskets/place.sql": 2, HERE / "baskets/note.sql": 3, HERE / "baskets/look.sql": 4}, 400),
    App("jobs", HERE / "jobs/schema.sql",
        {HERE / "jobs/add.sql": 1, HERE / "jobs/work.sql": 1, HERE / "jobs/finish.sql": 1}, 300),
)  # fmt: skip


def main() -> None:
    """Run each application and its draft."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="15")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--only", choices=[app.name for app in APPS])
    parser.add_argument("--keep", type=Path, help="folder for the drafts and what was read")
    parser.add_argument("--on", type=Path, default=Path("/var/tmp/walproof-alike"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, laboratory(given.on) as lab:
        keep = given.keep or Path(temporary)
        keep.mkdir(exist_ok=True, parents=True)
        for app in APPS:
            if given.only in (None, app.name):
                folder = keep / app.name
                shutil.rmtree(folder, ignore_errors=True)
                real = run_application(lab, app, given.pg, given.seconds, folder)
                print(tried(folder), flush=True)
                drafted = run_draft(lab, folder, given.pg, given.seconds)
                print("\n".join(compared(app.name, real, drafted)), flush=True)


def run_application(lab: Laboratory, app: App, pg: str, seconds: int, to: Path) -> Application:
    """Run the application, draft a load into ``to``, and return what was counted at the end."""
    with lab.server(pg, SETTINGS) as server:
        if app.schema is None:
            server.fill(4)
        else:
            psql(server, app.schema)
        begin(server)
        conninfo = f"{server.cluster.conninfo} user={LOOKER}"
        with loaded(server, app.words, app.rate):
            until = time.monotonic() + LOOKS * seconds
            command = [sys.executable, "-P", "-m", "walproof", "workload", conninfo, "--to", str(to)]
            done = subprocess.run(
                [*command, "--for", f"{seconds}s"], check=True, stdout=subprocess.PIPE, text=True
            )
            print(done.stdout)
            time.sleep(max(0.0, until - time.monotonic()))
        return read_application(conninfo, None)


def tried(folder: Path) -> str:
    """What is printed of the draft when its scripts are tried one by one."""
    (path,) = folder.glob("*.toml")
    command = [sys.executable, "-P", "-m", "walproof", "workload", str(path)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def run_draft(lab: Laboratory, folder: Path, pg: str, seconds: int) -> Application:
    """Run a drafted load at its rate for as long, and return what was counted."""
    (path,) = folder.glob("*.toml")
    text = path.read_text(encoding="utf-8")
    (load,) = tomllib.loads(text.replace("# rate", "rate"))["workload"]
    with lab.server(pg, SETTINGS) as server:
        psql(server, folder / load["setup"])
        words = [
            word for each in load["script"] for word in ("-f", f"{folder / each['file']}@{each['weight']}")
        ]
        begin(server)
        with loaded(server, words, load["rate"]):
            time.sleep(LOOKS * seconds)
        return read_application(f"{server.cluster.conninfo} user={LOOKER}", None)


@contextmanager
def loaded(server: Server, words: list[str], rate: float) -> Iterator[None]:
    """The server under these scripts at a rate."""
    with server.load("-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-R", str(rate), *words):
        yield


def begin(server: Server) -> None:
    """Count from here, after a checkpoint."""
    with server.cluster.connect() as session:
        found = session.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
        ).fetchall()
    schemas = [str(row[0]) for row in found]
    server.sql(
        # pg_stats shows columns of tables that the role may read.
        *(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {LOOKER}" for schema in schemas),
        *(f"GRANT USAGE ON SCHEMA {schema} TO {LOOKER}" for schema in schemas),
        "CREATE EXTENSION pg_stat_statements",
        "CHECKPOINT",
        "SELECT pg_stat_statements_reset()",
    )


def psql(server: Server, file: Path) -> None:
    """Run a file of SQL, which is at fault if a statement of it fails."""
    path = server.laboratory.pgbench.with_name("psql")
    with file.open("rb") as source:
        done = subprocess.run(
            [str(path), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", server.cluster.conninfo],
            stdin=source, capture_output=True, text=False, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{file}: {done.stderr.decode()}")


def per_call(application: Application) -> dict[str, list[float]]:
    """Calls, records, images and bytes by verb and table."""
    catalog = Catalog(application.tables)
    found: dict[str, list[float]] = defaultdict(lambda: [0.0] * 5)
    for row in application.statements:
        try:
            # A draft names new rows so; a statement of an application that calls such functions is none.
            read = read_statement(_NEW_ROW.sub("1", row.query), catalog)
        except NoneOfIt:
            continue
        except Unreadable as error:
            if row.wal_bytes:
                print(f"not compared, {error}: {row.query[:200]}")
            continue
        key = f"{read.verb} {(read.target or read.tables[0]).relation}"
        counts = (row.calls, row.rows, row.wal_records, row.wal_fpi, row.wal_bytes)
        found[key] = [total + count for total, count in zip(found[key], counts, strict=True)]
    return found


def compared(name: str, real: Application, drafted: Application) -> Iterator[str]:
    """The table of an application."""
    here, there = per_call(real), per_call(drafted)
    yield f"\n{name}: per call, the application and its draft\n"
    yield "| | calls | rows | WAL records | images | WAL bytes |"
    yield "|---|---|---|---|---|---|"
    for key in sorted(here, key=lambda key: -here[key][4]):
        if key not in there:
            yield f"| {key} | {here[key][0]:.0f}, none | | | | |"
            continue
        calls = f"{here[key][0]:.0f}, {there[key][0]:.0f}"
        cells = [
            f"{here[key][n] / here[key][0]:.3g}, {there[key][n] / there[key][0]:.3g}" for n in (1, 2, 3, 4)
        ]
        yield f"| {key} | {calls} | {' | '.join(cells)} |"
    totals = []
    for application, rows in ((real, here), (drafted, there)):
        statements = sum(row[0] for row in rows.values())
        sums = [sum(row[n] for row in rows.values()) / statements for n in (2, 3, 4)]
        totals.append([*sums, committed(application.statements) / statements, statements])
    ratios = [f"{after / before:.3f}x" if before else "-" for before, after in zip(*totals, strict=True)]
    yield f"\nof a statement: records {ratios[0]}, images {ratios[1]}, bytes {ratios[2]}"
    yield f"blocks {ratios[3]}; statements in the same time {ratios[4]}"


if __name__ == "__main__":
    main()

"""Runs every command of the tutorials on real servers, as they stand in docs/tutorials.

    PYTHONPATH=. .venv/bin/python bench/ship/tutorials.py            # 50 minutes on 2 busy cores
    PYTHONPATH=. .venv/bin/python bench/ship/tutorials.py load-a-table

Each tutorial has a temporary folder with the files that it shows. The services that it names (shop, db1, db2)
are a throw-away primary under a light load and its standby, seen by a role with pg_monitor and REPLICATION.
Where a load is drafted, shop is a server that counts the statements of a small shop.

Exit status: 0 every command ended with 0, 1 another one did not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.advise.servers import LOOKER, laboratory
from bench.ship.pages import files, runnable
from bench.workload.alike import APPS, begin, loaded, psql
from bench.workload.alike import SETTINGS as COUNTING
from tests.live.pair import running_pair, watcher, writing
from tests.postgres.replication import SETTINGS
from walproof.postgres.build import has_extension
from walproof.postgres.cache import cache_folder
from walproof.postgres.install import discover, find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

PAGES = Path(__file__).parent.parent.parent / "docs" / "tutorials"


@contextmanager
def services(folder: Path) -> Iterator[Path]:
    """Run a pair; yield a service file for it."""
    user = server_user()
    with (
        Workspace(cache_folder("tutorials"), user) as workspace,
        running_pair(reachable_install(find("embedded"), user), workspace, SETTINGS) as pair,
    ):
        with pair.primary.connect() as session:
            session.execute("ALTER ROLE watcher REPLICATION")
        path = folder / "services.conf"
        words = {"shop": watcher(pair.primary), "db1": watcher(pair.primary), "db2": watcher(pair.standby)}
        path.write_text(
            "".join(f"[{name}]\n" + said.replace(" ", "\n") + "\n" for name, said in words.items())
        )
        with writing(pair.primary, bytes_per_s=200_000):
            yield path


@contextmanager
def application(folder: Path) -> Iterator[Path]:
    """Run a shop on a server that counts its statements; yield a service file for it."""
    app = next(each for each in APPS if each.name == "shop")
    newest = max(
        (each for each in discover() if has_extension(each, "pg_stat_statements")),
        key=lambda install: install.version_num,
    )
    with (
        laboratory(Path(cache_folder("tutorials"))) as lab,
        lab.server(newest.version, COUNTING) as server,
    ):
        assert app.schema is not None
        psql(server, app.schema)
        begin(server)
        path = folder / "services.conf"
        words = f"{server.cluster.conninfo} user={LOOKER}".replace(" ", "\n")
        path.write_text(f"[shop]\n{words}\n")
        with loaded(server, app.words, app.rate / 4):
            yield path


def run(page: Path, folder: Path, environment: dict[str, str]) -> bool:
    """Run the page's commands; return whether all ended with 0. The output of one that did not is printed."""
    for name, text in files(page).items():
        (folder / name).write_text(text, encoding="utf-8")
    for command in runnable(page):
        started = time.monotonic()
        done = subprocess.run(
            ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        print(f"{page.stem}: {done.returncode} {command} ({time.monotonic() - started:.0f} s)", flush=True)
        if done.returncode != 0:
            print(done.stdout[-3000:], done.stderr[-3000:], sep="\n", flush=True)
            return False
    return True


def main() -> int:
    """Run the tutorials that are named, else all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="of pages: first-study")
    names = parser.parse_args().names or sorted(page.stem for page in PAGES.glob("*.md"))
    good = True
    with tempfile.TemporaryDirectory() as place:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        for name in names:
            folder = Path(place) / name
            folder.mkdir()
            page = PAGES / f"{name}.md"
            commands = runnable(page)
            if any("service=" in command for command in commands):
                drafts = any(command.startswith("walproof workload") for command in commands)
                with (application if drafts else services)(folder) as conf:
                    good = run(page, folder, {**environment, "PGSERVICEFILE": str(conf)}) and good
            else:
                good = run(page, folder, environment) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

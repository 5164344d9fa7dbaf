"""Faults of a study over hosts at random moments: is a finished trial lost, is one stored twice?

    PYTHONPATH=. python bench/hosts/faults.py [--moments N] [--only FAULT] [--results FILE]

Two nodes of a real Ray cluster on this machine stand for two hosts, beside a head; a PostgreSQL of its own is
the store. A study of two variants in three rounds begins. A random while after its first run was stored comes
a fault:

    worker   the process that carries out the study on a host is killed
    node     a host leaves the cluster with everything on it; it is back before the command is repeated
    driver   the command is killed
    store    the store's server is gone for 30 s

Then the same command is given until it ends well, three times at most. Checked: every trial that was stored
when it happened is there, and the same; each host has one run, with each cell of each round once; nothing is
kept on a host; no server and no folder is left after a minute.

A line for each moment goes to the results as JSON, and what has its line there is not done again. Moments
are drawn from their numbers.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.cli.command import environment
from tests.facts.server import store_server, store_url
from tests.hosts.clusters import Nodes, nodes
from tests.live.laboratory import wait_clean
from walproof.facts import Trial
from walproof.facts.store import Store
from walproof.postgres.cache import cache_folder, cache_path
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

HOSTS = ("elm", "oak")
ROUNDS = 3
EXPECTED = sorted(
    (round_, variant) for round_ in range(1, ROUNDS + 1) for variant in ("default", "fsync=off")
)
AWAY_S = 30.0
LATEST_S = 12.0
"""After the first run was stored."""
PATIENCE_S = 900.0
RESULTS = Path(__file__).parent / "faults.jsonl"


class Failed(Exception):
    """A condition that must hold did not."""


def main() -> None:
    """Go through the moments that have no line yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--only", choices=list(FAULTS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # cluster and store end, too
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    done = {(row["fault"], row["moment"]) for row in map(json.loads, lines)}
    wanted = [
        (fault, moment)
        for moment in range(1, arguments.moments + 1)
        for fault in FAULTS
        if (fault, moment) not in done and arguments.only in (None, fault)
    ]
    if not wanted:
        return
    with stage() as there:
        for fault, moment in wanted:
            found = there.try_moment(fault, moment)
            with arguments.results.open("a") as results:
                results.write(json.dumps(found) + "\n")
            print(json.dumps(found), flush=True)
            if found["broken"] is not None:
                sys.exit(1)


@contextmanager
def stage() -> Iterator[Stage]:
    """Store, cluster and a cache of its own."""
    folder = Path(tempfile.mkdtemp(prefix="walproof-faults-"))
    of_store = cache_folder("faults-store")
    os.environ["WALPROOF_CACHE"] = str(cache_folder("faults"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = stack.enter_context(nodes(()))
        cluster.add_head()  # the first node has the cluster's own state, and a host may leave
        by_name = {name: cluster.add(name) for name in HOSTS}
        workspace = stack.enter_context(Workspace(of_store, server_user()))
        install = reachable_install(find("embedded"), server_user())
        server = stack.enter_context(store_server(workspace, install))
        yield Stage(folder, server, cluster, by_name)


class Stage:
    """The cluster, the store and the folders of one moment."""

    def __init__(self, folder: Path, server: Cluster, cluster: Nodes, by_name: dict[str, Any]) -> None:
        self.folder, self.server, self.cluster, self.by_name = folder, server, cluster, by_name
        self.process: subprocess.Popen[bytes] | None = None
        self.host = HOSTS[0]

    def try_moment(self, fault: str, moment: int) -> dict[str, Any]:
        """Carry out one moment; return what happened and what was broken."""
        dice = random.Random(f"{fault} {moment}")
        out = self.folder / f"{fault}-{moment}"
        out.mkdir()
        database = f"{fault}_{moment}_{int(time.time())}"
        with self.server.connect() as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())
        url = store_url(self.server, database)
        self.host = dice.choice(HOSTS)
        delay_s = dice.uniform(0.0, LATEST_S)
        began = time.time()
        kept = cache_path() / "hosts"
        found: dict[str, Any] = {
            "fault": fault, "moment": moment, "host": self.host, "delay_s": round(delay_s, 2),
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "load_1_min": round(os.getloadavg()[0], 1),
        }  # fmt: skip
        statuses: list[int] = []
        try:
            self.process = self._start(out, url)
            self._wait_for_a_run(url)
            time.sleep(delay_s)
            before = _trials(url)
            ended_before = self.process.poll() is not None
            FAULTS[fault](self)
            statuses.append(self._end(self.process))
            if fault == "node":
                self.by_name[self.host] = self.cluster.add(self.host)
                self.cluster.cluster.wait_for_nodes(timeout=PATIENCE_S)
            while (not _is_complete(_trials(url)) or any(kept.rglob("*.json"))) and len(statuses) < 4:
                statuses.append(self._end(self._start(out, url)))
            _check(before, _trials(url), f"{statuses}, {_last_line(out)}", wait_clean(60.0))
            stored = sum(len(trials) for _, trials in before.values())
            found |= {"stored_before": stored, "had_ended": ended_before, "broken": None}
        except Failed as failure:
            found["broken"] = str(failure)
        finally:
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
        return found | {"statuses": statuses, "seconds": round(time.time() - began)}

    def _start(self, out: Path, url: str) -> subprocess.Popen[bytes]:
        anyway = ["--insecure"] if os.geteuid() == 0 else []
        command = [
            sys.executable, "-m", "walproof", "compare", "--set", "fsync=off", "--pg", "embedded",
            "--scale", "1", "--clients", "2", "--duration", "1s", "--rounds", str(ROUNDS), "--store", url,
            "--ray", self.cluster.cluster.address, "--json", *anyway,
        ]  # fmt: skip
        with (out / "errors").open("ab") as errors:
            return subprocess.Popen(
                command, cwd=out, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                env=environment(),
            )  # fmt: skip

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failed(f"the command had not ended after {PATIENCE_S:.0f} s") from None

    def _wait_for_a_run(self, url: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not _trials(url):
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"no run began, exit status {self.process.poll()}")
            time.sleep(0.2)

    def kill_worker(self) -> None:
        """Kill the process that carries out the study on the host, if there is one."""
        for process in psutil.process_iter():
            try:
                is_ours = (process.cmdline() or [""])[0].startswith("ray::carry_out_here")
                if is_ours and process.environ().get("WALPROOF_MACHINE") == self.host:
                    process.kill()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue

    def remove_node(self) -> None:
        """Take the host out of the cluster."""
        self.cluster.cluster.remove_node(self.by_name[self.host], allow_graceful=False)

    def kill_driver(self) -> None:
        """Kill the command."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)

    def stop_store(self) -> None:
        """Stop the store's server and start it again after a while."""
        self.server.stop("immediate")
        time.sleep(AWAY_S)
        self.server.start({})


FAULTS: dict[str, Callable[[Stage], None]] = {
    "worker": Stage.kill_worker,
    "node": Stage.remove_node,
    "driver": Stage.kill_driver,
    "store": Stage.stop_store,
}

Found = dict[str, tuple[str, tuple[Trial, ...]]]
"""By run: its host and its trials."""


def _trials(url: str) -> Found:
    store = Store(url)
    try:
        return {run.id: (str(run.environment.facts["host"]), store.trials(run.id)) for run in store.runs()}
    finally:
        store.close()


def _is_complete(found: Found) -> bool:
    ended = {host for host, trials in found.values() if len(trials) == len(EXPECTED)}
    return ended == set(HOSTS)


def _check(before: Found, after: Found, ended: str, left: Sequence[str]) -> None:
    """Raises Failed."""
    if not _is_complete(after):
        raise Failed(f"the command did not end well: {ended}")
    if left:
        raise Failed(f"left after a minute: {left[:3]}")
    for run, (host, trials) in before.items():
        if after.get(run, ("", ()))[1][: len(trials)] != trials:
            raise Failed(f"trials of run {run} on {host} that were stored are lost, or others")
    if sorted(host for host, _ in after.values()) != sorted(HOSTS):
        raise Failed(f"runs by host: {sorted(host for host, _ in after.values())}")
    for run, (host, trials) in after.items():
        if sorted((trial.round, trial.variant) for trial in trials) != EXPECTED:
            raise Failed(f"run {run} on {host} has {[(trial.round, trial.variant) for trial in trials]}")
        if failed := [trial.reason for trial in trials if trial.reason is not None]:
            raise Failed(f"run {run} on {host} has trials that failed: {failed[0]}")


def _last_line(out: Path) -> str:
    lines = (out / "errors").read_text().splitlines()
    return lines[-1] if lines else ""


if __name__ == "__main__":
    main()

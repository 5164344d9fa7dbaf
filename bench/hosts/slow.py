"""A study of four hosts of which one has half of the others' CPU: is its effect right, is the host named?

    PYTHONPATH=. python bench/hosts/slow.py [--rounds N] [--share CPUS] [--results FILE]

Four nodes of a real Ray cluster on this machine stand for four hosts. Each is in a cgroup of its own that may
use so many CPUs (--share), the slow one half of that; so it takes root and a writable cgroup "cpu" (version 1
or 2). The load does not wait for a disk: a flush of the emulated one takes no time. Compared are

    bgwriter_delay=210ms               which does nothing here: its interval has to hold 1
    log_min_messages=debug5            which costs CPU alone, so it has the same ratio on every host

Checked: the slow host and no other is named, as apart or as perhaps apart, without the settings, at about
half; nobody stands apart in a ratio; the interval of what does nothing holds 1; what costs CPU costs it on
every host. A line goes to the results as JSON; exit status 1 if a check failed. On a machine that is busy the
slow host has not just half.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.cli.command import environment
from tests.facts.server import store_server, store_url
from tests.hosts.clusters import nodes
from walproof.postgres.cache import cache_folder
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

HOSTS = ("ash", "elm", "fir", "oak")
SLOW = "oak"
NOTHING, COSTLY = "bgwriter_delay=210ms", "log_min_messages=debug5"
RESULTS = Path(__file__).parent / "slow.jsonl"
_PERIOD_US = 20_000
"""Of a quota: short beside a window."""
_WEIGHT = 20
"""Times that of an ordinary process, so that what else runs here takes little of a quota."""


def main() -> None:
    """Run the study, and check what is said of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--share", type=float, default=0.16)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    began = time.monotonic()
    found = study(arguments.rounds, arguments.share)
    broken = checked(found)
    line = {
        "what": "slow", "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load_1_min": round(os.getloadavg()[0], 1), "rounds": arguments.rounds, "share": arguments.share,
        "slow": SLOW, "levels": hosts_of(found["levels"][0]), "against_others": against(found["levels"][0]),
        "level_intervals": {host["host"]: ends(host["interval"]) for host in found["levels"][0]["hosts"]},
        "odd_p": {host["host"]: rounded(host["odd_p"]) for host in found["levels"][0]["hosts"]},
        "apart": [host["host"] for host in found["levels"][0]["hosts"] if host["is_odd"]],
        "suspect": [host["host"] for host in found["levels"][0]["hosts"] if host["is_suspect"]],
        "effects": {
            effect["cell"][2]: {
                "mean": rounded(effect["mean"]), "interval": ends(effect["interval"]),
                "prediction": ends(effect["prediction"]), "hosts": hosts_of(effect),
                "apart": [host["host"] for host in effect["hosts"] if host["is_odd"]],
            }
            for effect in found["effects"]
        },
        "left_out": found["left_out"], "broken": broken, "seconds": round(time.monotonic() - began),
    }  # fmt: skip
    with arguments.results.open("a") as results:
        results.write(json.dumps(line) + "\n")
    print(json.dumps(line, indent=1))
    if broken:
        sys.exit(1)


def checked(found: Mapping[str, Any]) -> list[str]:
    """The conditions that do not hold."""
    broken = []
    level = found["levels"][0]
    apart = [host["host"] for host in level["hosts"] if host["is_odd"] or host["is_suspect"]]
    if apart != [SLOW]:
        broken.append(f"apart without the settings: {apart}, expected {[SLOW]}")
    share = against(level).get(SLOW)
    if share is None or not 0.35 <= share <= 0.65:
        broken.append(f"{SLOW} has {share} of the others' throughput, expected about a half")
    effects = {effect["cell"][2]: effect for effect in found["effects"]}
    nothing, costly = effects[NOTHING], effects[COSTLY]
    if not nothing["interval"]["low"] <= 1 <= nothing["interval"]["high"]:
        broken.append(f"what does nothing is {ends(nothing['interval'])}")
    if any(host["value"] >= 1 for host in costly["hosts"]) or costly["interval"]["high"] >= 1:
        broken.append(f"what costs CPU is {hosts_of(costly)}")
    broken += [
        f"{host['host']} stands apart in {effect['cell']['variant']}: {host['value']}"
        for effect in (nothing, costly)
        for host in effect["hosts"]
        if host["is_odd"]
    ]
    return broken


def study(rounds: int, share: float) -> dict[str, Any]:
    """Run the command and return its JSON."""
    with ExitStack() as stack:
        out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="walproof-slow-")))
        workspace = stack.enter_context(Workspace(cache_folder("slow-store"), server_user()))
        install = reachable_install(find("embedded"), server_user())
        server = stack.enter_context(store_server(workspace, install))
        made = stack.enter_context(nodes(()))
        made.add_head()
        for host in HOSTS:
            made.add(host)
            group = stack.enter_context(cpu_group(f"walproof-{host}", share / (2 if host == SLOW else 1)))
            for process in of_host(host):
                group.write_text(str(process.pid))
        url = store_url(server)
        command = [
            sys.executable, "-m", "walproof", "compare", "--set", NOTHING, "--set", COSTLY,
            "--pg", "embedded", "--scale", "1", "--clients", "1", "--duration", "4s", "--warmup", "1s",
            "--rounds", str(rounds), "--design", "fresh", "--device", "flush=0ms", "--store", url,
            "--ray", made.cluster.address, "--json", "--insecure",
        ]  # fmt: skip
        done = subprocess.run(command, cwd=out, stdout=subprocess.PIPE, env=environment(), check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def of_host(host: str) -> list[psutil.Process]:
    """The processes of a host's node that we started; what they start later is in their group."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get("WALPROOF_MACHINE") == host:
                found.append(process)
    return found


@contextmanager
def cpu_group(name: str, cpus: float) -> Iterator[Path]:
    """The file that takes processes of a cgroup that may use so many CPUs."""
    top = Path("/sys/fs/cgroup")
    first = (top / "cpu").is_dir()
    group = (top / "cpu" if first else top) / name
    group.mkdir()
    try:
        quota = round(cpus * _PERIOD_US)
        if first:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
            (group / "cpu.shares").write_text(str(1024 * _WEIGHT))
        else:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
            (group / "cpu.weight").write_text(str(100 * _WEIGHT))
        yield group / "cgroup.procs"
    finally:
        # Its processes end with the cluster; those that have not yet go back where all are.
        procs = group / "cgroup.procs"
        for pid in procs.read_text().split():
            with contextlib.suppress(OSError):
                (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


def hosts_of(across: Mapping[str, Any]) -> dict[str, float]:
    """Print a value for each host."""
    return {host["host"]: float(f"{host['value']:.4g}") for host in across["hosts"]}


def against(across: Mapping[str, Any]) -> dict[str, float]:
    """Print the ratio of each host to the others."""
    return {
        host["host"]: round(host["against_others"], 3)
        for host in across["hosts"]
        if host["against_others"] is not None
    }


def ends(interval: Mapping[str, float] | None) -> list[float] | None:
    """Both ends, rounded."""
    return None if interval is None else [round(interval["low"], 3), round(interval["high"], 3)]


def rounded(value: float | None) -> float | None:
    """For the line."""
    return None if value is None else round(value, 3)


if __name__ == "__main__":
    main()

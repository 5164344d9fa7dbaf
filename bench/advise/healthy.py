"""Advice about servers at which there is nothing to change: every piece of it is looked at by a person.

    PYTHONPATH=. python bench/advise/healthy.py [--only NAME ...] [--again]

Runs each server of healthy.toml, one at a time, looks at it as ``walproof advise`` does, keeps the facts
(tests/advise/facts/healthy.jsonl.xz) and prints what is advised. --again asks the rules about kept facts.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.advise.servers import Laboratory, Server, laboratory
from tests.advise.server.stored import HEALTHY, read, write
from walproof.advise.server.case import ServerCase
from walproof.advise.server.rules import advise
from walproof.postgres.standby import Standby

DEFINED = Path(__file__).with_name("healthy.toml")


def main() -> None:  # noqa: D103
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--again", action="store_true", help="rules alone, about the facts that were kept")
    parser.add_argument("--work", type=Path, default=Path("/tmp/walproof-bench-advise"))
    arguments = parser.parse_args()
    defined = tomllib.loads(DEFINED.read_text(encoding="utf-8"))
    kept = read(HEALTHY)
    servers = [
        server for server in defined["server"] if not arguments.only or server["name"] in arguments.only
    ]
    if not arguments.again:
        with laboratory(arguments.work) as made:
            for server in servers:
                print(f"{server['name']}: {server['about']}", flush=True)
                kept[server["name"]] = _looked_at({**defined["common"], **server}, defined["common"], made)
                write(HEALTHY, kept)
    alarms = 0
    for server in servers:
        alarms += _tell(server["name"], kept[server["name"]])
    print(f"{len(servers)} servers, {alarms} pieces of advice besides minors")


def _tell(name: str, case: ServerCase) -> int:
    advised = advise(case, ("minors",))
    written = case.wal_bytes or 0.0
    print(f"{name} ({case.window.version}, {case.window.seconds:.0f} s, {written / 2**20:.1f} MB of WAL)")
    for advice in advised.advice:
        print(f"    {advice.rule} [{advice.weight}, {advice.sure}]: {advice.title}")
        for sentence in (*advice.evidence, *(f"? {unknown}" for unknown in advice.unknown)):
            print(f"        {sentence}")
    return len(advised.advice)


def _looked_at(server: Mapping[str, Any], common: Mapping[str, Any], made: Laboratory) -> ServerCase:
    settings = (
        {}
        if server.get("bare")
        else dict(server["pgtune"])
        if "pgtune" in server
        else {**common["settings"], **server["settings"]}
    )
    with ExitStack() as stack:
        if server.get("beside") == "archiver":
            archive = made.workspace.make_folder(f"archive_{server['name']}")
            settings["archive_command"] = f"cp %p {archive}/%f"
        running = stack.enter_context(made.server(str(server["pg"]), settings, *server.get("prepare", ())))
        if "scale" in server:
            running.fill(server["scale"])
        # As on a server that has run for a while: pages that are touched next have full-page images.
        running.sql("CHECKPOINT")
        if server.get("beside") == "standby":
            stack.enter_context(_standby(running))
        if server.get("beside") == "logical":
            stack.enter_context(_consumer(running))
        if server["rate"]:
            stack.enter_context(running.load(*_load(server, running)))
        time.sleep(server["wait_s"])
        return running.look(server["look_s"], *server.get("options", ()))


def _load(server: Mapping[str, Any], running: Server) -> list[str]:
    found = ["-c", str(server["clients"]), "-R", str(server["rate"])]
    for name in server.get("builtin", ()):
        found += ["-b", name]
    for script in server.get("script", ()):
        found += running.script(script["sql"], script["weight"])
    return found


@contextmanager
def _standby(running: Server) -> Iterator[None]:
    standby = Standby(running.cluster, running.laboratory.workspace, "healthy_standby")
    standby.build()
    standby.start({"shared_buffers": "256MB"})
    try:
        yield
    finally:
        standby.stop("immediate")


@contextmanager
def _consumer(running: Server) -> Iterator[None]:
    running.run("pg_recvlogical", "-S", "consumer", "-P", "pgoutput", "--create-slot")
    with running.beside(
        "pg_recvlogical", "-S", "consumer", "--start", "-f", "/dev/null", "-F", "1", "-s", "1",
        "-o", "proto_version=1", "-o", "publication_names=everything",
    ):  # fmt: skip
        yield


if __name__ == "__main__":
    main()

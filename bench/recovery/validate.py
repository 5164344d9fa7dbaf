"""Predicted recoveries beside measured ones, from a calibration alone, on loads that nobody tuned on.

    PYTHONPATH=. python bench/recovery/validate.py --pg 15 --calibration FILE [--only WORD] [--out FILE]

Each load runs on a server that never checkpoints; at each distance its files are copied as a crash would
leave them. Every image is recovered by servers with each shared_buffers, some times with a warm cache, once
with a cold one and each recovery_prefetch. Every recovery is a line of JSON with what was measured and what
was predicted; --summary FILE prints errors by kind. CPU is compared, and elapsed time without the time for
which others had the processor.

How fast the machine is changes from minute to minute where it has neighbours. So before each recovery a piece
of the calibration's own load is recovered, always the same: what that takes, beside what the calibration says
of it, is the machine's speed at the time, and errors are told with and without it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.recovery.workloads import WORKLOADS, Workload
from walproof.analysis.recovery import (
    SHIPPED,
    Coefficients,
    Disk,
    checkpoint_s,
    cold_checkpoint,
    fit,
    places,
    predict,
    redo_terms_s,
)
from walproof.facts import Install
from walproof.facts.calibration import read_calibration
from walproof.lab.calibration import crash_of_load
from walproof.lab.crash import Cache, CrashImage, MeasuredRecovery, recover, take_crash_image
from walproof.postgres import template as templates
from walproof.postgres.cluster import SUPERUSER, Cluster
from walproof.postgres.install import discover, find, find_driver
from walproof.postgres.reach import reachable_install, server_user
from walproof.postgres.workspace import Workspace
from walproof.units import Lsn, format_bytes
from walproof.wal.recovery import RecoveryWork, analyse, find_redo

CRASHED_BUFFERS = 32768
"""256 MB, of the server that crashes."""
FILL = {
    "fsync": "off", "synchronous_commit": "off", "max_wal_size": "100GB", "checkpoint_timeout": "1d",
    "shared_buffers": f"{CRASHED_BUFFERS * 8}kB", "log_checkpoints": "on", "autovacuum_naptime": "10s",
}  # fmt: skip
BUFFERS = (16384, 49152)
"""128 MB and 384 MB: none of them is a size of the calibration."""
STEP_S = 2
REFERENCE_SHARE, REFERENCE_BUFFERS = 0.2, 16384
"""Of the calibration's load, and the shared_buffers that recover it."""


def main() -> None:
    """Run the loads whose name holds a word, or sum up a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="15")
    parser.add_argument("--calibration", type=Path, help='file, or with --summary "shipped"')
    parser.add_argument("--only", default="")
    parser.add_argument("--distances", default="150,500", help="MB, ascending")
    parser.add_argument("--repeats", type=int, default=2, help="of each warm recovery")
    parser.add_argument("--iops", default="", help="limits on reads a second for more cold recoveries (root)")
    parser.add_argument("--out", type=Path, default=Path("bench/recovery/results.jsonl"))
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-recovery"))
    arguments = parser.parse_args()
    if arguments.summary is not None:
        rows = [json.loads(line) for line in arguments.summary.read_text().splitlines()]
        if arguments.calibration is not None:
            is_shipped = str(arguments.calibration) == "shipped"
            coefficients = SHIPPED if is_shipped else fit(read_calibration(arguments.calibration))
            rows = [predict_again(row, coefficients) for row in rows]
        for row in rows:
            print(_line(row))
        summarise(rows)
        return
    user = server_user()
    install = reachable_install(find(arguments.pg), user)
    distances = [int(text) << 20 for text in arguments.distances.split(",")]
    with Workspace(arguments.work, user) as workspace, arguments.out.open("a") as out:
        reference = Reference(install, workspace)
        for workload in WORKLOADS:
            if arguments.only and workload.name not in arguments.only.split(","):
                continue
            for row in validate(install, workspace, workload, distances, reference, arguments):
                out.write(json.dumps(row) + "\n")
                out.flush()
                print(_line(row), flush=True)


class Reference:
    """The recovery that tells how fast the machine is."""

    def __init__(self, install: Install, workspace: Workspace) -> None:
        self._workspace = workspace
        self._image = crash_of_load(install, workspace, lambda _: None, share=REFERENCE_SHARE)
        found = analyse(self._image.wal, start=find_redo(self._image.wal).redo, buffers=[REFERENCE_BUFFERS])
        self.work = found.last.quantities(REFERENCE_BUFFERS)

    def cpu_s(self) -> float:
        """Of redo, now."""
        measured = recover(self._image, self._workspace, {"shared_buffers": f"{REFERENCE_BUFFERS * 8}kB"})
        return measured.times.cpu_s or float("nan")


def validate(
    install: Install,
    workspace: Workspace,
    workload: Workload,
    distances: list[int],
    reference: Reference,
    arguments: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    """One row for each recovery."""
    calibration = read_calibration(arguments.calibration)
    coefficients = fit(calibration)
    disk = Disk(calibration.read_iops, calibration.read_latency_us)
    limits = [int(text) for text in arguments.iops.split(",") if text]
    for image in images(install, workspace, workload, distances):
        redo = find_redo(image.wal).redo
        began = time.monotonic()
        work = analyse(image.wal, start=redo, buffers=BUFFERS, crashed=CRASHED_BUFFERS).last
        analysis_s = time.monotonic() - began
        steps = analyse(
            image.wal, start=redo, buffers=BUFFERS, marks=places(work), crashed=CRASHED_BUFFERS
        ).steps[:-1]
        for buffers in BUFFERS:
            prediction = predict(work, buffers, coefficients, disk, steps)
            kinds = [(Cache.WARM, "try")] * arguments.repeats
            kinds += [(Cache.COLD, "try"), (Cache.COLD, "off")] if buffers == BUFFERS[0] else []
            asked: list[tuple[Cache, str, int | None]] = [
                (cache, prefetch, None) for cache, prefetch in kinds
            ]
            if buffers == BUFFERS[0]:
                asked += [(Cache.COLD, "try", iops) for iops in limits] + [
                    (Cache.COLD, "off", iops) for iops in limits
                ]
            for cache, prefetch, iops in asked:
                settings = {"shared_buffers": f"{buffers * 8}kB"}
                if install.version_num >= 150000:
                    settings["recovery_prefetch"] = prefetch
                reference_s = reference.cpu_s()
                measured = recover(image, workspace, settings, cache, iops=iops)
                if iops is not None:
                    slow = replace(disk, iops=float(iops))
                    prediction = predict(work, buffers, coefficients, slow, steps)
                yield {
                    "pg": install.version, "workload": workload.name, "buffers": buffers,
                    "cache": cache.value, "prefetch": prefetch, "iops": iops, "analysis_s": analysis_s,
                    "reference_cpu_s": reference_s, "reference_work": reference.work,
                    "p_reference_s": _reference_s(reference.work, coefficients),
                    **_measured(measured), **_predicted(prediction, work, buffers, cache, prefetch),
                }  # fmt: skip
        workspace.remove_folder(image.folder)


def images(
    install: Install, workspace: Workspace, workload: Workload, distances: list[int]
) -> Iterator[CrashImage]:
    """An image at each distance, from one server."""
    pgbench, _ = find_driver([install, *discover()])
    folder = workspace.make_folder("filled")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start({**FILL, **workload.settings})
    try:
        target = ["-h", str(cluster.sockets), "-p", str(cluster.port), "-U", SUPERUSER, "postgres"]
        if workload.scale:
            _run([str(pgbench), "-i", "-q", "-s", str(workload.scale), *target])
        with cluster.connect() as connection:
            for statement in (*workload.setup, "VACUUM", "CHECKPOINT"):
                connection.execute(statement.encode())
            row = connection.execute("SELECT redo_lsn::text FROM pg_control_checkpoint()").fetchone()
        assert row is not None
        redo = Lsn.parse(str(row[0]))
        command = [str(pgbench), "-n", "-c", str(workload.clients), "-T", str(STEP_S)]
        if workload.script is not None:
            script = workspace.folder / "script.sql"
            script.write_text(workload.script)
            script.chmod(0o644)
            command += ["-f", str(script)]
        for number, distance in enumerate(distances):
            while _insert_lsn(cluster) - redo < distance:
                _run([*command, *target])
            yield take_crash_image(cluster, workspace.make_folder(f"image-{number}"))
    finally:
        cluster.stop("immediate")
        workspace.remove_folder(folder)


def _insert_lsn(cluster: Cluster) -> Lsn:
    with cluster.connect() as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(str(row[0]))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)


def _measured(measured: MeasuredRecovery) -> dict[str, Any]:
    times, course = measured.times, measured.course
    return {
        "wal_bytes": times.wal_bytes, "redo_elapsed_s": times.redo_elapsed_s, "redo_cpu_s": times.cpu_s,
        "waited_s": course.waited_s, "read_bytes": course.read_bytes,
        "checkpoint_s": times.checkpoint.total_s if times.checkpoint else None,
        "checkpoint_buffers": times.checkpoint.buffers if times.checkpoint else None,
        "total_s": times.total_s, "before_redo_s": times.before_redo_s,
    }  # fmt: skip


def _predicted(
    prediction: Any, work: RecoveryWork, buffers: int, cache: Cache, prefetch: str
) -> dict[str, Any]:
    cold = prediction.cold if prefetch == "try" else prediction.cold_off
    is_cold = cache is Cache.COLD
    is_on = prefetch == "try"
    pool = work.pool(buffers, prefetch=is_on)
    return {
        "p_cpu_s": cold.cpu_s if is_cold else prediction.warm_s,
        "p_redo_s": cold.redo_s if is_cold else prediction.warm_s,
        "p_bytes": cold.bytes if is_cold else None,
        "p_checkpoint_s": prediction.cold_checkpoint_s if is_cold else prediction.checkpoint_s,
        "p_dirty": pool.resident,
        "work": {**work.quantities(buffers, prefetch=is_on), "pages": work.pages,
                 "dropped": work.relations_dropped, "truncations": work.truncations,
                 "disk_reads": pool.disk_reads, "requests": cold.requests},
        "checkpoint": work.checkpoint(buffers, prefetch=is_on),
        "terms_s": dict(prediction.terms_s),
        "band": prediction.coefficients.cold_band if is_cold else prediction.coefficients.band,
    }  # fmt: skip


def _reference_s(work: Mapping[str, float], coefficients: Coefficients) -> float:
    return sum(redo_terms_s(work, coefficients).values())


def predict_again(row: dict[str, Any], coefficients: Coefficients) -> dict[str, Any]:
    """The row with what other coefficients say of the same work."""
    own, ending = row["work"], dict(row["checkpoint"])
    terms = redo_terms_s(own, coefficients)
    cpu = sum(terms.values())
    if row["cache"] == "cold":
        costs = coefficients.cold_us
        ending = cold_checkpoint(ending)
        cpu += (own["requests"] * costs["requests"] + own["record_bytes"] / 1e6 * costs["wal"]) / 1e6
    # What the disk adds stays what it was: the row does not have the way there.
    redo_s = row["p_redo_s"] - row["p_cpu_s"] + cpu
    return {
        **row, "p_cpu_s": cpu, "p_redo_s": redo_s,
        "p_checkpoint_s": checkpoint_s(ending, coefficients),
        "terms_s": terms, "p_reference_s": _reference_s(row["reference_work"], coefficients),
        "band": coefficients.cold_band if row["cache"] == "cold" else coefficients.band,
    }  # fmt: skip


def _line(row: dict[str, Any]) -> str:
    cpu = row["redo_cpu_s"] or float("nan")
    text = (
        f"{row['pg']:6} {row['workload']:11} {format_bytes(row['wal_bytes']):>8} {row['buffers'] >> 7:4} MB "
        f"{row['cache']:4} {row['prefetch']:3}  cpu {cpu:6.2f} / {row['p_cpu_s']:6.2f}"
        f" {row['p_cpu_s'] / cpu - 1:+5.0%}"
        f"  elapsed {row['redo_elapsed_s']:6.2f}"
    )
    if row.get("iops"):
        text += f" / {row['p_redo_s']:6.2f} at {row['iops']} reads/s"
    if row["checkpoint_s"]:
        text += f"  checkpoint {row['checkpoint_s']:5.2f} / {row['p_checkpoint_s']:5.2f}"
        text += f"  dirty {row['checkpoint_buffers']} / {row['p_dirty']}"
    if row["p_bytes"] and row["read_bytes"]:
        text += f"  read {row['read_bytes'] / 1e6:.0f} / {row['p_bytes'] / 1e6:.0f} MB"
    return text


def summarise(rows: list[dict[str, Any]]) -> None:
    """Errors of the median repeat of each case."""
    for pg in sorted({row["pg"] for row in rows}):
        every = [row for row in rows if row["pg"] == pg]
        own = [row for row in every if row.get("iops") is None]
        warm = [row for row in own if row["cache"] == "warm"]
        cold = [row for row in own if row["cache"] == "cold"]
        print(f"PostgreSQL {pg}: {len(own)} recoveries")
        speeds = [row["p_reference_s"] / row["reference_cpu_s"] for row in every]
        print(
            "  the machine's speed, from the calibration's own load: median "
            f"{np.median(speeds):.2f} of what it was, {min(speeds):.2f} to {max(speeds):.2f}"
        )
        _say("warm redo, CPU", _errors(warm, "p_cpu_s", "redo_cpu_s"))
        _say("warm redo, CPU, at that speed", _errors(_at_speed(warm), "p_cpu_s", "redo_cpu_s"))
        _say("cold redo, CPU", _errors(cold, "p_cpu_s", "redo_cpu_s"))
        _say("cold redo, CPU, at that speed", _errors(_at_speed(cold), "p_cpu_s", "redo_cpu_s"))
        undisturbed = [
            {**row, "undisturbed_s": max(row["redo_elapsed_s"] - row["waited_s"], row["redo_cpu_s"])}
            for row in cold
        ]
        _say(
            "cold redo, elapsed less waiting for a processor",
            _errors(undisturbed, "p_redo_s", "undisturbed_s"),
        )
        for kind, some in (("all", own), ("warm", warm), ("cold", cold)):
            ended = [row for row in some if row["checkpoint_s"]]
            _say(f"checkpoint, {kind}", _errors(ended, "p_checkpoint_s", "checkpoint_s"))
        _say(
            "dirty pages",
            _errors([row for row in own if row["checkpoint_buffers"]], "p_dirty", "checkpoint_buffers"),
        )
        _say("bytes read", _errors([row for row in cold if row["read_bytes"]], "p_bytes", "read_bytes"))
        limited = [row for row in every if row.get("iops") is not None]
        held_up = [row for row in limited if row["p_redo_s"] > 1.1 * row["p_cpu_s"]]
        _say("limited reads, redo elapsed, where they limit", _errors(held_up, "p_redo_s", "redo_elapsed_s"))
        rest = [row for row in limited if row not in held_up]
        _say("limited reads, redo CPU, where they do not", _errors(rest, "p_cpu_s", "redo_cpu_s"))
        for kind, some in (("warm", warm), ("cold", cold)):
            ratios = _ratios(some, "p_cpu_s", "redo_cpu_s")
            held = [1 / some[0]["band"] <= ratio <= some[0]["band"] for ratio in ratios]
            if held:
                print(f"  band holds, {kind}: {sum(held)} of {len(held)}")


def _at_speed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With what was measured as it would have been at the calibration's speed."""
    return [
        {**row, "redo_cpu_s": row["redo_cpu_s"] * row["p_reference_s"] / row["reference_cpu_s"]}
        for row in rows
        if row["redo_cpu_s"]
    ]


def _ratios(rows: list[dict[str, Any]], predicted: str, measured: str) -> list[float]:
    cases: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row[measured]:
            key = (
                row["workload"], row["wal_bytes"], row["buffers"], row["cache"], row["prefetch"],
                row.get("iops"),
            )  # fmt: skip
            cases.setdefault(key, []).append(row)
    return [own[0][predicted] / float(np.median([row[measured] for row in own])) for own in cases.values()]


def _errors(rows: list[dict[str, Any]], predicted: str, measured: str) -> list[float]:
    return [abs(ratio - 1) for ratio in _ratios(rows, predicted, measured)]


def _say(what: str, errors: list[float]) -> None:
    if errors:
        print(
            f"  {what:<48} {len(errors):3} cases  mean {np.mean(errors):5.1%}  "
            f"median {np.median(errors):5.1%}  worst {max(errors):5.1%}"
        )


if __name__ == "__main__":
    main()

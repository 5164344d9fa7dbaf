"""Predicted recoveries beside measured ones, from calibrations alone, on loads that nobody tuned on.

    PYTHONPATH=. python bench/recovery/validate.py --pg 15 --keep CALIBRATION --out FILE

Each load runs on a server that never checkpoints; at each distance its files are copied as a crash would
leave them. Then come rounds: in each a calibration, and between its replays every image recovered, in an
order of its own: by servers with each shared_buffers and a warm cache, with a cold one and each
recovery_prefetch. How fast the machine is changes from minute to minute where it has neighbours; so the
repeats of a recovery are far from each other, calibrations and recoveries are of the same minutes, and
predictions are those of all calibrations together (calibrate --add). Every recovery is a line
of JSON with what was measured and what was predicted; --summary FILE prints errors by kind. CPU is compared,
and elapsed time without the time for which others had the processor.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.recovery.workloads import WORKLOADS, Workload
from bench.rows import read_rows
from walproof.analysis.recovery_costs import (
    SHIPPED,
    Coefficients,
    Disk,
    checkpoint_s,
    cold_checkpoint,
    places,
    predict,
    redo_terms_s,
)
from walproof.analysis.recovery_fit import fit
from walproof.facts import Install
from walproof.facts.calibration import Calibration, pooled, read_calibration, write_calibration
from walproof.lab.recovery.calibration import calibrate
from walproof.lab.recovery.crash import Cache, CrashImage, MeasuredRecovery, recover, take_crash_image
from walproof.postgres import template as templates
from walproof.postgres.cluster import SUPERUSER, Cluster
from walproof.postgres.install import discover, find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.device import find_read_ahead_kb
from walproof.settings.rules import imply
from walproof.units import Lsn, format_bytes
from walproof.wal.recovery import RecoveryAnalysis, RecoveryWork, analyse, find_redo

CRASHED_BUFFERS = 32768
"""256 MB, of the server that crashes."""
FILL = {
    "fsync": "off", "synchronous_commit": "off", "max_wal_size": "100GB", "checkpoint_timeout": "1d",
    "shared_buffers": f"{CRASHED_BUFFERS * 8}kB", "log_checkpoints": "on", "autovacuum_naptime": "10s",
}  # fmt: skip
BUFFERS = (16384, 49152)
"""128 MB and 384 MB: none of them is a size of the calibration."""
STEP_S = 2
CALIBRATION_REPLAYS = 10
"""Places in a calibration before which recoveries are put."""


@dataclass(frozen=True, slots=True)
class Case:
    """A crash, and what there is to recover."""

    workload: str
    image: CrashImage
    work: RecoveryWork
    steps: tuple[RecoveryWork, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """One way of recovering a case."""

    case: Case
    buffers: int
    cache: Cache
    prefetch: str
    iops: int | None = None
    """Most reads a second."""


_Measured = tuple[Recovery, MeasuredRecovery]


def main() -> None:
    """Run the loads that were named, or sum up a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="15")
    parser.add_argument("--calibration", type=Path, help='of before; with --summary, "shipped", too')
    parser.add_argument("--keep", type=Path, help="file for what the own calibrations measured")
    parser.add_argument("--only", default="", help="loads, with commas between them")
    parser.add_argument("--distances", default="300", help="MB, ascending")
    parser.add_argument("--also", default="", help="LOAD=MB,...: longer distances of some loads")
    parser.add_argument("--rounds", type=int, default=3, help="0: fill --images and end")
    parser.add_argument("--images", type=Path, help="folder of crashes: those that are there are used again")
    parser.add_argument("--iops", default="", help="limits on reads a second for more cold recoveries (root)")
    parser.add_argument("--out", type=Path, default=Path("bench/recovery/results.jsonl"))
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-recovery"))
    arguments = parser.parse_args()
    rows = run(arguments) if arguments.summary is None else read_rows(arguments.summary)
    if arguments.summary is not None and arguments.calibration is not None:
        is_shipped = str(arguments.calibration) == "shipped"
        coefficients = SHIPPED if is_shipped else fit(read_calibration(arguments.calibration))
        rows = [predict_again(row, coefficients) for row in rows]
    for row in rows:
        print(_line(row))
    summarise(rows)


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of all rounds; they are written after each round."""
    user = server_user()
    install = reachable_install(find(arguments.pg), user)
    distances = [int(text) << 20 for text in arguments.distances.split(",")]
    also = {name: int(text) << 20 for name, text in (word.split("=") for word in _words(arguments.also))}
    limits = [int(text) for text in _words(arguments.iops)]
    source = random.Random(install.version_num)
    given = [read_calibration(arguments.calibration)] if arguments.calibration is not None else []
    measured: list[_Measured] = []
    rows: list[dict[str, Any]] = []
    with Workspace(arguments.work, user) as workspace:
        cases: list[Case] = []
        for workload in WORKLOADS:
            if not arguments.only or workload.name in arguments.only.split(","):
                longer = [also[workload.name]] if workload.name in also else []
                cases += filled(install, workspace, workload, [*distances, *longer], arguments.images)
                print(f"filled: {workload.name}", flush=True)
        calibrations = list(given)
        for number in range(arguments.rounds):
            recoveries = [
                recovery for case in cases for recovery in ways(install, case, limits if number == 0 else [])
            ]
            source.shuffle(recoveries)
            waiting = ((recovery, _recover(recovery, workspace)) for recovery in recoveries)
            if not given:
                few = -(-len(recoveries) // CALIBRATION_REPLAYS)

                def between(what: str, waiting: Iterator[_Measured] = waiting, few: int = few) -> None:
                    if what.startswith(("replay", "checkpoint")):
                        measured.extend(itertools.islice(waiting, few))

                calibrations.append(calibrate(install, workspace, between))
            measured.extend(waiting)
            print(f"round {number + 1}: {len(recoveries)} recoveries", flush=True)
            rows = _rows(measured, pooled(calibrations))
            arguments.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
        if arguments.keep is not None and calibrations:
            write_calibration(arguments.keep, pooled(calibrations))
    return rows


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def filled(
    install: Install, workspace: Workspace, workload: Workload, distances: list[int], home: Path | None
) -> Iterator[Case]:
    """Make a case at each distance."""
    ahead_kb = find_read_ahead_kb(workspace.folder)
    for image in kept_images(install, workspace, workload, distances, home):
        work = _analysed(image, ahead_kb).last
        yield Case(workload.name, image, work, _analysed(image, ahead_kb, places(work)).steps[:-1])


def _analysed(image: CrashImage, ahead_kb: int, marks: tuple[Lsn, ...] = ()) -> RecoveryAnalysis:
    redo = find_redo(image.wal).redo
    return analyse(
        image.wal, start=redo, buffers=BUFFERS, marks=marks, crashed=CRASHED_BUFFERS, read_ahead_kb=ahead_kb
    )


def ways(install: Install, case: Case, limits: Iterable[int]) -> Iterator[Recovery]:
    """The ways in which a case is recovered in a round; also with limited reads, where limits are given."""
    prefetches = ("try", "off") if install.version_num >= 150000 else ("try",)
    for buffers in BUFFERS:
        yield Recovery(case, buffers, Cache.WARM, "try")
    for prefetch in prefetches:
        for iops in (None, *limits):
            yield Recovery(case, BUFFERS[0], Cache.COLD, prefetch, iops)


def _recover(recovery: Recovery, workspace: Workspace) -> MeasuredRecovery:
    image = recovery.case.image
    # As large as on the server that crashed: old segments are recycled, not removed.
    settings = {"shared_buffers": f"{recovery.buffers * 8}kB", "max_wal_size": FILL["max_wal_size"]}
    if image.install.version_num >= 150000:
        settings["recovery_prefetch"] = recovery.prefetch
    return recover(image, workspace, settings, recovery.cache, iops=recovery.iops)


def _rows(measured: Iterable[_Measured], calibration: Calibration) -> list[dict[str, Any]]:
    coefficients, rows = fit(calibration), []
    for recovery, found in measured:
        iops = recovery.iops or calibration.read_iops
        disk = Disk(iops, calibration.read_latency_us, calibration.read_ahead_kb)
        work = recovery.case.work
        prediction = predict(work, recovery.buffers, coefficients, disk, recovery.case.steps)
        rows.append(
            {
                "pg": recovery.case.image.install.version, "workload": recovery.case.workload,
                "buffers": recovery.buffers, "cache": recovery.cache.value, "prefetch": recovery.prefetch,
                "iops": recovery.iops, **_measured(found),
                **_predicted(prediction, work, recovery.buffers, recovery.cache, recovery.prefetch),
            }
        )  # fmt: skip
    return rows


def kept_images(
    install: Install, workspace: Workspace, workload: Workload, distances: list[int], home: Path | None
) -> Iterator[CrashImage]:
    """As `images`; in ``home``, if there is one, and those that are there already."""
    if home is None:
        yield from images(install, workspace, workload, distances)
        return
    home.mkdir(parents=True, exist_ok=True)
    kept = [home / f"{install.version}-{workload.name}-{distance >> 20}" for distance in distances]
    if not all(place.exists() for place in kept):
        for place, image in zip(kept, images(install, workspace, workload, distances), strict=True):
            image.folder.rename(place)
    yield from (CrashImage(install, place) for place in kept)


def images(
    install: Install, workspace: Workspace, workload: Workload, distances: list[int]
) -> Iterator[CrashImage]:
    """An image at each distance, from one server."""
    pgbench = reachable_pgbench([install, *discover()], workspace.user)
    folder = workspace.make_folder("filled")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    settings = {**FILL, **workload.settings}
    cluster.start({**settings, **imply(settings, install.version_num)})
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
            yield take_crash_image(cluster, workspace.make_folder(f"{workload.name}-{number}"))
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


def predict_again(row: dict[str, Any], coefficients: Coefficients) -> dict[str, Any]:
    """The row with predictions from other coefficients for the same work."""
    work, ending = row["work"], dict(row["checkpoint"])
    terms = redo_terms_s(work, coefficients)
    cpu = sum(terms.values())
    if row["cache"] == "cold":
        costs = coefficients.cold_us
        ending = cold_checkpoint(ending)
        cpu += (work["requests"] * costs["requests"] + work["record_bytes"] / 1e6 * costs["wal"]) / 1e6
    # What the disk adds stays what it was: the row does not have the way there.
    redo_s = row["p_redo_s"] - row["p_cpu_s"] + cpu
    return {
        **row, "p_cpu_s": cpu, "p_redo_s": redo_s,
        "p_checkpoint_s": checkpoint_s(ending, coefficients),
        "terms_s": terms,
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
    """Print errors of the median repeat of each case."""
    for pg in sorted({row["pg"] for row in rows}):
        every = [row for row in rows if row["pg"] == pg]
        unlimited = [row for row in every if row.get("iops") is None]
        warm = [row for row in unlimited if row["cache"] == "warm"]
        cold = [row for row in unlimited if row["cache"] == "cold"]
        print(f"PostgreSQL {pg}: {len(unlimited)} recoveries")
        _say("repeats of one recovery, CPU", _repeats(unlimited))
        _say("each repeat from the others, CPU", _from_others(unlimited))
        _say("warm redo, CPU", _errors(warm, "p_cpu_s", "redo_cpu_s"))
        _say("cold redo, CPU", _errors(cold, "p_cpu_s", "redo_cpu_s"))
        undisturbed = [
            {**row, "undisturbed_s": max(row["redo_elapsed_s"] - row["waited_s"], row["redo_cpu_s"])}
            for row in cold
        ]
        _say(
            "cold redo, elapsed less waiting for a processor",
            _errors(undisturbed, "p_redo_s", "undisturbed_s"),
        )
        for kind, some in (("all", unlimited), ("warm", warm), ("cold", cold)):
            ended = [row for row in some if row["checkpoint_s"]]
            _say(f"checkpoint, {kind}", _errors(ended, "p_checkpoint_s", "checkpoint_s"))
        _say(
            "dirty pages",
            _errors([row for row in unlimited if row["checkpoint_buffers"]], "p_dirty", "checkpoint_buffers"),
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


def _cases(rows: list[dict[str, Any]], measured: str) -> list[list[dict[str, Any]]]:
    """Repeats of each case together."""
    cases: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row[measured]:
            key = (
                row["workload"], row["wal_bytes"], row["buffers"], row["cache"], row["prefetch"],
                row.get("iops"),
            )  # fmt: skip
            cases.setdefault(key, []).append(row)
    return list(cases.values())


def _repeats(rows: list[dict[str, Any]]) -> list[float]:
    """How much longer the longest repeat of each case is than the shortest, as a share."""
    times = [
        [row["redo_cpu_s"] for row in repeats] for repeats in _cases(rows, "redo_cpu_s") if len(repeats) > 1
    ]
    return [max(repeats) / min(repeats) - 1 for repeats in times]


def _from_others(rows: list[dict[str, Any]]) -> list[float]:
    """Error of each repeat against the median of the others: how well a second measurement predicts."""
    errors = []
    for repeats in _cases(rows, "redo_cpu_s"):
        times = [row["redo_cpu_s"] for row in repeats]
        for at, time in enumerate(times):
            others = times[:at] + times[at + 1 :]
            if others:
                errors.append(abs(float(np.median(others)) / time - 1))
    return errors


def _ratios(rows: list[dict[str, Any]], predicted: str, measured: str) -> list[float]:
    return [
        repeats[0][predicted] / float(np.median([row[measured] for row in repeats]))
        for repeats in _cases(rows, measured)
    ]


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

"""Whether a server that is set as `wal whatif --recovery-target` says keeps the target, crash for crash.

    PYTHONPATH=. python bench/recovery/target.py [--only tpcb] [--crashes 8] [--calibration FILE]

A load is recorded on a server that never checkpoints. The target is four times the shortest recovery that is
predicted for any setting; a second server runs the same load under the settings
that are the answer, and is crashed at moments drawn from a seed, after its first checkpoint. Every crash is
recovered with a warm cache; printed are the target, the longest recovery predicted and each one measured.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.recovery.validate import FILL, images
from bench.recovery.workloads import WORKLOADS, Workload
from walproof.facts import Install
from walproof.lab.recovery.crash import recover, take_crash_image
from walproof.postgres import template as templates
from walproof.postgres.cluster import SUPERUSER, Cluster
from walproof.postgres.install import discover, find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

BUFFERS_MB = 128
SEED = 6
TIMES = 4.0


def main() -> None:
    """Print a block for each load."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="embedded")
    parser.add_argument("--only", default="tpcb,orders,toast")
    parser.add_argument("--megabytes", type=int, default=800, help="of the recording")
    parser.add_argument("--crashes", type=int, default=8)
    parser.add_argument("--calibration", type=Path, help="default: the one of this machine, if there is one")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-recovery"))
    arguments = parser.parse_args()
    user = server_user()
    install = reachable_install(find(arguments.pg), user)
    for workload in WORKLOADS:
        if workload.name in arguments.only.split(","):
            with Workspace(arguments.work, user) as workspace:
                check(install, workspace, workload, arguments)


def check(install: Install, workspace: Workspace, workload: Workload, arguments: argparse.Namespace) -> None:
    """Record, ask, run under the answer, crash, recover, print."""
    for image in images(install, workspace, workload, [arguments.megabytes << 20]):
        every = [prediction["recovery_s"] for prediction in _ask(image.wal, 3600.0, arguments)["predictions"]]
        target_s = TIMES * min(every)
        answer = _ask(image.wal, target_s, arguments)["answer"]
        workspace.remove_folder(image.folder)
    asked = answer["settings"]
    settings = {
        "max_wal_size": f"{asked['max_wal_size_mb']}MB",
        "checkpoint_timeout": f"{asked['checkpoint_timeout_s']:.0f}s",
        "checkpoint_completion_target": str(asked["checkpoint_completion_target"]),
    }
    print(
        f"{workload.name}: predicted for all settings {min(every):.2f} to {max(every):.2f} s, target "
        f"{target_s:.2f} s, {settings}",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    measured = crash_often(install, workspace, workload, settings, arguments.crashes)
    times = ", ".join(f"{seconds:.2f}" for seconds in sorted(measured))
    print(
        f"{install.version} {workload.name}: target {target_s:.2f} s; {settings}; longest predicted "
        f"{answer['recovery_s']:.2f} s; longest measured {max(measured):.2f} s of {times}",
        flush=True,
    )


def _ask(wal: Path, target_s: float, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [
        sys.executable, "-m", "walproof", "wal", "whatif", str(wal), "--json", "--recovery-target",
        f"{target_s * 1000:.0f}ms", "--shared-buffers", f"{BUFFERS_MB}MB",
    ]  # fmt: skip
    if arguments.calibration is not None:
        command += ["--calibration", str(arguments.calibration)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr or done.stdout)
    answered: dict[str, Any] = json.loads(done.stdout)
    return answered


def crash_often(
    install: Install, workspace: Workspace, workload: Workload, settings: dict[str, str], crashes: int
) -> list[float]:
    """Seconds until connections were accepted, for each crash of one server under its load."""
    pgbench = reachable_pgbench([install, *discover()], workspace.user)
    rng = random.Random(SEED)
    folder = workspace.make_folder("target")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start({**FILL, "shared_buffers": f"{BUFFERS_MB}MB", **workload.settings, **settings})
    measured = []
    try:
        target = ["-h", str(cluster.sockets), "-p", str(cluster.port), "-U", SUPERUSER, "postgres"]
        if workload.scale:
            fill = [str(pgbench), "-i", "-q", "-s", str(workload.scale), *target]
            subprocess.run(fill, check=True, capture_output=True)
        with cluster.connect() as connection:
            for statement in (*workload.setup, "VACUUM", "CHECKPOINT"):
                connection.execute(statement.encode())
        command = [str(pgbench), "-n", "-c", str(workload.clients), "-T", "600"]
        if workload.script is not None:
            script = workspace.folder / "script.sql"
            script.write_text(workload.script)
            script.chmod(0o644)
            command += ["-f", str(script)]
        with subprocess.Popen(
            [*command, *target], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as load:
            try:
                _wait_for_checkpoint(cluster)
                for number in range(crashes):
                    time.sleep(rng.uniform(2.0, 8.0))
                    image = take_crash_image(cluster, workspace.make_folder(f"image-{number}"))
                    # The copy is recovered beside the load; a server's own time of redo is kept by the log.
                    with cluster.suspended():
                        times = recover(image, workspace, {"shared_buffers": f"{BUFFERS_MB}MB"}).times
                    assert times.total_s is not None
                    measured.append(times.total_s)
                    print(
                        f"  crash {number + 1}: away for {times.total_s:.2f} s", file=sys.stderr, flush=True
                    )
                    workspace.remove_folder(image.folder)
            finally:
                load.kill()
    finally:
        cluster.stop("immediate")
        workspace.remove_folder(folder)
    return measured


def _wait_for_checkpoint(cluster: Cluster, patience_s: float = 150.0) -> None:
    """Wait until the server has completed a checkpoint under the load."""
    deadline = time.monotonic() + patience_s
    before = cluster.log.read_text(errors="replace").count("checkpoint complete")
    while cluster.log.read_text(errors="replace").count("checkpoint complete") == before:
        if time.monotonic() > deadline:
            sys.exit(f"no checkpoint in {patience_s:.0f} s: the load is too slow for these settings")
        time.sleep(0.2)


if __name__ == "__main__":
    main()

"""The what-if against servers: every setting predicted from every other, and really measured.

    PYTHONPATH=. python bench/whatif/validate.py [--only WORD] [--twice] [--results FILE]
    PYTHONPATH=. python bench/whatif/validate.py --again --keep FOLDER [--results FILE]
    PYTHONPATH=. python bench/whatif/validate.py --table [--results FILE]
    PATH=PG19:$PATH PYTHONPATH=. python bench/whatif/validate.py --only "19 " --results FILE

Each workload is a fixed number of transactions (bench/whatif/workloads.py), run once under each setting from
the same data directory, after a CHECKPOINT. Each run's WAL is also a recording, from which every setting is
predicted. Results go to a file of JSON lines after every campaign; --again makes the predictions anew, from
WAL that was kept (--keep); --table prints the errors, in Markdown.
fsync is off: it changes when WAL reaches the disk, not what is in it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.rows import read_rows
from bench.whatif import workloads as w
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover, find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.template import clone
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.whatif import Target, default_completion_target, simulate

SIZES = ("128MB", "256MB", "512MB", "100GB")
SETTINGS = {
    "fsync": "off", "shared_buffers": "256MB", "autovacuum": "off", "checkpoint_timeout": "1d",
    "wal_keep_size": "64GB", "max_connections": "20", "min_wal_size": "80MB",
}  # fmt: skip
MINUTES = {"30s": 30, "1min": 60, "1d": 86400}


@dataclass(frozen=True, slots=True)
class Campaign:
    """One workload on one install under several settings."""

    pg: str
    work: w.Work
    settings: tuple[Mapping[str, str], ...] = tuple({"max_wal_size": size} for size in SIZES)
    initdb: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``18 uuid``."""
        return f"{self.pg} {self.work.name}"


def _sized(*sizes: str) -> tuple[Mapping[str, str], ...]:
    return tuple({"max_wal_size": size} for size in sizes)


def _timed(*timeouts: str) -> tuple[Mapping[str, str], ...]:
    return tuple({"checkpoint_timeout": timeout, "max_wal_size": "100GB"} for timeout in timeouts)


_METHODS: tuple[Mapping[str, str], ...] = tuple(
    {"max_wal_size": "256MB", "wal_compression": method} for method in ("off", "pglz", "lz4", "zstd")
)
_HINTS: tuple[Mapping[str, str], ...] = tuple(
    {"max_wal_size": size, "wal_log_hints": hints} for hints in ("on", "off") for size in ("128MB", "256MB")
)
SMALL = _sized("64MB", "96MB", "128MB", "100GB")
"""For loads that write little."""
CAMPAIGNS = (
    Campaign("18", w.TPCB),
    Campaign("18", w.READS),
    Campaign("18", w.UUID, settings=SMALL),
    Campaign("16", w.ZIPF, settings=SMALL),
    Campaign("16", w.CHURN),
    Campaign("15", w.TPCB, initdb=("--wal-segsize=4",)),
    Campaign("15", w.TPCB, settings=_METHODS),
    Campaign("15", w.LZ4, settings=SMALL),
    Campaign("15", w.ZSTD, settings=SMALL),
    Campaign("13.7", w.TPCB),
    Campaign("13.7", w.UUID, settings=SMALL),
    Campaign("13.7", w.PGLZ),
    # The rules for images of unknown size, and for hash indexes, were made after a first look at these two.
    Campaign("18", w.MIX),
    Campaign("16", w.SERIES),
    # Nobody tuned on these two.
    Campaign("16", w.QUEUE),
    Campaign("18", w.LOADS),
    Campaign("16", w.HINTS, settings=_HINTS),
    Campaign("16", w.TPCB_HINTS, settings=_HINTS),
    # Five minutes of it.
    Campaign("16", w.TIMED, settings=_timed("30s", "1min", "1d")),
)
OF_19 = (
    Campaign("19", w.TPCB),
    Campaign("19", w.READS),
    Campaign("19", w.CHURN),
    Campaign("19", w.HINTS, settings=_HINTS, initdb=("--no-data-checksums",)),
)
"""With blocks of the visibility map in records of tables, and pruning that sets it: --only "19 ..."."""


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", default="", help="campaigns of that name (18 tpcb), or whose name holds this"
    )
    parser.add_argument("--results", type=Path, default=Path("bench/whatif/results.jsonl"))
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-whatif"))
    parser.add_argument("--keep", type=Path, help="folder for the WAL of each run")
    parser.add_argument("--twice", action="store_true", help="every setting twice, to see the spread")
    parser.add_argument("--again", action="store_true", help="predict again from the WAL in --keep")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.again:
        assert arguments.keep is not None, "--again needs --keep"
        predict_again(arguments.results, arguments.keep)
    if arguments.table:
        print_table(read_rows(arguments.results))
        return
    if arguments.again:
        return
    campaigns = OF_19 if arguments.only.startswith("19") else CAMPAIGNS
    exact = [campaign for campaign in campaigns if campaign.name == arguments.only]
    for campaign in exact or campaigns:
        if arguments.only in campaign.name:
            times = 2 if arguments.twice else 1
            measure(
                replace(campaign, settings=campaign.settings * times), arguments.work, arguments.results,
                arguments.keep,
            )  # fmt: skip


def measure(campaign: Campaign, work: Path, results: Path, keep: Path | None = None) -> None:
    """Run every setting of a campaign and predict all from each."""
    user = server_user()
    install = reachable_install(find(campaign.pg), user)
    pgbench = reachable_pgbench([install, *discover()], user)
    with Workspace(work, user) as workspace:
        base = workspace.make_folder("base")
        load(Cluster(install, workspace, base), pgbench, campaign)
        rows = []
        for number, settings in enumerate(campaign.settings):
            folder = workspace.make_folder(f"run{number}")
            clone(base, folder, flush=False)
            began = time.monotonic()
            row = run(Cluster(install, workspace, folder), pgbench, campaign, settings)
            print(
                f"{campaign.pg} {campaign.work.name} {say(settings)}: {row['wal_bytes'] / 1e6:.1f} MB,"
                f" {row['images']} images, {row['checkpoints']} checkpoints,"
                f" {time.monotonic() - began:.0f} s", flush=True,
            )  # fmt: skip
            rows.append(row)
            if keep is not None:
                shutil.copytree(folder / "data" / "pg_wal", kept_folder(keep, row))
            workspace.remove_folder(folder)
        with results.open("a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    print_table(rows)


def load(cluster: Cluster, pgbench: Path, campaign: Campaign) -> None:
    """Make the data directory that every run begins from."""
    work = campaign.work
    cluster.init([*work.initdb, *campaign.initdb])
    cluster.start({**SETTINGS, "max_wal_size": "100GB", "wal_keep_size": "0"})
    try:
        if work.setup:
            with cluster.connect() as connection:
                for statement in work.setup.split(";") if "$$" not in work.setup else [work.setup]:
                    if statement.strip():
                        connection.execute(statement.encode())
        else:
            bench(cluster, pgbench, "-i", "-q", "-s", str(work.scale))
        with cluster.connect() as connection:
            if work.after:
                connection.execute(work.after.encode())
            connection.execute("VACUUM FREEZE ANALYZE")
    finally:
        cluster.stop("fast")


def bench(cluster: Cluster, pgbench: Path, *options: str) -> None:
    """Run pgbench on that server."""
    command = [
        str(pgbench), "-h", str(cluster.sockets), "-p", str(cluster.port), "-U", "postgres", *options,
        "postgres",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def run(cluster: Cluster, pgbench: Path, campaign: Campaign, settings: Mapping[str, str]) -> dict[str, Any]:
    """Run the work under one setting; return what was written, and predictions from it for all settings."""
    work = campaign.work
    cluster.start({**SETTINGS, **work.settings, **settings})
    try:
        options = work_options(cluster, work)
        with cluster.connect() as connection:
            connection.execute("CHECKPOINT")
            start = location(connection)
        began = time.monotonic()
        bench(cluster, pgbench, *options)
        seconds = time.monotonic() - began
        with cluster.connect() as connection:
            end = location(connection)
            connection.execute("SELECT pg_switch_wal()")
        wal = cluster.data / "pg_wal"
        written = stats(wal, start=start, end=end)
        row = {
            "pg": campaign.pg, "work": work.name, "segment_size": written.segment_size,
            "settings": dict(settings), "seconds": seconds, "start": str(start), "end": str(end),
            "wal_bytes": end - start, "images": written.images.count, "image_bytes": written.images.bytes,
            "hint_images": written.images.hint_count,
            "checkpoints": sum(checkpoint.redo > start for checkpoint in written.checkpoints),
        }  # fmt: skip
        return row | predict(wal, row, campaign)
    finally:
        cluster.stop("immediate")


def work_options(cluster: Cluster, work: w.Work) -> list[str]:
    """pgbench's options for the work."""
    options = ["-n", "-c", str(work.clients), "-j", "2", "-t", str(work.transactions)]
    options += ["--random-seed=7", "-M", "simple" if work.script else "prepared"]
    if work.rate is not None:
        options += ["-R", str(work.rate)]
    if work.script:
        script = cluster.folder / "script.sql"
        script.write_text(work.script)
        script.chmod(0o644)
        options += ["-f", str(script), "-D", f"scale={work.scale}"]
    return options


def predict(wal: Path, row: Mapping[str, Any], campaign: Campaign) -> dict[str, Any]:
    """Every setting of the campaign, predicted from the WAL of a run under one of them."""
    version = int(campaign.pg.split(".")[0])
    targets = [target_of(settings, campaign.work, version) for settings in campaign.settings]
    late = [replace(target, late_segments=1) for target in targets]
    start, end = Lsn.parse(row["start"]), Lsn.parse(row["end"])
    found = simulate(wal, targets=[*targets, *late], start=start, end=end)
    return {
        "agreement": found.recorded.agreement.share,
        "size_error": found.recorded.agreement.size_error,
        "predicted": [
            {
                "settings": dict(settings), "wal_bytes": outcome.wal_bytes, "images": outcome.images,
                "image_bytes": outcome.image_bytes, "checkpoints": outcome.checkpoints,
                "cycles": outcome.cycles.count, "late": outcome.cycles.late, "if_late": other.wal_bytes,
                "guessed": outcome.guessed_images, "pg_wal_most": outcome.pg_wal_most,
            }
            for settings, outcome, other in zip(
                campaign.settings, found.outcomes[: len(targets)], found.outcomes[len(targets) :],
                strict=True,
            )
        ],
    }  # fmt: skip


def predict_again(results: Path, keep: Path) -> None:
    """Replace the predictions of every result by those that are made now, from the WAL that was kept."""
    rows = []
    for line in results.read_text().splitlines():
        row = json.loads(line)
        (campaign,) = (
            known
            for known in (*CAMPAIGNS, *OF_19)
            if (known.pg, known.work.name) == (row["pg"], row["work"]) and row["settings"] in known.settings
        )
        rows.append(row | predict(kept_folder(keep, row), row, campaign))
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))


def kept_folder(keep: Path, row: Mapping[str, Any]) -> Path:
    """Folder in which the WAL of a run is kept."""
    kind = " wal_compression" if "wal_compression" in row["settings"] else ""
    name = f"{row['pg']} {row['work']}{kind} {say(row['settings'])}"
    return keep / name.replace(",", "").replace(";", "").replace(" ", "-")


def location(connection: Any) -> Lsn:
    """Where the next record will begin."""
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    return Lsn.parse(str(row[0]))


def target_of(settings: Mapping[str, str], work: w.Work, version: int) -> Target:
    """The target that stands for a run's settings."""
    size = settings.get("max_wal_size", "1GB")
    timeout = settings.get("checkpoint_timeout", "1d")
    return Target(
        max_wal_size_mb=int(size[:-2]) * (1024 if size.endswith("GB") else 1),
        checkpoint_timeout_s=MINUTES[timeout],
        checkpoint_completion_target=default_completion_target(version),
        wal_compression=settings.get("wal_compression", "as recorded"),  # type: ignore[arg-type]
        hint_records=settings.get("wal_log_hints") != "off",
    )


def say(settings: Mapping[str, str]) -> str:
    """The values that differ, such as ``128MB``, ``30s``, ``lz4``."""
    hints = f" {settings['wal_log_hints']}" if "wal_log_hints" in settings else ""
    return settings.get("wal_compression") or (
        settings["checkpoint_timeout"]
        if "checkpoint_timeout" in settings
        else settings["max_wal_size"] + hints
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting predicted from the run under another."""

    campaign: str
    kind: str
    """``settings``, ``overrun`` or ``compression``."""
    wal: float
    """Error in percent."""
    images: float | None
    is_bracketed: bool


def cells_of(rows: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Yield the predictions that count: of a run with checkpoints, from another run."""
    found = []
    for name, of_workload in grouped(rows).items():
        for source in of_workload:
            for target, predicted in zip(of_workload, source["predicted"], strict=True):
                is_compression = "wal_compression" in target["settings"]
                if source is target or not (predicted["checkpoints"] or is_compression):
                    continue
                hints = source["settings"].get("wal_log_hints"), target["settings"].get("wal_log_hints")
                if hints == ("off", "on"):
                    continue  # A recording without hint records cannot tell.
                kind = "compression" if is_compression else "overrun" if is_late(predicted) else "settings"
                low, high = sorted((predicted["wal_bytes"], predicted["if_late"]))
                is_bracketed = 0.98 * low <= target["wal_bytes"] <= 1.02 * high
                found.append(Cell(name, kind, *errors(target, predicted), is_bracketed))
    return found


def grouped(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group rows by campaign."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        name = f"{row['pg']}, {row['work']}"
        if "wal_compression" in row["settings"]:
            name += ", wal_compression"
        groups.setdefault(name, []).append(row)
    return groups


def is_late(predicted: Mapping[str, Any]) -> bool:
    """Whether checkpoints would overrun each other."""
    return bool(predicted["late"] > predicted["cycles"] / 4)


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print errors by workload, source and target; then by workload; then over all."""
    for name, of_workload in grouped(rows).items():
        print(f"\n{name}\n")
        names = [say(row["settings"]) for row in of_workload]
        print("| from \\ to | " + " | ".join(names) + " |\n|---" + "|---:" * len(names) + "|")
        print("| measured | " + " | ".join(
            f"{row['wal_bytes'] / 1e6:.1f} MB, {row['images']}, {row['checkpoints']}" for row in of_workload
        ) + " |")  # fmt: skip
        for source in of_workload:
            texts = []
            for target, predicted in zip(of_workload, source["predicted"], strict=True):
                wal, images = errors(target, predicted)
                text = f"{wal:+.2f}" + ("" if images is None else f" / {images:+.2f}")
                texts.append(text + (" (late)" if is_late(predicted) else ""))
            print(f"| {say(source['settings'])} | " + " | ".join(texts) + " |")
    cells = cells_of(rows)
    print("\n| | predictions | WAL, median | WAL, worst | images, median | images, worst |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in dict.fromkeys(cell.campaign for cell in cells):
        for kind in ("settings", "compression", "overrun"):
            print_summary(f"{name} ({kind})", [c for c in cells if (c.campaign, c.kind) == (name, kind)])
    for kind in ("settings", "compression", "overrun"):
        print_summary(f"**all ({kind})**", [cell for cell in cells if cell.kind == kind])
    late = [cell for cell in cells if cell.kind == "overrun"]
    if late:
        print(f"\n{sum(c.is_bracketed for c in late)} of {len(late)} in the overrun regime are bracketed.")


def print_summary(name: str, cells: Sequence[Cell]) -> None:
    """A row with the errors of these predictions."""
    if not cells:
        return
    wal = [abs(cell.wal) for cell in cells]
    images = [abs(cell.images) for cell in cells if cell.images is not None]
    parts = [f"{statistics.median(wal):.2f} %", f"{max(wal):.2f} %"]
    parts += [f"{statistics.median(images):.2f} %", f"{max(images):.2f} %"] if images else ["-", "-"]
    print(f"| {name} | {len(cells)} | " + " | ".join(parts) + " |")


def errors(measured: Mapping[str, Any], predicted: Mapping[str, Any]) -> tuple[float, float | None]:
    """Error in percent of WAL bytes and of images; of images only where there are enough to count."""
    wal = 100 * (predicted["wal_bytes"] / measured["wal_bytes"] - 1)
    if measured["images"] < 500:
        return wal, None
    return wal, 100 * (predicted["images"] / measured["images"] - 1)


if __name__ == "__main__":
    main()

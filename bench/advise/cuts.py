"""Short recordings cut out of a long one: does what they predict hold what the long one says?

    PYTHONPATH=. python bench/advise/cuts.py [--only LOAD ...] [--work DIR]

A server works on a load that is steady (those of ``carried_out --quick``), its WAL is received as a
whole, and windows of it are simulated as if nothing else had been recorded. What is kept is what each
simulated server wrote (tests/advise/facts/cuts.jsonl.xz), of which tests/advise/test_cuts.py asks again
whether the ranges hold what the whole stream says under the same settings.
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
import time
from pathlib import Path

from bench.advise.carried_loads import LOADS, Load
from bench.advise.carried_out import BEFORE, QUICK, script
from bench.advise.servers import Laboratory, laboratory
from tests.advise.server.stored import CUTS, plain
from walproof.analysis.whatif import Question
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.whatif import identify, simulate
from walproof.wal.whatif_target import target_of

TRANSACTIONS = 120_000
SIZES_MB = (16, 32, 64)
WINDOWS = (
    (0.0, 1.0),
    *((start / 100, 0.08) for start in range(2, 90, 11)),
    *((start / 100, 0.25) for start in (3, 26, 49, 72)),
    (0.05, 0.5), (0.45, 0.5),
)  # fmt: skip
"""Of the stream: where a recording begins and how much it holds. The first is all of it."""


def main() -> None:  # noqa: D103
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", metavar="LOAD")
    parser.add_argument("--work", type=Path, default=Path("/tmp/walproof-bench-advise"))
    arguments = parser.parse_args()
    lines = []
    with laboratory(arguments.work) as made:
        for load in LOADS[:3]:
            if not arguments.only or load.name in arguments.only:
                lines += _cut(load, made)
                print(load.name, len(lines), flush=True)
                CUTS.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def _cut(load: Load, made: Laboratory) -> list[str]:
    settings = {**BEFORE, "max_wal_size": f"{QUICK.max_wal_size_mb}MB", "min_wal_size": "2MB"}
    rows = f"{1_500_000 * QUICK.share:.0f}"
    prepare = [statement.replace("{rows}", rows) for statement in load.prepare]
    with (
        tempfile.TemporaryDirectory() as folder,
        made.server(load.pg, settings, *prepare, initdb=("--wal-segsize=1",)) as server,
    ):
        if load.scale is not None:
            server.fill(max(1, round(load.scale * QUICK.share)))
        # Updates become cheaper while pages get room.
        server.work("-c", "4", "-t", "6000", "--random-seed=7", *script(load, server, QUICK))
        with server.beside("pg_receivewal", "-D", folder, "--no-sync"):
            time.sleep(1)
            server.work(
                "-c", "4", "-t", str(TRANSACTIONS // 4), "--random-seed=29", *script(load, server, QUICK)
            )
            server.sql("SELECT pg_switch_wal()")
            time.sleep(3)
        return _windows(load, Path(folder))


def _windows(load: Load, folder: Path) -> list[str]:
    version, segment_size = identify(folder)
    told = {
        "max_wal_size": f"{QUICK.max_wal_size_mb}MB",
        "checkpoint_timeout": "15min",
        "min_wal_size": "2MB",
    }
    question = Question(target_of(version, segment_size, [told]), True, (), SIZES_MB, ())
    whole = stats(folder)
    lines = []
    for begins, share in WINDOWS:
        start = Lsn(whole.start + int(begins * (whole.end - whole.start)))
        end = Lsn(min(whole.end, start + int(share * (whole.end - whole.start))))
        found = simulate(folder, targets=question.targets(), start=start, end=end)
        commits = stats(folder, start=start, end=end).commits
        kept = {
            "load": load.name, "begins": begins, "share": share, "commits": commits,
            "found": plain(found), "question": plain(question),
        }  # fmt: skip
        lines.append(json.dumps(kept, separators=(",", ":")))
    return lines


if __name__ == "__main__":
    main()

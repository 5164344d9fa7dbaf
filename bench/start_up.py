"""CPU seconds (user and system) of short commands: the wait before anything happens.

python bench/start_up.py [SOURCE...]

Goal: less than 0.2 s each. Several SOURCE folders (the ``src`` of a tree, with its native module) are
measured in turns, so that a slow minute of the machine slows all of them. Default: the one of this tree. Byte
code comes from a cache that the first start of each command has filled, as for an installed walproof.
"""

from __future__ import annotations

import lzma
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

REPEATS = 20
ROOT = Path(__file__).parents[1]
SEGMENT = ROOT / "tests/golden/wal/17/00000001000000000000000A.xz"


def main() -> None:
    """Print median and range over the repeats, for each command and tree."""
    sources = [Path(argument).absolute() for argument in sys.argv[1:]] or [ROOT / "src"]
    with tempfile.TemporaryDirectory() as folder:
        segment = Path(folder) / SEGMENT.stem
        segment.write_bytes(lzma.decompress(SEGMENT.read_bytes()))
        commands = {
            "--help": ["--help"],
            "wal stats --json": ["wal", "stats", "--json", str(segment)],
            "wal records -n 1": ["wal", "records", "-n", "1", str(segment)],
            "wal whatif --help": ["wal", "whatif", "--help"],
            "recovery predict --help": ["recovery", "predict", "--help"],
        }
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environments = {
            source: {**kept, "PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": f"{folder}/{number}"}
            for number, source in enumerate(sources)
        }
        for name, words in commands.items():
            seconds: dict[Path, list[float]] = {source: [] for source in sources}
            for repeat in range(REPEATS + 1):
                for source in sources:
                    spent = _cpu_s(words, environments[source])
                    if repeat > 0:
                        seconds[source].append(spent)
            for source, found in seconds.items():
                print(f"{name:<24} {statistics.median(found):.3f} s of CPU, "
                      f"{min(found):.3f} to {max(found):.3f}, {REPEATS} starts, {source}")  # fmt: skip


def _cpu_s(words: list[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "walproof", *words], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()

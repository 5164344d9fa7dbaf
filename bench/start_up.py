"""CPU seconds of ``walproof --help``. Goal: less than 0.3 s.

python bench/start_up.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

REPEATS = 20


def main() -> None:
    """Print median and range over the repeats."""
    seconds = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "walproof", "--help"], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"walproof --help: median {statistics.median(seconds):.3f} s of CPU, "
          f"{min(seconds):.3f} to {max(seconds):.3f}, {REPEATS} starts")  # fmt: skip


if __name__ == "__main__":
    main()

"""Time and memory of 40 settings on a large recording.

    cargo run --release -p walproof-wal --example repeat -- SOURCE FOLDER TIMES
    python bench/whatif/large.py FOLDER [PAGES]

SOURCE holds whole segments of one load between two pg_switch_wal().
"""

from __future__ import annotations

import resource
import sys
import time

from walproof.wal.whatif import Target, simulate

SIZES_MB = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
TIMEOUTS_S = (60, 300, 900, 1800, 3600)


def main() -> None:
    """Print one line."""
    targets = [
        Target(max_wal_size_mb=size, checkpoint_timeout_s=timeout)
        for size in SIZES_MB
        for timeout in TIMEOUTS_S
    ]
    began, cpu = time.monotonic(), time.process_time()
    found = simulate(sys.argv[1], targets=targets, most_pages=int(sys.argv[2]) if sys.argv[2:] else None)
    recorded = found.recorded
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{(found.end - found.start) / 1e9:.1f} GB, {recorded.records:,} records, {recorded.pages:,} pages"
        f" ({recorded.held_pages:,} held, {recorded.memory_bytes / 1e6:.1f} MB);"
        f" {time.monotonic() - began:.0f} s, CPU {time.process_time() - cpu:.0f} s, peak {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()

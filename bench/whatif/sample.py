"""Samples of pages against the exact simulation of the same WAL.

    PYTHONPATH=. python bench/whatif/sample.py FOLDER...      of WAL that bench/whatif/validate.py --keep kept

Errors are those of images' bytes, in percent of WAL, for max_wal_size from 64 MB to none; in brackets the
standard error that the sample tells of itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

from walproof.wal.whatif import Target, simulate

SIZES_MB = (64, 128, 256, 512, 1024, None)
PAGES = (16000, 8000, 4000, 2000, 1000)


def main() -> None:
    """Print a line for each number of pages."""
    targets = [Target(max_wal_size_mb=size, checkpoint_timeout_s=None) for size in SIZES_MB]
    for folder in map(Path, sys.argv[1:]):
        exact = simulate(folder, targets=targets)
        print(f"{folder.name}: {exact.recorded.pages:,} pages")
        for pages in PAGES:
            found = simulate(folder, targets=targets, most_pages=pages)
            errors = [
                f"{100 * (sampled.image_bytes - whole.image_bytes) / whole.wal_bytes:+.2f}"
                f" ({100 * sampled.sample_error_bytes / sampled.wal_bytes:.2f})"
                for sampled, whole in zip(found.outcomes, exact.outcomes, strict=True)
            ]
            print(f"{pages:,}: {found.recorded.held_pages:,} held; {', '.join(errors)}")


if __name__ == "__main__":
    main()

"""A process that captures with a short time-out: python -m tests.lab.capturing DSN FOLDER SECONDS."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lab.recorded import take
from walproof.lab.capture import CaptureOrder

if __name__ == "__main__":
    dsn, folder, timeout_s = sys.argv[1:]
    made = take(CaptureOrder(dsn, 600, Path(folder), timeout_s=float(timeout_s)))
    sys.stdout.write(made.ended_because)

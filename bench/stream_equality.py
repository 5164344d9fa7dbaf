"""Does `walproof.wal.stream` say the same while WAL arrives as a reading of the WAL that ends there?

    python bench/stream_equality.py            # recordings of 15 to 18 in tests/golden, 250 moments each
    python bench/stream_equality.py --moments 1000 FOLDER ...

At random moments, and around every checkpoint's record, the snapshot is compared with `find_redo` and
`analyse` of the files up to that location: all fields, for four sizes of shared_buffers. Bytes are fed in
pieces of random sizes. A difference is printed, and the status is 1.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.golden.unpack import unpack
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.recovery import RecoveryWork, analyse, find_redo
from walproof.wal.stream import WalStream

BUFFERS = (16, 128, 1024, 16384)
PIECES = (1, 13, 500, 8192, 70_001, 1 << 20)
VERSIONS = (15, 16, 17, 18)


def cut(folder: Path, end: Lsn) -> tuple[Lsn, RecoveryWork] | None:
    """Redo point and work of the WAL up to there; None where it holds no complete checkpoint."""
    try:
        redo = find_redo(folder, end=end, threads=1).redo
        return redo, analyse(folder, buffers=BUFFERS, start=redo, end=end).last
    except WalError:
        return None


def compare(folder: Path, count: int, seed: int) -> tuple[Counter[str], int]:
    """How many moments were compared, and how many differed."""
    written = stats(folder)
    size = written.segment_size
    files = sorted(path for path in folder.iterdir() if len(path.name) == 24)
    wal = b"".join(path.read_bytes() for path in files)
    base = written.start // size * size
    length = written.end - base
    chosen = random.Random(seed)
    near = [checkpoint.lsn - base + more for checkpoint in written.checkpoints for more in (0, 8, 200, 5_000)]
    moments = {at for at in near if at <= length}
    while len(moments) < count:
        moments.add(chosen.randrange(length))
    stream = WalStream(buffers=BUFFERS, segment_size=size)
    kinds: Counter[str] = Counter()
    differing = 0
    for before, until in itertools.pairwise((0, *sorted(moments))):
        at = before
        while at < until:
            piece = min(chosen.choice(PIECES), until - at)
            stream.observe(Lsn(base + at), wal[at : at + piece])
            at += piece
        while stream.recompute():
            pass
        told, expected = stream.snapshot(), cut(folder, Lsn(base + until))
        found = None if told.clock is None or told.redo is None else (told.redo, told.clock)
        running = ", a checkpoint running" if told.next_redo else ""
        kinds[f"{told.state}{running}"] += 1
        if found != expected:
            differing += 1
            print(f"{folder}: differs at {Lsn(base + until)}:\n  stream {found}\n  files  {expected}")
    return kinds, differing


def main() -> int:
    """Compare and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--moments", type=int, default=250, help="of each recording")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("folders", nargs="*", type=Path, help="recordings; default: those of tests/golden")
    options = parser.parse_args()
    differing = 0
    with tempfile.TemporaryDirectory() as temporary:
        recordings = {str(folder): folder for folder in options.folders}
        if not recordings:
            for version in VERSIONS:
                folder = recordings[f"PostgreSQL {version}"] = Path(temporary) / str(version)
                folder.mkdir()
                unpack(version, folder)
        for name, folder in recordings.items():
            kinds, differ = compare(folder, options.moments, options.seed)
            differing += differ
            told = "; ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
            print(f"{name}: {kinds.total()} moments, {differ} differ ({told})", flush=True)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

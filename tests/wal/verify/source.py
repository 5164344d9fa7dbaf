"""What a real server archives, to make archives of: two base backups, records over edges of segments, a
promotion.

The server's own archive_command fills a folder with segments of 1 MB. Then a copy of the server as it was
before is started without a new timeline (the other history, as after a failover that was made wrong), and the
server itself is recovered from the archive and promoted."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.wal.server import BINDIRS, Server
from walproof.privilege.user import running_as, server_user
from walproof.units import Lsn
from walproof.wal import records
from walproof.wal.places.folder import Folder
from walproof.wal.verify.backups import ArchivedBackup, read_label, read_manifest

MB = 1 << 20
SETTINGS = {
    "wal_level": "replica", "archive_mode": "on", "max_wal_senders": "3", "wal_keep_size": "0",
    "summarize_wal": "off", "log_timezone": "UTC", "timezone": "UTC",
}  # fmt: skip


@dataclass
class Source:
    """Files of an archive, and what is known about them."""

    folder: Path
    """``archive``, ``backup1``, ``backup2`` (from pg_basebackup), ``other`` (segments of the other
    history)."""
    bindir: Path
    version: int
    system_identifier: int
    backups: list[ArchivedBackup]
    switch: Lsn
    """Where timeline 2 leaves timeline 1."""
    segments: dict[str, bytes]
    histories: dict[str, bytes]
    labels: dict[str, bytes]
    partials: dict[str, bytes]
    other: dict[str, bytes]
    starts: list[Lsn] = field(default_factory=list)
    ends: list[Lsn] = field(default_factory=list)
    """Of every record along both timelines."""

    def names(self, timeline: int) -> list[str]:
        """Segments of a timeline in order."""
        return sorted(name for name in self.segments if int(name[:8], 16) == timeline)

    def end_before(self, lsn: Lsn) -> Lsn:
        """Where the last record ends that is complete before a location."""
        return max(end for end in self.ends if end <= lsn)

    def record_at(self, lsn: Lsn) -> Lsn:
        """The record that holds a location."""
        return max(start for start in self.starts if start <= lsn)


def segment_lsn(name: str) -> Lsn:
    """Where a segment of 1 MB begins."""
    return Lsn((int(name[8:16], 16) << 32) + int(name[16:], 16) * MB)


def make_source(version: str, folder: Path) -> Source:
    """Run the servers. ``folder`` must be open to the server's user."""
    bindir = BINDIRS[version]
    archive = folder / "archive"
    server = Server(bindir, {name: value for name, value in SETTINGS.items()
                             if name != "summarize_wal" or int(version) >= 17}, segment_mb=1)  # fmt: skip
    user = server_user()
    for place in (folder, archive):
        place.mkdir(exist_ok=True)
        if user is not None:
            shutil.chown(place, user.uid, user.gid)
    server.configure({"archive_command": f"test ! -f {archive}/%f && cp %p {archive}/%f"})
    with server:
        _work(server)
        _backup(server, bindir, folder / "backup1")
        _work(server)
        _work(server)
        _backup(server, bindir, folder / "backup2")
        _work(server)
        _switch(server)
        server.stop()
        _split_brain(server, folder)
        _promote(server, archive)
        _work(server)
        _work(server)
        _switch(server)
        _wait_archived(server)
    return _collect(folder, bindir, int(version))


def _work(server: Server) -> None:
    """Some 3 MB: rows, a record over one edge, one over two, and a segment that is given up half way."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (id serial PRIMARY KEY, filler text)")
        for _ in range(200):
            connection.execute("INSERT INTO t (filler) SELECT repeat('x', 50) FROM generate_series(1, 60)")
        connection.execute("SELECT pg_logical_emit_message(false, 'walproof', repeat('m', 700000))")
        connection.execute("SELECT pg_switch_wal()")
        for _ in range(20):
            connection.execute("INSERT INTO t (filler) SELECT repeat('y', 50) FROM generate_series(1, 60)")
        connection.execute("SELECT pg_logical_emit_message(false, 'walproof', repeat('n', 1500000))")
        connection.execute("UPDATE t SET filler = 'z' WHERE id % 7 = 0")


def _switch(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("SELECT pg_switch_wal()")


def _wait_archived(server: Server) -> None:
    """Until the archiver is done with the last segment: its file is there before it is whole."""
    with server.connect() as connection:
        row = connection.execute("SELECT pg_walfile_name(pg_current_wal_lsn() - 1)").fetchone()
        assert row is not None
        deadline = time.monotonic() + 60
        while True:
            last = connection.execute("SELECT last_archived_wal FROM pg_stat_archiver").fetchone()
            if last is not None and str(last[0] or "") >= str(row[0]):
                return
            assert time.monotonic() < deadline, server.log.read_text()[-2000:]
            time.sleep(0.05)


def _backup(server: Server, bindir: Path, target: Path) -> None:
    done = subprocess.run(
        [str(bindir / "pg_basebackup"), "-h", str(server.folder), "-U", "postgres", "-D", str(target),
         "-X", "none", "--checkpoint=fast", "--no-sync"],
        capture_output=True, text=True, check=False, cwd="/", **running_as(server_user()),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _split_brain(server: Server, folder: Path) -> None:
    """The other history: the same cluster goes on without a new timeline, and writes other segments."""
    other, kept = folder / "other", server.folder / "kept"
    other.mkdir()
    if (user := server_user()) is not None:
        shutil.chown(other, user.uid, user.gid)
    subprocess.run(["cp", "-a", str(server.data), str(kept)], check=True)
    server.configure({"archive_command": f"cp %p {other}/%f"})
    server.start()
    _work(server)
    _switch(server)
    _wait_archived(server)
    server.stop()
    shutil.rmtree(server.data)
    kept.rename(server.data)


def _promote(server: Server, archive: Path) -> None:
    """Recover from the archive, and go on as timeline 2."""
    server.configure({"restore_command": f"cp {archive}/%f %p"})
    (server.data / "recovery.signal").touch()
    server.start()
    deadline = time.monotonic() + 60
    while True:
        with server.connect() as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        if row == (False,):
            break
        assert time.monotonic() < deadline, server.log.read_text()[-2000:]
        time.sleep(0.1)


def _collect(folder: Path, bindir: Path, version: int) -> Source:
    archive = folder / "archive"
    files = {file.name: file.read_bytes() for file in sorted(archive.iterdir())}
    labels = {name: data for name, data in files.items() if name.endswith(".backup")}
    backups = []
    for place in ("backup1", "backup2"):
        (backup,) = read_manifest(Folder(folder / place / "backup_manifest"), {"PG_VERSION", "global"})
        assert isinstance(backup, ArchivedBackup)
        backups.append(backup)
    stops = {}
    for name in labels:
        label = read_label(str(archive / name))
        assert isinstance(label, ArchivedBackup)
        stops[label.start] = label
    backups = [
        ArchivedBackup(taken.name, taken.tool, taken.path, taken.timeline, taken.start, taken.stop,
               stops[taken.start].stopped_at, taken.system_identifier, taken.version)
        for taken in backups
    ]  # fmt: skip
    system = backups[0].system_identifier
    assert system is not None
    text = files["00000002.history"].decode()
    with tempfile.TemporaryDirectory() as temporary:
        # As a restore reads it: of the segment with both timelines, the newer.
        newest = {name[8:]: name for name in sorted(files) if len(name) == 24}
        for name in newest.values():
            (Path(temporary) / name).write_bytes(files[name])
        found = list(records(temporary))
    return Source(
        folder, bindir, version, system, backups, Lsn.parse(text.split()[1]),
        {name: data for name, data in files.items() if len(name) == 24},
        {name: data for name, data in files.items() if name.endswith(".history")},
        labels,
        {name: data for name, data in files.items() if name.endswith(".partial")},
        {file.name: file.read_bytes() for file in (folder / "other").iterdir()},
        [record.lsn for record in found],
        [record.end for record in found],
    )  # fmt: skip

"""Makes src/walproof/settings/catalogue.csv by asking a real server of every supported major version.

    PYTHONPATH=src python bench/read_catalogue.py --also DIR

fetches the servers of VERSIONS as `walproof pg install` does, starts each on a fresh data directory, reads
pg_settings, and asks `postgres -C` which further words each enum setting takes (pg_settings hides synonyms
such as wal_level=hot_standby). A new version is added to VERSIONS; the difference in the file is then read by
a person. --also names the programs of a version that is not published yet (19~rc1, which
bench/distribution_install.py makes). Takes about a minute and needs Maven or npm.

One row is one definition of one setting, with the major versions `since` .. `until` in which it holds.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from walproof.facts.plan import Install
from walproof.postgres import fetch
from walproof.postgres.install import examine, major
from walproof.postgres.reach import reachable_install
from walproof.privilege.user import ServerUser, running_as, server_user

VERSIONS = ("13.23", "14.23", "15.18", "16.14", "17.10", "18.4")
TARGET = Path(__file__).parent.parent / "src/walproof/settings/catalogue.csv"
COLUMNS = (
    "name", "since", "until", "context", "vartype", "unit", "min", "max", "boot", "values", "synonyms",
    "build_values",
)  # fmt: skip

# Values that exist in a version but not in every build of it, from guc_tables.c (before 16: guc.c):
# (setting, value, first major version that knows it, what the build or platform needs).
BUILD_VALUES = (
    ("wal_compression", "lz4", 15, "--with-lz4"),
    ("wal_compression", "zstd", 15, "--with-zstd"),
    ("default_toast_compression", "lz4", 14, "--with-lz4"),
    ("wal_sync_method", "fsync_writethrough", 13, "macOS or Windows"),
    ("wal_sync_method", "open_sync", 13, "O_SYNC"),
    ("wal_sync_method", "open_datasync", 13, "O_DSYNC"),
    ("recovery_init_sync_method", "syncfs", 14, "Linux"),
    ("io_method", "io_uring", 18, "--with-liburing"),
    ("file_copy_method", "clone", 18, "copy_file_range or copyfile"),
)

# Values that the packager chooses: one that only --also was asked about has what the others have.
PACKAGED = ("krb_server_keyfile", "unix_socket_directories")

# From that major version on, what the word `on` means is up to the build (zstd, else lz4, else pglz,
# src/include/access/xlog.h): it is a word of its own, and not a synonym of a method.
ON_BY_BUILD = {"wal_compression": 19}

# Words that some enum setting takes without listing them.
HIDDEN_WORDS = (
    "on", "off", "true", "false", "yes", "no", "1", "0",
    "archive", "hot_standby", "debug", "info", "fatal", "panic",
)  # fmt: skip


def main() -> int:
    """Write the catalogue."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--also", type=Path, action="append", default=[], metavar="DIR")
    given = [examine(folder, "given") for folder in parser.parse_args().also]
    user = server_user()
    seen: dict[str, dict[int, dict[str, str]]] = {}
    for found in [*(fetch.install(version) for version in VERSIONS), *given]:
        install = reachable_install(found, user)
        print(f"PostgreSQL {install.version}: {fetch.read_origin(found).get('sha256', '')}", file=sys.stderr)
        for row in read_settings(install, user):
            rows = seen.setdefault(row["name"], {})
            if found in given and row["name"] in PACKAGED:
                row["boot"] = rows[max(rows)]["boot"]
            rows[major(install)] = row
    majors = sorted({m for rows in seen.values() for m in rows})
    with TARGET.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for name in sorted(seen, key=str.lower):
            writer.writerows(spans(seen[name], majors))
    return 0


def spans(rows: Mapping[int, dict[str, str]], majors: list[int]) -> Iterator[dict[str, str]]:
    """Neighbouring major versions with the same definition, joined."""
    current: dict[str, str] | None = None
    for number in majors:
        row = rows.get(number)
        if current is not None and row is not None and all(current[key] == row[key] for key in row):
            current["until"] = str(number)
            continue
        if current is not None:
            yield current
        current = None if row is None else {**row, "since": str(number), "until": str(number)}
    if current is not None:
        yield current


def read_settings(install: Install, user: ServerUser | None) -> list[dict[str, str]]:
    """Every row of pg_settings of a fresh cluster, in the form of the catalogue."""
    options: dict[str, Any] = {**running_as(user)}
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="walproof-catalogue-") as name:
        folder = Path(name)
        if user is not None:
            os.chown(folder, user.uid, user.gid)
        initdb = [f"{install.bindir}/initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust"]
        subprocess.run(
            [*initdb, "--no-sync", "--locale=C", "-E", "UTF8"], check=True, stdout=subprocess.DEVNULL,
            cwd="/", **options,
        )  # fmt: skip
        with server(install, folder, options) as connection:
            rows = connection.execute(
                "SELECT name, context, vartype, unit, min_val, max_val, boot_val, enumvals FROM pg_settings"
            ).fetchall()
        return [definition(install, folder / "data", row, options) for row in rows]


def definition(
    install: Install, data: Path, row: Mapping[str, object], options: dict[str, Any]
) -> dict[str, str]:
    """One row of the catalogue without its versions."""
    name = str(row["name"])
    listed = list(row["enumvals"] or ())  # type: ignore[call-overload]
    build = [
        value for setting, value, since, _ in BUILD_VALUES if setting == name and since <= major(install)
    ]
    # Last, so that a definition is the same whether or not this build has them.
    values = [value for value in listed if value not in build]
    synonyms = {}
    if row["vartype"] == "enum" and row["context"] != "internal":
        for word in dict.fromkeys([*values, *HIDDEN_WORDS]):
            shown = ask(install, data, name, word, options)
            if shown is not None and shown != word:
                synonyms[word] = shown
    if name in ON_BY_BUILD and major(install) >= ON_BY_BUILD[name]:
        meaning = synonyms.pop("on")
        synonyms = {word: "on" if shown == meaning else shown for word, shown in synonyms.items()}
    return {
        "name": name,
        "context": str(row["context"]),
        "vartype": str(row["vartype"]),
        "unit": str(row["unit"] or ""),
        "min": str(row["min_val"] or ""),
        "max": str(row["max_val"] or ""),
        # What initdb or the build decides would be the value of one machine.
        "boot": "" if row["context"] == "internal" else str(row["boot_val"] or ""),
        "values": "|".join([*values, *build]),
        "synonyms": "|".join(f"{word}={shown}" for word, shown in synonyms.items()),
        "build_values": "|".join(build),
    }


def ask(install: Install, data: Path, name: str, value: str, options: dict[str, Any]) -> str | None:
    """How the server shows ``value``, or None when it does not take it."""
    done = subprocess.run(
        [f"{install.bindir}/postgres", "-C", name, "-D", str(data), "-c", f"{name}={value}"],
        capture_output=True, text=True, cwd="/", **options,
    )  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else None


@contextmanager
def server(
    install: Install, folder: Path, options: dict[str, Any]
) -> Iterator[psycopg.Connection[dict[str, object]]]:
    """Start a server, and yield a connection to it."""
    command = [f"{install.bindir}/postgres", "-D", f"{folder}/data", "-k", str(folder), "-h", ""]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        **options,
    )  # fmt: skip
    try:
        for attempt in range(100):
            try:
                connection = psycopg.connect(
                    f"host={folder} user=postgres dbname=postgres", row_factory=dict_row, autocommit=True
                )
                break
            except psycopg.OperationalError:
                if attempt == 99 or process.poll() is not None:
                    raise
                time.sleep(0.1)
        with connection:
            yield connection
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    sys.exit(main())

"""What an install was built with: configure options, compression, contrib. Its own programs are asked.

``postgres -C NAME -c NAME=VALUE`` runs the server's own parser on a value and needs no data directory
(src/backend/main/main.c): it refuses a bad value before it misses the directory.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

from walproof.errors import InstallError
from walproof.facts.plan import Install
from walproof.postgres.install import major, prefix
from walproof.postgres.reach import ask_program

_NO_DATA = "/nonexistent/walproof"
SERVER_PROGRAM = "server_program"
"""The fact that has the size and the time of change of a build's server program."""
_AVAILABLE = re.compile(r"Available values: (.*)\.\s*$", re.MULTILINE)


def build_facts(install: Install) -> dict[str, str]:
    """``name -> text`` about how the install was built. Raises InstallError when it does not run.

    ``version`` (as it prints it), ``configure`` (where pg_config exists), ``wal_compression`` and
    ``wal_sync_method`` (the values that this build takes), ``contrib`` (whether pg_stat_statements exists),
    ``bindir``, ``origin`` and ``server_program``.
    """
    facts = {"version": ask_program(install, "postgres", "--version").stdout.strip()}
    if Path(install.bindir, "pg_config").exists():
        facts["configure"] = ask_program(install, "pg_config", "--configure").stdout.strip() or "(none)"
    facts["wal_compression"] = ", ".join(available_values(install, "wal_compression"))
    facts["wal_sync_method"] = ", ".join(available_values(install, "wal_sync_method"))
    facts["contrib"] = "yes" if has_extension(install, "pg_stat_statements") else "no"
    facts["bindir"] = install.bindir
    facts["origin"] = install.origin
    facts[SERVER_PROGRAM] = server_program(install)
    return facts


def server_program(install: Install) -> str:
    """Size and time of change of the program ``postgres``, which tell a build from the one that was at the
    same place before. Raises InstallError."""
    path = Path(install.bindir, "postgres")
    try:
        found = path.stat()
    except OSError as error:
        raise InstallError(f'could not read "{path}": {error.strerror}') from error
    seconds, ns = divmod(found.st_mtime_ns, 10**9)
    changed = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    return f"{found.st_size:,} bytes, changed at {changed}.{ns:09d} UTC"


def available_values(install: Install, name: str) -> tuple[str, ...]:
    """The values that an enum setting takes in this build, as its own hint lists them.

    A boolean setting (wal_compression before 15) has ``on`` and ``off``. Raises InstallError.
    """
    said = rejection(install, {name: "?"})
    match = _AVAILABLE.search(said or "")
    if match is not None:
        return tuple(match[1].split(", "))
    if said is not None and "requires a Boolean value" in said:
        return ("on", "off")
    raise InstallError(f'"{name}" is not an enum setting of PostgreSQL {install.version}', detail=said)


def rejection(install: Install, settings: Mapping[str, str]) -> str | None:
    """What the server objects to in these settings, in English, or None when it takes them all. It judges
    each value alone: contradictions between settings appear only when a server starts."""
    given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    done = ask_program(install, "postgres", "-C", "port", "-D", _NO_DATA, *given)
    said = done.stderr.strip()
    if "could not access directory" in said or (done.returncode == 0 and "FATAL" not in said):
        return None
    # Each line carries a time and a process id that mean nothing here.
    return re.sub(r"^.*?\b(?=(?:FATAL|DETAIL|HINT|WARNING|LOG):)", "", said, flags=re.MULTILINE)


def accepts(install: Install, name: str, value: str) -> bool:
    """Whether the server objects to nothing in this setting."""
    return rejection(install, {name: value}) is None


def has_tls(install: Install) -> bool:
    """Whether it was built with TLS."""
    # src/backend/commands/variable.c, check_ssl (13 to 19: "SSL is not supported by this build").
    return "not supported by this build" not in (rejection(install, {"ssl": "on"}) or "")


def share_folder(install: Install) -> Path | None:
    """The folder that holds ``postgres.bki`` and ``extension/``, or None when it is not found."""
    # First those of its own prefix: pg_config may be asked where a copy of the install lies.
    candidates = [prefix(install) / name for name in ("share/postgresql", "share/pgsql", "share")]
    if Path(install.bindir, "pg_config").exists():
        candidates.append(Path(ask_program(install, "pg_config", "--sharedir").stdout.strip()))
    candidates += [Path(f"/usr/share/postgresql{between}{major(install)}") for between in ("/", "")]
    return next((path for path in candidates if (path / "postgres.bki").exists()), None)


def has_extension(install: Install, name: str) -> bool:
    """Whether ``CREATE EXTENSION name`` would find its control file."""
    share = share_folder(install)
    return share is not None and (share / "extension" / f"{name}.control").exists()


def has_library(install: Install, name: str) -> bool:
    """Whether a server would find the library ``name`` (of shared_preload_libraries and the like)."""
    folders = [
        prefix(install) / lib / name for lib in ("lib", "lib64") for name in ("postgresql", "pgsql", ".")
    ]
    if Path(install.bindir, "pg_config").exists():
        folders.insert(0, Path(ask_program(install, "pg_config", "--pkglibdir").stdout.strip()))
    return any((folder / f"{name}{suffix}").exists() for folder in folders for suffix in (".so", ".dylib"))


def missing_libraries(install: Install, settings: Mapping[str, str]) -> list[str]:
    """Libraries, named and not given as a path, that these settings load and a server would not find."""
    listed = [settings.get(f"{who}_preload_libraries", "") for who in ("shared", "session", "local")]
    names = [name.strip().strip('"') for text in listed for name in text.split(",")]
    return [name for name in names if name and "/" not in name and not has_library(install, name)]

"""Whether the user that runs servers can reach their binaries and data.

PostgreSQL refuses to run as root. When walproof is started as root, server programs run as an unprivileged
user, who often cannot enter the place that holds the binaries (a virtual environment under ``/root``, 0700).
Such an install is copied once into root's cache, which everyone can read: PostgreSQL finds its share files
relative to its binary directory (src/port/path.c, make_relative_path), so a copy runs. It holds PostgreSQL's
own files alone, because a prefix may be somebody's home. A wheel has more: the libraries that auditwheel and
delocate put beside the package, which its binaries find by a relative path too.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from walproof.errors import InstallError
from walproof.facts.plan import Install
from walproof.files import rename_whole
from walproof.postgres.cache import cache_folder
from walproof.postgres.install import find_driver, prefix
from walproof.privilege.environment import child_environment
from walproof.privilege.user import ServerUser, running_as, server_user

# Only what a server cannot do without, which is enough to tell an open prefix from a private one.
_NEEDED = (
    "share/postgresql/postgres.bki",
    "share/postgres.bki",
    "lib/postgresql/plpgsql.so",
    "lib/plpgsql.so",
)
_PROGRAMS = (
    "postgres", "initdb", "psql", "pgbench", "pg_amcheck", "pg_archivecleanup", "pg_basebackup",
    "pg_checksums", "pg_combinebackup", "pg_config", "pg_controldata", "pg_createsubscriber", "pg_ctl",
    "pg_dump", "pg_dumpall", "pg_isready", "pg_receivewal", "pg_recvlogical", "pg_resetwal", "pg_restore",
    "pg_rewind", "pg_test_fsync", "pg_test_timing", "pg_upgrade", "pg_verifybackup", "pg_waldump",
    "pg_walsummary",
)  # fmt: skip
# A prefix with "pgsql" or "postgres" in its path has no folder of that name in lib and share
# (src/Makefile.global.in): what would be in it lies there directly.
_LIBRARIES = ("*.so", "*.so.*", "*.dylib", "*.bc", "bitcode", "postgresql", "pgsql")
_SHARED = (
    "postgresql", "pgsql", "postgres.*", "*.sample", "information_schema.sql", "sql_features.txt",
    "system_*.sql", "snowball_create.sql", "contrib", "extension", "timezone", "timezonesets", "tsearch_data",
)  # fmt: skip
_UNFINISHED = ".tmp"
_SYSTEM = (Path("/"), Path("/usr"))
"""Prefixes that hold everything: a copy of their libraries would be one of the system."""


def reachable(path: Path, user: ServerUser | None) -> bool:
    """Whether ``user`` (None: ourselves) can read ``path``, and enter or run it where that has a meaning. The
    kernel is asked, as that user: mode bits alone do not know of access lists, mounts and namespaces."""
    return _all_reachable([path], user)


def reachable_install(install: Install, user: ServerUser | None) -> Install:
    """The install in a place where ``user`` can run it: itself, or a copy of it in the cache.

    The copy is made once for a given install (real path, version, time of change) and is complete when it
    appears. Of those that were made before the install changed the last one stays: a run that goes on may
    have it. Label and origin are kept: it is the same PostgreSQL. Raises InstallError.
    """
    obstacle = None if user is None else _obstacle(install, user)
    if user is None or obstacle is None:
        return install
    source = prefix(install).resolve()
    if source in _SYSTEM:
        raise InstallError(
            f'user "{user.name}" cannot run PostgreSQL {install.version} of "{install.bindir}"',
            detail=obstacle,
            hint="WALPROOF_SERVER_USER names another user to run servers.",
        )
    programs = Path(install.bindir).name
    server = Path(install.bindir, "postgres").stat()
    identity = f"{source}\0{install.version}\0{server.st_mtime_ns}\0{server.st_size}"
    copy = cache_folder("relocated") / f"{_key(str(source))}-{install.version}-{_key(identity)}"
    if not copy.exists():
        _copy_once(source, programs, copy)
        others = [
            other for other in copy.parent.glob(f"{_key(str(source))}-*")
            if other != copy and other.suffix != _UNFINISHED
        ]  # fmt: skip
        for other in sorted(others, key=lambda path: path.stat().st_mtime)[:-1]:
            shutil.rmtree(other, ignore_errors=True)
    bindir = copy / source.parent.name / source.name / programs
    moved = dataclasses.replace(install, bindir=str(bindir))
    obstacle = _obstacle(moved, user)
    if obstacle is not None:
        raise InstallError(
            f'user "{user.name}" cannot run PostgreSQL {install.version} of "{install.bindir}"',
            detail=f'A copy was made in "{copy}", which that user cannot run either: {obstacle}',
            hint="Set WALPROOF_CACHE to a folder below which every folder lets that user in (chmod a+x).",
        )
    return moved


def reachable_pgbench(installs: Iterable[Install], user: ServerUser | None) -> Path:
    """The pgbench that can load every one of ``installs``, where ``user`` can run it. Raises InstallError."""
    _, driver = find_driver(installs)
    return Path(reachable_install(driver, user).bindir) / "pgbench"


def ask_program(install: Install, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What a program of the install answers, run as the servers' user: it has no more rights than its server
    will have. In English, because answers are read. Raises InstallError when it does not run."""
    user = server_user()
    path = Path(install.bindir, program)
    try:
        if user is not None:
            changed_ns = Path(install.bindir, "postgres").stat().st_mtime_ns
            path = Path(_where_it_runs(install, changed_ns, user).bindir, program)
        return subprocess.run(
            [str(path), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
            cwd="/", env=child_environment(), **running_as(user),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise InstallError(f'could not run "{path}": {error}') from error


@functools.lru_cache(maxsize=64)
def _where_it_runs(install: Install, changed_ns: int, user: ServerUser) -> Install:
    # The time of change is in the key so that an upgrade under a long-lived process is noticed.
    return reachable_install(install, user)


def _obstacle(install: Install, user: ServerUser) -> str | None:
    """Why ``user`` cannot run this install, in the system's words; None if nothing is in the way."""
    needed = [prefix(install) / name for name in _NEEDED]
    if not _all_reachable([path for path in needed if path.exists()], user):
        return "Permission denied"
    for program in ("postgres", "initdb"):
        # Running it is the only check that knows of the libraries that it loads.
        command = [str(Path(install.bindir, program)), "--version"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, cwd="/", env=child_environment(), **running_as(user)
            )
        except OSError as error:
            return error.strerror or str(error)
        if done.returncode != 0:
            return done.stderr.strip() or f"{program} --version ended with {done.returncode}"
    return None


def _all_reachable(paths: list[Path], user: ServerUser | None) -> bool:
    # `test` run as that user tells the truth. A file is meant to be run if its owner may run it.
    checks = ""
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError:
            return False
        flags = "rx" if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else "r"
        checks += "".join(f"test -{flag} {shlex.quote(str(path.absolute()))} && " for flag in flags)
    command = ["/bin/sh", "-c", checks + "true"]
    return subprocess.run(command, cwd="/", env=child_environment(), **running_as(user)).returncode == 0


def _key(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:12]


def copy_install(source: Path, programs: str, target: Path) -> None:
    """Copy what PostgreSQL has in the prefix ``source``, whose programs lie in the folder of that name. What
    else is in it may be private. Raises OSError."""
    for folder, names in (
        (programs, _PROGRAMS),
        ("lib", _LIBRARIES),
        ("lib64", _LIBRARIES),
        ("share", _SHARED),
    ):
        for path in {path for name in names for path in (source / folder).glob(name)}:
            place = target / folder / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir() and not path.is_symlink():
                shutil.copytree(path, place, symlinks=True)
            else:
                # A program may be a link to one of another name; a library's other names are here, too.
                shutil.copy2(path, place, follow_symlinks=folder == programs)


def _copy_once(source: Path, programs: str, copy: Path) -> None:
    """Copy the install in the prefix ``source`` to ``copy``, whole or not at all. Two processes that do so at
    once end with one copy."""
    package = source.parent
    beside = (Path(f"{package}.libs"), package / ".dylibs")
    work = Path(tempfile.mkdtemp(prefix=copy.name + ".", suffix=_UNFINISHED, dir=copy.parent))
    try:
        tree = work / "tree"
        copy_install(source, programs, tree / package.name / source.name)
        for libraries in beside:
            if libraries.is_dir():
                shutil.copytree(libraries, tree / libraries.relative_to(package.parent), symlinks=True)
        open_to_all(tree)
        rename_whole(tree, copy)
    except OSError as error:
        # Another process may have been faster (ENOTEMPTY, from rename); its copy is as good.
        if not copy.exists():
            raise InstallError(
                f'could not copy "{source}" to "{copy}": {error.strerror or error}',
                hint="Set WALPROOF_CACHE to a folder with enough room.",
            ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def open_to_all(folder: Path) -> None:
    """``chmod -R a+rX``: everyone may read every file, and run what its owner may run."""
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            continue
        mode = path.stat().st_mode
        execute = 0o555 if path.is_dir() or mode & stat.S_IXUSR else 0o444
        path.chmod(stat.S_IMODE(mode) | execute)

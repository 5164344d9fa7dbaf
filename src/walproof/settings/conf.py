"""Read a single postgresql.conf as the server does (src/backend/utils/misc/guc-file.l).

The last line for a name counts. ``include`` directives are refused: the files may be anywhere.
"""

from __future__ import annotations

import re
from pathlib import Path

from walproof.errors import SettingError

_LINE = re.compile(
    r"\s*(?P<name>[A-Za-z_\x80-\U0010ffff][\w$.]*)(?:\s*=\s*|\s+)"
    r"(?P<value>(?!=)(?:'(?:[^'\\\n]|\\.|'')*'|[^\s'#]+))\s*(?:#.*)?"
)
AS_ONE_FILE = (
    "SELECT name || ' = ' || quote_literal(current_setting(name)) FROM pg_settings "
    "WHERE source = 'configuration file'"
)
"""Query that makes a server return the lines of all its files as one file."""
_IGNORED = re.compile(r"\s*(?:#.*)?")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def read_conf(path: Path) -> dict[str, str]:
    """Name in lower case -> value. Raises SettingError that names the line that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingError(f'could not read configuration file "{path}": {reason}') from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if _IGNORED.fullmatch(line):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise SettingError(
                f'syntax error in file "{path}" line {number}', detail=f"The line: {line.strip()}"
            )
        name = match["name"].lower()
        if name in ("include", "include_dir", "include_if_exists"):
            raise SettingError(
                f'file "{path}" line {number} includes another file',
                hint=f"Give a single file with everything, as this query returns it: {AS_ONE_FILE}.",
            )
        found[name] = _unquoted(match["value"])
    return found


def _unquoted(value: str) -> str:
    if not value.startswith("'"):
        return value
    inner = value[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), inner)

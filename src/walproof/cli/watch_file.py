"""``watch.toml``: servers with their names and limits. Every mistake is named by file, line and key.

    every = "2s"
    listen = "127.0.0.1:8433"

    [[server]]
    name = "orders"
    service = "db1"
    recovery_target = "60s"
    wal_disk = "200GB"

No value of ``dsn`` is ever repeated: it may hold a password.
"""

from __future__ import annotations

import difflib
import stat
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from walproof.errors import SettingError, UnitError, WalproofError
from walproof.files import expanded
from walproof.sentences import say_count
from walproof.settings.conninfo import parse
from walproof.units import parse_bytes, parse_duration_s

_SECRETS = ("dsn",)


def _duration(value: object) -> float:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise ValueError('expected a duration such as "60s" or "4h"')  # noqa: TRY004 - for pydantic
    try:
        seconds = parse_duration_s(value)
    except UnitError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    if seconds <= 0:
        raise ValueError("a duration has to be above zero")
    return seconds


def _size(value: object) -> int:
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ValueError('expected a size such as "200GB"')  # noqa: TRY004 - for pydantic
    try:
        size = parse_bytes(str(value))
    except UnitError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    if size <= 0:
        raise ValueError("a size has to be above zero")
    return size


Duration = Annotated[float, BeforeValidator(_duration)]
Size = Annotated[int, BeforeValidator(_size)]


class WatchFileTable(BaseModel):
    """Keys of both the whole file and each server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recovery_target: Duration | None = None
    wal_disk: Size | None = None
    stream: bool | None = None
    max_rate: Size | None = None
    calibration: Path | None = None


class WatchedServerTable(WatchFileTable):
    """``[[server]]``."""

    name: Annotated[str, Field(min_length=1)] | None = None
    dsn: str | None = None
    service: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> WatchedServerTable:
        if (self.dsn is None) == (self.service is None):
            raise ValueError('a server has either "service" or "dsn"')
        try:
            parse(self.conninfo)
        except WalproofError as error:
            raise ValueError(error.message) from None
        return self

    @property
    def conninfo(self) -> str:
        """For libpq."""
        if self.dsn is not None:
            return self.dsn
        assert self.service is not None
        escaped = self.service.replace("\\", r"\\").replace("'", r"\'")
        return f"service='{escaped}'"


class WatchFile(WatchFileTable):
    """The whole file."""

    every: Duration | None = None
    full_warning: Duration | None = None
    full_critical: Duration | None = None
    lag_warning: Duration | None = None
    lag_critical: Duration | None = None
    listen: str | None = None
    web: str | None = None
    max_retained: Size | None = None
    history: Path | None = None
    keep: Duration | None = None
    history_max: Size | None = None
    server: tuple[WatchedServerTable, ...] = ()


def read_watch_file(path: Path) -> WatchFile:
    """Relative paths in it begin at its folder. Raises SettingError with every mistake."""
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingError(f'could not read "{path}": {reason}') from None
    try:
        data = tomllib.loads(text)
        found = WatchFile.model_validate(data)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f'"{path}" is not valid TOML', detail=str(error)) from None
    except ValidationError as error:
        raise _mistakes(path, text, error) from None
    names = [table.name for table in found.server if table.name is not None]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingError(f'"{path}" has several servers named "{twice[0]}"')
    if mode & (stat.S_IRGRP | stat.S_IROTH) and any(
        "password" in parse(table.conninfo) for table in found.server
    ):
        raise SettingError(
            f'"{path}" holds a password, and others may read it',
            hint=f"chmod 600 {path}, or better: put the password into ~/.pgpass.",
        )
    return _at(found, path.absolute().parent)


def _at(found: WatchFile, folder: Path) -> WatchFile:
    def placed(path: Path | None) -> Path | None:
        return None if path is None else folder / expanded(path)

    servers = tuple(
        table.model_copy(update={"calibration": placed(table.calibration)}) for table in found.server
    )
    return found.model_copy(
        update={
            "server": servers,
            "calibration": placed(found.calibration),
            "history": placed(found.history),
        }
    )


def _mistakes(path: Path, text: str, error: ValidationError) -> SettingError:
    from walproof.lab.reading import line_of

    lines, hints = [], []
    for mistake in error.errors(include_url=False):
        loc = mistake["loc"]
        line = line_of(text, loc)
        place = f"{path}:{line}" if line else str(path)
        lines.append(f"{place}: {_key(loc)}: {_complaint(dict(mistake))}")
        if mistake["type"] == "extra_forbidden":
            hints.append(_hint(str(loc[-1]), "server" if len(loc) > 1 else "file"))
    return SettingError(
        f'"{path}" has {say_count(len(lines), "mistake")}',
        detail="\n".join(lines),
        hint=hints[0] if hints else 'docs/watch.md has all keys under "watch.toml".',
    )


def _hint(key: str, where: Literal["server", "file"]) -> str:
    here, other = (WatchedServerTable, WatchFile) if where == "server" else (WatchFile, WatchedServerTable)
    if key == "password":
        return "A password belongs in ~/.pgpass or in a service file."
    if key in other.model_fields:
        return (
            f'"{key}" belongs above the first [[server]].' if where == "server"
            else f'"{key}" belongs to a server, below its [[server]].'
        )  # fmt: skip
    known = sorted(here.model_fields)
    near = difflib.get_close_matches(key, known, 1)
    return f'Is "{near[0]}" meant?' if near else f"Keys here are {', '.join(known)}."


def _key(loc: tuple[int | str, ...]) -> str:
    text = ""
    for part in loc:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the file"


def _complaint(error: dict[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "no such key"
    message = str(error["msg"]).removeprefix("Value error, ")
    got, is_secret = error.get("input"), any(part in _SECRETS for part in error["loc"])
    is_plain = isinstance(got, (str, int, float)) and not is_secret
    return f"{message}, got {got!r}" if is_plain else message

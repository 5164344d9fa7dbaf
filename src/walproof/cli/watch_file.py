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
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from walproof.cli.options import WITHOUT_UNIT_LEAST
from walproof.errors import SettingError, UnitError, WalproofError
from walproof.files import expanded
from walproof.sentences import say_count
from walproof.settings.conninfo import parse
from walproof.tomlfile import complaint, read_toml, seconds_of, told
from walproof.units import parse_bytes

_SECRETS = ("dsn",)


def _size(value: object) -> int:
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ValueError('expected a size such as "200GB"')  # noqa: TRY004 - for pydantic
    try:
        size = parse_bytes(str(value))
    except UnitError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    if size <= 0:
        raise ValueError("a size has to be above zero")
    if str(value).strip().isdigit() and size < WITHOUT_UNIT_LEAST:
        raise ValueError(f'{value} has no unit, so it would be bytes: expected a size such as "200GB"')
    return size


Duration = Annotated[float, BeforeValidator(partial(seconds_of, above_zero=True))]
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
    text, data = read_toml(path, f'"{path}"', SettingError)
    try:
        found = WatchFile.model_validate(data)
    except ValidationError as error:
        raise _mistakes(path, text, error) from None
    names = [table.name for table in found.server if table.name is not None]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingError(f'"{path}" has several servers named "{twice[0]}"')
    has_password = any("password" in parse(table.conninfo) for table in found.server)
    if has_password and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
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
    problems: list[dict[str, Any]] = [dict(problem) for problem in error.errors()]
    hints = [
        _hint(str(problem["loc"][-1]), "server" if len(problem["loc"]) > 1 else "file")
        for problem in problems
        if problem["type"] == "extra_forbidden"
    ]
    return SettingError(
        f'"{path}" has {say_count(len(problems), "mistake")}',
        detail=told(str(path), text, [(each["loc"], complaint(each, _SECRETS)) for each in problems]),
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

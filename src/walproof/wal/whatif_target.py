"""Makes the server that what-if simulates from settings given as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from walproof.errors import SettingError
from walproof.settings.catalogue import Catalogue
from walproof.settings.value import parse
from walproof.wal.whatif import COMPRESSIONS, Compression, Target, default_completion_target

HINT_SETTINGS = ("data_checksums", "wal_log_hints")
"""With either of these, setting a hint bit writes WAL (XLogHintBitIsNeeded)."""
SETTINGS = (
    "max_wal_size", "checkpoint_timeout", "checkpoint_completion_target", "min_wal_size", "full_page_writes",
    "wal_compression", *HINT_SETTINGS,
)  # fmt: skip

_Values = Mapping[str, bool | float | str]


def target_of(
    version: int,
    segment_size: int,
    presents: Sequence[Mapping[str, str]],
    asked: Mapping[str, str] | None = None,
) -> Target:
    """The server of that version with the recording's settings, later ones first, and with the settings asked
    for. Raises SettingError."""
    catalogue = Catalogue.for_version(version * 10000)
    target = Target(
        checkpoint_completion_target=default_completion_target(version),
        min_wal_size_mb=5 * (segment_size >> 20),
    )
    known: dict[str, bool | float | str] = {}
    for settings in presents:
        values = _values(catalogue, settings)
        target = _with(target, values, segment_size)
        known |= values
    if asked is None:
        return target
    values = _values(catalogue, asked)
    target = _with(target, values, segment_size)
    if not any(name in values for name in HINT_SETTINGS):
        return target
    return replace(target, hint_records=_hint_records({**known, **values}))


def methods_of(version: int) -> tuple[Compression, ...]:
    """The values of wal_compression that servers of that version take, as methods."""
    setting = Catalogue.for_version(version * 10000).get("wal_compression")
    known = setting.values or ("off", "pglz")  # a boolean before 15
    return tuple(method for method in COMPRESSIONS if method in known)


def asks_for_hint_records(version: int, settings: Mapping[str, str]) -> bool:
    """Whether the server asked for logs hint bits."""
    catalogue = Catalogue.for_version(version * 10000)
    return any(name in settings and parse(catalogue.get(name), settings[name]) for name in HINT_SETTINGS)


def _values(catalogue: Catalogue, settings: Mapping[str, str]) -> dict[str, bool | float | str]:
    values = {}
    for name, text in settings.items():
        setting = catalogue.get(name)
        if setting.name not in SETTINGS:
            raise SettingError(
                f'what-if says nothing of "{setting.name}"', hint=f"It knows {', '.join(SETTINGS)}."
            )
        if setting.name != "data_checksums":  # which a server cannot change, but a simulation can
            catalogue.check(setting.name, text)
        values[setting.name] = parse(setting, text)
    return values


def _hint_records(values: _Values) -> bool:
    """Whether hint bits are logged. ``values`` include at least one of the two settings."""
    if any(values.get(name) for name in HINT_SETTINGS):
        return True
    for name in HINT_SETTINGS:
        if name not in values:
            raise SettingError(
                f'whether "{name}" is on is not known',
                detail="Hint bits are logged with data_checksums as well as with wal_log_hints.",
                hint=f"--set {','.join(f'{name}=off' for name in HINT_SETTINGS)} turns both off.",
            )
    return False


def _with(target: Target, values: _Values, segment_size: int) -> Target:
    changes: dict[str, object] = {}
    for name, value in values.items():
        match name:
            case "max_wal_size" | "min_wal_size":
                least = 2 * (segment_size >> 20)
                if int(value) < least:
                    # As the server says at its start (src/backend/access/transam/xlog.c, ReadControlFile).
                    raise SettingError(
                        f'"{name}" must be at least twice "wal_segment_size"',
                        detail=f"Segments of {segment_size >> 20} MB, {value} MB given.",
                    )
                changes[f"{name}_mb"] = int(value)
            case "checkpoint_timeout":
                changes["checkpoint_timeout_s"] = int(value)
            case "checkpoint_completion_target":
                changes[name] = float(value)
            case "full_page_writes":
                changes[name] = bool(value)
            case "data_checksums" | "wal_log_hints":
                pass
            case "wal_compression" if value == "on":
                raise SettingError(
                    "what wal_compression=on means is up to the build from PostgreSQL 19 on",
                    detail="It is zstd where the build has it, else lz4, else pglz.",
                    hint="Name the method; SHOW wal_compression says it on a server that has it on.",
                )
            case _:
                # A boolean before 15.
                changes[name] = ("pglz" if value else "off") if isinstance(value, bool) else value
    return replace(target, **changes)  # type: ignore[arg-type]

"""Values of settings, read exactly as the server reads them (src/backend/utils/misc/guc.c, bool.c).

A value is text; what it means depends on the setting's type and unit. ``parse`` gives the value in the
setting's own unit, ``canonical`` a text in which equal values look the same. Only the parser's rules are
here: a check hook of the server (does this library exist? is this time zone known?) can still refuse a value.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from walproof.errors import SettingError

_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_LONG_MAX = 2**63 - 1

# In microseconds and bytes; the order is guc.c's, largest first.
_TIME = {"d": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1}
_MEMORY = {"TB": 1024**4, "GB": 1024**3, "MB": 1024**2, "kB": 1024, "B": 1}
_MEMORY_HINT = 'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".'
_TIME_HINT = 'Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".'

# What C's strtol (base 0) and strtod take from the beginning of a text.
_STRTOL = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_STRTOD = re.compile(
    r"[ \t\n\v\f\r]*([+-]?(?:"
    r"(?P<hex>0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?)"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan))",
    re.IGNORECASE | re.ASCII,
)
_SMALLEST_NORMAL = sys.float_info.min
_SPACE = " \t\n\v\f\r"

_BOOL_WORDS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}


class Context(Enum):
    """When a change of a setting takes effect, in words."""

    SESSION = "session"
    SUPERUSER_SESSION = "session (superuser)"
    CONNECTION = "new connection"
    RELOAD = "reload"
    RESTART = "restart"
    INTERNAL = "initdb or build"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as one range of major versions defines it."""

    name: str
    vartype: str
    """``bool``, ``integer``, ``real``, ``string`` or ``enum``."""
    unit: str | None
    """The unit that a bare number has: ``ms``, ``MB``, ``8kB``, ..."""
    context: Context
    minimum: float | None
    maximum: float | None
    """Range in the setting's unit; None unless it is a number."""
    boot: str
    """The compiled-in default in the setting's unit, empty where initdb or the build decides."""
    values: tuple[str, ...]
    """What an enum takes; with ``build_values``, whether or not this build has them."""
    synonyms: Mapping[str, str]
    """Further words, and words that mean the same as others (wal_compression before 19: on -> pglz).

    Where the build decides what a word means (from 19: on is zstd, else lz4, else pglz), it means itself.
    """
    build_values: frozenset[str]
    """The values that only some builds or platforms have."""
    since: int
    until: int
    """First and last major version with this definition, among those in the catalogue."""


def parse(setting: Setting, value: str) -> bool | int | float | str:
    """The value that the server would hold: a number in the setting's unit, an enum's canonical word.

    Raises SettingError, in the server's words where it has some.
    """
    if re.search(r"[\n\r\0]", value):
        raise _invalid(setting, value, "A value cannot contain a line break.")
    if setting.vartype == "bool":
        return _parse_bool(setting, value)
    if setting.vartype == "enum":
        return _parse_enum(setting, value)
    if setting.vartype == "integer":
        number = _parse_integer(setting, value)
        _check_range(setting, value, number)
        return number
    if setting.vartype == "real":
        real = _parse_real(setting, value)
        _check_range(setting, value, real)
        return real
    return value


def canonical(setting: Setting, value: str) -> str:
    """``value`` in a form that is the same for equal values: ``4GB`` and ``4096MB`` are ``4096MB``.

    Raises SettingError.
    """
    parsed = parse(setting, value)
    if isinstance(parsed, bool):
        return "on" if parsed else "off"
    if isinstance(parsed, str):
        return parsed
    return _with_unit(setting, parsed, "")


def _parse_bool(setting: Setting, value: str) -> bool:
    word = value.lower()
    if word in ("1", "0"):
        return word == "1"
    # A unique prefix is enough; "o" alone could be on or off.
    meanings = {meaning for name, meaning in _BOOL_WORDS.items() if word and name.startswith(word)}
    if len(meanings) != 1:
        raise SettingError(
            f'parameter "{setting.name}" requires a Boolean value',
            detail=f'got "{value}"',
            hint="Boolean values are on, off, true, false, yes, no, 1 and 0.",
        )
    return meanings.pop()


def _parse_enum(setting: Setting, value: str) -> str:
    word = value.lower()
    for known, meaning in setting.synonyms.items():
        if known.lower() == word:
            return meaning
    for known in setting.values:
        if known.lower() == word:
            return known
    raise _invalid(setting, value, f"Available values: {', '.join(setting.values)}.")


def _parse_integer(setting: Setting, value: str) -> int:
    match = _STRTOL.match(value)
    rest = value[match.end() :] if match else value.lstrip(_SPACE)
    whole = _whole_number(match[1], match[2].lower()) if match else None
    number = float(whole or 0)
    if whole is None or rest[:1] in (".", "e", "E"):
        # The server gets here also if the integer part is missing (".5"), but not for words ("inf").
        if match is None and not re.match(r"[+-]?\.", rest):
            raise _invalid(setting, value, None)
        number, rest = _read_float(setting, value)
    number = _in_own_unit(setting, value, number, rest)
    if not _INT_MIN <= _rint(number) <= _INT_MAX:
        raise _invalid(setting, value, "Value exceeds integer range.")
    return int(_rint(number))


def _whole_number(sign: str, digits: str) -> int | None:
    """strtol with base 0: C's prefixes choose the base, so 010 is eight. None when it does not fit a long."""
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    if len(digits.lstrip("0x")) > len(oct(_LONG_MAX)):
        # Python refuses to convert thousands of decimal digits.
        return None
    whole = int(digits, base)
    return None if whole > _LONG_MAX else -whole if sign == "-" else whole


def _parse_real(setting: Setting, value: str) -> float:
    number, rest = _read_float(setting, value)
    return _in_own_unit(setting, value, number, rest)


def _read_float(setting: Setting, value: str) -> tuple[float, str]:
    """strtod: the number that ``value`` begins with, and what follows. Infinity is for the range check."""
    match = _STRTOD.match(value)
    if match is None:
        raise _invalid(setting, value, None)
    try:
        number = float.fromhex(match[1]) if match["hex"] else float(match[1])
    except OverflowError as error:
        raise _invalid(setting, value, None) from error
    # C reports overflow and underflow (ERANGE) where Python returns infinity and zero.
    digits = re.split("[ep]", match[1], flags=re.IGNORECASE)[0]
    overflow = math.isinf(number) and "inf" not in match[1].lower()
    underflow = abs(number) < _SMALLEST_NORMAL and re.search("[1-9a-f]", digits) is not None
    if math.isnan(number) or overflow or underflow:
        raise _invalid(setting, value, None)
    return number, value[match.end() :]


def _in_own_unit(setting: Setting, value: str, number: float, rest: str) -> float:
    """``number`` followed by ``rest`` (spaces, a unit, spaces) in the setting's own unit."""
    word = rest.strip(_SPACE)
    if not word:
        return number
    if setting.unit is None:
        raise _invalid(setting, value, "This parameter is a plain number: it takes no unit.")
    base, units = _unit_of(setting.unit)
    if word not in units:
        raise _invalid(setting, value, _MEMORY_HINT if units is _MEMORY else _TIME_HINT)
    converted = number * (units[word] / base)
    smaller = list(units.values())
    below = smaller.index(units[word]) + 1
    if below < len(smaller):
        # guc.c: 30.1GB is rounded to whole MB, not to the setting's unit.
        step = smaller[below] / base
        if math.isfinite(converted / step):
            converted = _rint(converted / step) * step
    return converted


def _unit_of(unit: str) -> tuple[int, dict[str, int]]:
    match = re.fullmatch(r"(\d*)([A-Za-z]+)", unit)
    assert match is not None, unit
    units = _MEMORY if match[2] in _MEMORY else _TIME
    return int(match[1] or 1) * units[match[2]], units


def _rint(number: float) -> float:
    return float(round(number)) if math.isfinite(number) else number


def _check_range(setting: Setting, value: str, number: float) -> None:
    assert setting.minimum is not None
    assert setting.maximum is not None
    if not setting.minimum <= number <= setting.maximum:
        low, high = (_with_unit(setting, bound, " ") for bound in (setting.minimum, setting.maximum))
        raise SettingError(
            f"{_with_unit(setting, number, ' ')} is outside the valid range "
            f'for parameter "{setting.name}" ({low} .. {high})',
            detail=f'got "{value}"',
        )


def _with_unit(setting: Setting, number: float, space: str) -> str:
    unit = setting.unit or ""
    # 16 of a unit such as 8kB is 128 kB to a person; -1 (automatic, or no limit) and 0 are the same in any.
    factor, word = re.fullmatch(r"(\d*)(.*)", unit).groups()  # type: ignore[union-attr]
    if number > 0:
        number *= int(factor or 1)
    text = str(int(number)) if setting.vartype == "integer" else f"{number:g}" if space else repr(number)
    return f"{text}{space}{word}" if word and (space or number > 0) else text


def _invalid(setting: Setting, value: str, hint: str | None) -> SettingError:
    return SettingError(f'invalid value for parameter "{setting.name}": "{value}"', hint=hint)

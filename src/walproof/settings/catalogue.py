"""Every setting of every supported version: does it exist, and does it take this value?

The table, ``catalogue.csv``, is made from pg_settings of real servers by bench/read_catalogue.py and is read
when it is first asked for.
"""

from __future__ import annotations

import csv
import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from walproof.errors import SettingError
from walproof.settings.ownership import FIXED, OWNED
from walproof.settings.value import Context, Setting, canonical, parse

_TABLE = Path(__file__).with_name("catalogue.csv")

_CONTEXTS = {
    "user": Context.SESSION,
    "superuser": Context.SUPERUSER_SESSION,
    "backend": Context.CONNECTION,
    "superuser-backend": Context.CONNECTION,
    "sighup": Context.RELOAD,
    "postmaster": Context.RESTART,
    "internal": Context.INTERNAL,
}

# Names in older advice, and the settings that replaced them (release notes of 9.5, 13, 16, 18 and 19).
_RENAMED = {
    "checkpoint_segments": "max_wal_size",
    "wal_keep_segments": "wal_keep_size",
    "force_parallel_mode": "debug_parallel_query",
    "io_workers": "io_max_workers",
    "ssl_ecdh_curve": "ssl_groups",
    "sort_mem": "work_mem",
    "vacuum_mem": "maintenance_work_mem",
}

# Of these PostgreSQL still takes the old name (guc.c, map_old_guc_names).
_STILL_TAKEN = frozenset({"ssl_ecdh_curve", "sort_mem", "vacuum_mem"})

# They take any text, and the server makes no command, library or file of it.
_WORDS_ALONE = frozenset(
    {"DateStyle", "debug_io_direct", "synchronous_standby_names", "wal_consistency_checking"}
)

# A setting of an extension, which only the extension can check (guc.c, valid_custom_variable_name). A byte
# that is not UTF-8 stands as its escape (`conf.read_conf`).
_PART = r"(?:[A-Za-z_\x80-\U0010ffff]|\\x[89a-f][0-9a-f])(?:[\w$\x80-\U0010ffff]|\\x[89a-f][0-9a-f])*"
_CUSTOM = re.compile(rf"{_PART}(?:\.{_PART})+")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The settings of one major version."""

    version: int
    """Major version. A version newer than the table's newest is treated as the newest."""
    settings: Mapping[str, Setting] = field(repr=False)
    """By lower-case name: PostgreSQL ignores the case of names."""

    @staticmethod
    def for_version(version_num: int) -> Catalogue:
        """The settings of that server (``server_version_num``: 180003). Raises SettingError below 13."""
        return _of_major(version_num // 10000)

    def get(self, name: str) -> Setting:
        """The setting of that name, which may be an old one that PostgreSQL still takes. Raises SettingError,
        with similar names or the versions that have it."""
        key = name.lower()
        if key in _STILL_TAKEN and key not in self.settings:
            key = _RENAMED[key]
        setting = self.settings.get(key)
        if setting is None:
            raise self._unknown(name)
        return setting

    def normalise(self, name: str, value: str) -> str:
        """``value`` in a form that is the same for equal values; unchanged for an extension's setting.

        Raises SettingError.
        """
        return value if is_custom(name) else canonical(self.get(name), value)

    def check(self, name: str, value: str) -> None:
        """Raise SettingError unless a study may set ``name`` to ``value``."""
        if is_custom(name):
            return
        setting = self.get(name)
        if setting.name in OWNED:
            raise SettingError(
                f'parameter "{setting.name}" is set by walproof itself', detail=f"{OWNED[setting.name]}."
            )
        if setting.context is Context.INTERNAL:
            raise SettingError(
                f'parameter "{setting.name}" cannot be changed',
                hint=FIXED.get(setting.name, "It shows how the server was built or initialised."),
            )
        self.check_value(setting, value)

    def names_nothing(self, name: str, value: str) -> bool:
        """Whether a study may set ``name`` to ``value``, and the value names no command, library or file: it
        is a number, a switch or a word of a list."""
        try:
            self.check(name, value)
            setting = self.get(name)
        except SettingError:
            return False
        return setting.vartype != "string" or setting.name in _WORDS_ALONE

    def check_value(self, setting: Setting, value: str) -> None:
        """Raise SettingError unless the setting takes the value; the hint says which versions do."""
        try:
            parse(setting, value)
        except SettingError as error:
            error.hint = " ".join(filter(None, (error.hint, self._elsewhere(setting, value)))) or None
            raise

    def _unknown(self, name: str) -> SettingError:
        definitions = _table().get(name.lower())
        hints = []
        if definitions:
            since, until = definitions[0].since, definitions[-1].until
            message = f'parameter "{definitions[0].name}" does not exist in PostgreSQL {self.version}'
            detail = (
                f"it exists from PostgreSQL {since}"
                if self.version < since
                else f"it existed until PostgreSQL {until}"
            )
        else:
            message, detail = f'unrecognized configuration parameter "{name}"', None
        renamed = _RENAMED.get(name.lower())
        if renamed in self.settings:
            hints.append(f"{renamed} replaced it.")
        elif not definitions:
            near = difflib.get_close_matches(name.lower(), self.settings, n=3, cutoff=0.7)
            if near:
                hints.append(f"Did you mean {_or([self.settings[key].name for key in near])}?")
            else:
                hints += _in_other_versions(name)
        return SettingError(message, detail=detail, hint=" ".join(hints) or None)

    def _elsewhere(self, setting: Setting, value: str) -> str | None:
        """A sentence on the other versions that accept a value that this version refuses."""
        takers = []
        for other in _table()[setting.name.lower()]:
            try:
                parse(other, value)
            except SettingError:
                continue
            takers.append(other)
        if not takers:
            return None
        if takers[0].since > self.version:
            return f"PostgreSQL {takers[0].since} and newer take this value."
        return f"PostgreSQL {takers[-1].until} and older take this value."


def normalise(name: str, value: str) -> str:
    """As ``Catalogue.normalise``, by the newest version that has the setting. Raises SettingError."""
    definitions = _table().get(name.lower())
    if is_custom(name) or definitions is None:
        return Catalogue.for_version(_newest() * 10000).normalise(name, value)
    return canonical(definitions[-1], value)


def as_shown(settings: Mapping[str, str]) -> dict[str, str]:
    """``settings`` with the names and words that SHOW prints: a boolean is ``on`` or ``off`` however it was
    typed, an enum one of its words. Numbers and texts stay as they are, and so does what cannot be read.
    """
    found = {}
    for name, value in settings.items():
        definition = _table().get(name.lower(), (None,))[-1]
        if definition is None:
            found[name] = value
        else:
            found[definition.name] = _word(definition, value)
    return found


def _word(setting: Setting, value: str) -> str:
    if setting.vartype not in ("bool", "enum"):
        return value
    try:
        return canonical(setting, value)
    except SettingError:
        return value  # an older version's word


def is_custom(name: str) -> bool:
    """Whether the name is an extension's (``pg_stat_statements.max``). Such names are accepted unchecked."""
    return _CUSTOM.fullmatch(name) is not None


@functools.cache
def _of_major(major: int) -> Catalogue:
    newest = _newest()
    found = {
        key: setting
        for key, definitions in _table().items()
        for setting in definitions
        if setting.since <= min(major, newest) <= setting.until
    }
    if not found:
        raise SettingError(
            f"the settings of PostgreSQL {major} are not known", detail=f"known versions: 13 to {newest}"
        )
    return Catalogue(major, found)


def _newest() -> int:
    return max(definitions[-1].until for definitions in _table().values())


@functools.cache
def _table() -> dict[str, tuple[Setting, ...]]:
    """Lower-case name -> definitions, oldest first."""
    table: dict[str, tuple[Setting, ...]] = {}
    with _TABLE.open(newline="", encoding="utf-8") as file:
        for setting in _read(csv.DictReader(file)):
            key = setting.name.lower()
            table[key] = (*table.get(key, ()), setting)
    return table


def _read(rows: csv.DictReader[str]) -> Iterator[Setting]:
    for row in rows:
        yield Setting(
            name=row["name"],
            vartype=row["vartype"],
            unit=row["unit"] or None,
            context=_CONTEXTS[row["context"]],
            minimum=float(row["min"]) if row["min"] else None,
            maximum=float(row["max"]) if row["max"] else None,
            boot=row["boot"],
            # An enum may list the empty word first (ssl_max_protocol_version).
            values=tuple(row["values"].split("|")) if row["vartype"] == "enum" else (),
            synonyms=dict(_pair(item) for item in row["synonyms"].split("|") if item),
            build_values=frozenset(filter(None, row["build_values"].split("|"))),
            since=int(row["since"]),
            until=int(row["until"]),
        )


def _pair(item: str) -> tuple[str, str]:
    word, _, meaning = item.partition("=")
    return word, meaning


def _in_other_versions(name: str) -> list[str]:
    near = difflib.get_close_matches(name.lower(), _table(), n=1, cutoff=0.7)
    if not near:
        return []
    definitions = _table()[near[0]]
    since, until = definitions[0].since, definitions[-1].until
    return [f"The similar {definitions[0].name} exists in PostgreSQL {since} to {until}."]


def _or(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]

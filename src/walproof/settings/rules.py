"""How settings affect each other: which ones they require or exclude, and when they do nothing.

Each rule is a function of a configuration, so that a table can be tested row by row. Values are compared
after they have been normalised, and a setting that is not given has its boot value. Values are assumed to be
readable: call ``Catalogue.check`` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from walproof.settings.catalogue import Catalogue
from walproof.settings.value import parse

DEFAULT_WAL_SEGMENT_BYTES = 16 * 1024**2
_MB = 1024**2
_PGLZ_HAS_A_NAME = 150000


@dataclass(frozen=True, slots=True)
class _Configuration:
    catalogue: Catalogue
    given: Mapping[str, str]
    wal_segment_bytes: int

    def value(self, name: str) -> bool | int | float | str | None:
        """The value that the server would hold; None if this version has no such setting."""
        setting = self.catalogue.settings.get(name)
        return None if setting is None else parse(setting, self.given.get(name, setting.boot))

    def number(self, name: str) -> float:
        """As ``value``, but zero if this version has no such setting."""
        value = self.value(name)
        return 0 if value is None or isinstance(value, str) else value


_Rule = Callable[[_Configuration], Iterator[str]]


def imply(settings: Mapping[str, str], version_num: int) -> dict[str, str]:
    """Further settings that a server needs to start with ``settings``. A given setting is included only if
    this version spells its value differently.

    Raises SettingError for values that cannot be read.
    """
    configuration = _configuration(settings, version_num)
    implied = {}
    if configuration.value("wal_level") == "minimal" and "max_wal_senders" not in configuration.given:
        # postmaster.c: WAL streaming requires "wal_level" to be "replica" or "logical".
        implied["max_wal_senders"] = "0"
    if version_num < _PGLZ_HAS_A_NAME and configuration.given.get("wal_compression") == "pglz":
        # Before 15 there was one method, and no name for it.
        implied["wal_compression"] = "on"
    return implied


def contradictions(
    settings: Mapping[str, str], version_num: int, *, wal_segment_bytes: int = DEFAULT_WAL_SEGMENT_BYTES
) -> list[str]:
    """Sentences on why a server would not start with ``settings`` and what they imply; empty if it would.

    ``wal_segment_bytes`` is initdb's choice. Raises SettingError for values that cannot be read.
    """
    complete = {**settings, **imply(settings, version_num)}
    configuration = _configuration(complete, version_num, wal_segment_bytes)
    return [sentence for rule in _CONTRADICTIONS for sentence in rule(configuration)]


def notes(
    settings: Mapping[str, str], version_num: int, *, has_synchronous_standby: bool = False
) -> list[str]:
    """Sentences on what in ``settings`` does nothing, or not what it seems to do.

    ``has_synchronous_standby``: commits wait for a standby that is there, whatever ``settings`` name.
    Raises SettingError for values that cannot be read.
    """
    configuration = _configuration(settings, version_num)
    rules = _NOTES if has_synchronous_standby else (*_NOTES_ON_STANDBYS, *_NOTES)
    return [sentence for rule in rules for sentence in rule(configuration)]


def _configuration(
    settings: Mapping[str, str], version_num: int, wal_segment_bytes: int = DEFAULT_WAL_SEGMENT_BYTES
) -> _Configuration:
    given = {name.lower(): value for name, value in settings.items()}
    return _Configuration(Catalogue.for_version(version_num), given, wal_segment_bytes)


def _minimal_wal(configuration: _Configuration) -> Iterator[str]:
    # postmaster.c, PostmasterMain.
    if configuration.value("wal_level") != "minimal":
        return
    if configuration.number("max_wal_senders") > 0:
        yield "wal_level=minimal excludes max_wal_senders > 0: a standby needs wal_level=replica."
    if configuration.value("archive_mode") != "off":
        yield "wal_level=minimal excludes archive_mode: an archive needs wal_level=replica."
    if configuration.value("summarize_wal"):
        yield "wal_level=minimal excludes summarize_wal=on: summaries need wal_level=replica."


def _small_wal(configuration: _Configuration) -> Iterator[str]:
    # xlog.c, ReadControlFile. Without a value of ours initdb writes one that suits the segment size.
    segment_mb = configuration.wal_segment_bytes // _MB
    for name in ("min_wal_size", "max_wal_size"):
        size_mb = int(configuration.number(name))
        if name in configuration.given and size_mb // segment_mb < 2:
            yield f"{name}={size_mb}MB is less than two WAL segments of {segment_mb} MB."


def _reserved_connections(configuration: _Configuration) -> Iterator[str]:
    # postmaster.c, PostmasterMain; reserved_connections came with 16.
    kept = configuration.number("superuser_reserved_connections")
    kept += configuration.number("reserved_connections")
    offered = configuration.number("max_connections")
    if kept >= offered:
        yield f"{kept:.0f} reserved connections leave none of max_connections={offered:.0f}."


def _remote_commit_alone(configuration: _Configuration) -> Iterator[str]:
    commit = configuration.value("synchronous_commit")
    if commit in ("remote_write", "remote_apply") and not configuration.value("synchronous_standby_names"):
        yield f"synchronous_commit={commit} without synchronous_standby_names waits for the local flush only."


def _absent_standby(configuration: _Configuration) -> Iterator[str]:
    waits = configuration.value("synchronous_commit") not in ("off", "local")
    if waits and configuration.value("synchronous_standby_names"):
        yield (
            "With synchronous_standby_names each commit waits for a standby, for ever if there is none; "
            "a cancel ends the wait, not the commit."
        )


def _commit_delay(configuration: _Configuration) -> Iterator[str]:
    delayed = configuration.number("commit_delay") > 0
    # xlog.c, XLogFlush: the leader sleeps only with fsync on; an asynchronous commit never gets there.
    if delayed and not configuration.value("fsync"):
        yield "commit_delay does nothing with fsync=off: there is no flush to share."
    elif delayed and configuration.value("synchronous_commit") == "off":
        yield "commit_delay does nothing with synchronous_commit=off: no commit waits for a flush."
    if "commit_siblings" in configuration.given and not delayed:
        yield "commit_siblings does nothing without commit_delay."


def _compression(configuration: _Configuration) -> Iterator[str]:
    compressed = configuration.value("wal_compression") not in (False, "off")
    if compressed and not configuration.value("full_page_writes"):
        yield "wal_compression does almost nothing with full_page_writes=off: it compresses page images only."


def _sync_method(configuration: _Configuration) -> Iterator[str]:
    if "wal_sync_method" in configuration.given and not configuration.value("fsync"):
        yield "wal_sync_method does nothing with fsync=off."


def _skip_threshold(configuration: _Configuration) -> Iterator[str]:
    if "wal_skip_threshold" in configuration.given and configuration.value("wal_level") != "minimal":
        yield "wal_skip_threshold does nothing unless wal_level=minimal."


def _io_workers(configuration: _Configuration) -> Iterator[str]:
    if "io_workers" in configuration.given and configuration.value("io_method") not in ("worker", None):
        yield "io_workers does nothing unless io_method=worker."


_CONTRADICTIONS: tuple[_Rule, ...] = (_minimal_wal, _small_wal, _reserved_connections)
_NOTES_ON_STANDBYS: tuple[_Rule, ...] = (_remote_commit_alone, _absent_standby)
_NOTES: tuple[_Rule, ...] = (
    _commit_delay,
    _compression,
    _sync_method,
    _skip_threshold,
    _io_workers,
)

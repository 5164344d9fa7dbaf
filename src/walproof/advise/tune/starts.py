"""Configurations that are tried first: the user's own, and pgtune's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from walproof.advise.tune.space import Takes
from walproof.errors import SettingError
from walproof.facts.tuning import Candidate, Factor
from walproof.settings.catalogue import Catalogue, is_custom
from walproof.settings.tuning import movables


@dataclass(frozen=True, slots=True)
class OwnConf:
    """The user's postgresql.conf, as far as a throw-away server can have it."""

    moved: Mapping[str, str]
    """Settings that the tuning may move; they form a start."""
    kept: Mapping[str, str]
    """Other settings, which every configuration has."""
    left_out: tuple[str, ...]
    """Sentences about lines that no throw-away server can have."""


def own_conf(conf: Mapping[str, str], version_num: int, takes: Takes) -> OwnConf:
    """Sort the lines of the conf by what becomes of them."""
    catalogue = Catalogue.for_version(version_num)
    moved: dict[str, str] = {}
    kept: dict[str, str] = {}
    left: list[str] = []
    for name, value in conf.items():
        if is_custom(name) or name in _OF_A_SERVER:
            left.append(f"{name}: a throw-away server is without it")
            continue
        try:
            catalogue.check(name, value)
        except SettingError as error:
            left.append(f"{name}: {error.message}")
            continue
        if not takes(name, value):
            left.append(f"{name}: this build of PostgreSQL does not take {value}")
        elif name in movables():
            moved[name] = value
        else:
            kept[name] = value
    return OwnConf(moved, kept, tuple(left))


# Settings of the server's location, network, standbys and archive, which do not bear on its speed.
_OF_A_SERVER = frozenset(
    {
        "shared_preload_libraries", "session_preload_libraries", "local_preload_libraries",
        "archive_mode", "archive_command", "archive_library", "restore_command", "synchronous_standby_names",
        "primary_conninfo", "primary_slot_name", "ssl", "ssl_cert_file", "ssl_key_file", "ssl_ca_file",
        "log_destination", "logging_collector", "log_directory", "log_filename", "log_line_prefix",
        "log_timezone", "timezone", "lc_messages", "lc_monetary", "lc_numeric", "lc_time",
        "default_text_search_config", "dynamic_library_path", "huge_pages", "unix_socket_permissions",
        "password_encryption", "cluster_name", "stats_temp_directory", "temp_tablespaces",
        "default_tablespace", "data_directory", "hba_file", "ident_file", "external_pid_file",
    }
)  # fmt: skip


def as_start(conf: Mapping[str, str], factors: tuple[Factor, ...], version_num: int) -> Candidate:
    """The lines of a conf that set a factor to something else than its default."""
    catalogue = Catalogue.for_version(version_num)
    found = {}
    for factor in factors:
        value = conf.get(factor.setting)
        if value is None:
            continue
        normal = catalogue.normalise(factor.setting, value)
        if normal == catalogue.normalise(factor.setting, factor.default):
            continue
        same = [c for c in factor.choices if catalogue.normalise(factor.setting, c) == normal]
        found[factor.setting] = same[0] if same else value
    return Candidate.of(found)

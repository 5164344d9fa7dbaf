"""Which lines of a server's postgresql.conf a throw-away server can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from walproof.errors import SettingError
from walproof.settings.catalogue import Catalogue, is_custom
from walproof.settings.ownership import OWNED

Takes = Callable[[str, str], bool]
"""Whether a build of PostgreSQL takes a setting (name, value)."""
NOT_ITS_OWN = "a throw-away server has none, or walproof's"
"""Why a line about a server's place, network, log, standbys or archive is left out."""


@dataclass(frozen=True, slots=True)
class UsableConf:
    """The lines of a conf, sorted."""

    settings: Mapping[str, str]
    left_out: Mapping[str, str]
    """Name of each other line -> why."""
    refused: Mapping[str, SettingError]
    """Those of them that PostgreSQL itself does not know or take."""


def usable(conf: Mapping[str, str], version_num: int, takes: Takes) -> UsableConf:
    """Sort the lines of a conf. ``takes`` is asked about lines that the version knows."""
    catalogue = Catalogue.for_version(version_num)
    found: dict[str, str] = {}
    left_out: dict[str, str] = {}
    refused: dict[str, SettingError] = {}
    for name, value in conf.items():
        if is_custom(name) or name in OWNED or name in _OF_A_SERVER:
            left_out[name] = NOT_ITS_OWN
            continue
        try:
            catalogue.check(name, value)
        except SettingError as error:
            left_out[name] = error.message
            refused[name] = error
            continue
        if takes(name, value):
            found[name] = value
        else:
            left_out[name] = f"this build of PostgreSQL does not take {value}"
            refused[name] = SettingError(left_out[name])
    return UsableConf(found, left_out, refused)


# Others, which do not bear on the speed of a server without libraries, standbys and archive.
_OF_A_SERVER = frozenset(
    {
        "shared_preload_libraries", "session_preload_libraries", "local_preload_libraries",
        "archive_mode", "archive_command", "archive_library", "restore_command", "synchronous_standby_names",
        "primary_conninfo", "primary_slot_name", "ssl_cert_file", "ssl_key_file", "ssl_ca_file",
        "timezone", "lc_monetary", "lc_numeric", "lc_time", "default_text_search_config",
        "dynamic_library_path", "huge_pages", "password_encryption", "stats_temp_directory",
        "temp_tablespaces", "default_tablespace",
    }
)  # fmt: skip

"""Settings that differ between servers of one cluster: streaming copies no settings, so a failover brings
those of the new primary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walproof.facts.server import ServerWindow

_OWN = (
    "port", "data_directory_mode", "unix_socket_permissions", "in_hot_standby", "hot_standby",
    "hot_standby_feedback", "transaction_read_only", "synchronous_standby_names",
)  # fmt: skip
"""What each server has for itself, or what says nothing after a failover."""
_OWN_BEGINNINGS = (
    "max_standby_", "recovery_target", "recovery_min_apply_delay", "recovery_end_command", "wal_receiver_",
    "wal_retrieve_", "primary_",
)  # fmt: skip
"""What only a standby uses, or a recovery from an archive."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A setting with several values in one cluster."""

    name: str
    values: Mapping[str, str]
    """Server -> value as SHOW prints it; servers that do not have the setting are left out."""


def drifts(cluster: Mapping[str, ServerWindow]) -> tuple[Drift, ...]:
    """The settings that differ between servers of one cluster, by name.

    ``cluster``: the servers' names and what was seen of them. Settings of a session, a role or a database are
    no server's; texts are not read but for a few.
    """
    names = sorted({name for window in cluster.values() for name in window.settings})
    found = []
    for name in names:
        if name in _OWN or name.startswith(_OWN_BEGINNINGS):
            continue
        seen = {
            server: window.settings[name] for server, window in cluster.items() if name in window.settings
        }
        if any(
            setting.context == "internal" or setting.is_of_session or setting.source == "override"
            for setting in seen.values()
        ):
            continue
        values = {server: setting.value for server, setting in seen.items()}
        if len(set(values.values())) > 1:
            found.append(Drift(name, values))
    return tuple(found)


def clusters(windows: Mapping[str, ServerWindow]) -> tuple[Mapping[str, ServerWindow], ...]:
    """Servers that stream from one another, or did: those of one system identifier and major version, with a
    standby among them."""
    grouped: dict[tuple[str, int], dict[str, ServerWindow]] = {}
    for name, window in windows.items():
        if window.system_identifier is not None:
            key = (window.system_identifier, window.version_num // 10000)
            grouped.setdefault(key, {})[name] = window
    return tuple(group for group in grouped.values() if _has_standby(list(group.values())))


def _has_standby(windows: Sequence[ServerWindow]) -> bool:
    return len(windows) > 1 and any(window.is_in_recovery for window in windows)

"""The platforms by name."""

from __future__ import annotations

from collections.abc import Mapping

from walproof.errors import SettingError
from walproof.platforms.aws import AURORA, RDS, Terraform
from walproof.platforms.azure import Azure
from walproof.platforms.cloudsql import CloudSql
from walproof.platforms.kubernetes import CNPG, CRUNCHY, ZALANDO
from walproof.platforms.patroni import Patroni
from walproof.platforms.plain import AlterSystem, Conf
from walproof.platforms.platform import Platform, PlatformTarget
from walproof.platforms.rules import written_otherwise
from walproof.platforms.values import Values
from walproof.settings.change import Change

PLATFORMS: Mapping[str, Platform] = {
    platform.name: platform
    for platform in (
        Conf(), AlterSystem(), Patroni(), CNPG, ZALANDO, CRUNCHY, RDS, Terraform(), AURORA, Azure(),
        CloudSql(), Values(),
    )
}  # fmt: skip


def platform(name: str) -> Platform:
    """The platform of that name. Raises SettingError."""
    try:
        return PLATFORMS[name]
    except KeyError:
        raise SettingError(f'no platform "{name}"', hint=f"One of: {', '.join(PLATFORMS)}.") from None


def refusal_there(name: str, version_num: int, change: Change) -> str | None:
    """Why no server of the platform can be given that value, with the source; None if one can.

    Whatever a server has now, such as what ALTER SYSTEM has set. Raises SettingError for a wrong value.
    """
    refused = platform(name).refuse(change, PlatformTarget(version_num, {}))
    if refused is not None:
        return f"{refused.reason} ({refused.source})"
    rule = written_otherwise(name, change, version_num)
    return None if rule is None else f"{rule.reason} ({rule.cited})"


def foreign_storage(name: str) -> tuple[str, ...]:
    """Why the disk of a throw-away server does not stand for the platform's storage; empty where it may."""
    if name != AURORA.name:
        return ()
    return (
        "Aurora's storage is its own, and does not rely on PostgreSQL's WAL to be durable: what is measured "
        "on this machine says nothing about its flushes and checkpoints (docs.aws.amazon.com/AmazonRDS/"
        "latest/AuroraUserGuide/aurora-postgresql-unlogged-tables.html, 2026-11-27).",
    )

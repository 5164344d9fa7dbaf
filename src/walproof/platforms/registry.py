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
from walproof.platforms.platform import Platform

PLATFORMS: Mapping[str, Platform] = {
    platform.name: platform
    for platform in (
        Conf(), AlterSystem(), Patroni(), CNPG, ZALANDO, CRUNCHY, RDS, Terraform(), AURORA, Azure(),
        CloudSql(),
    )
}  # fmt: skip


def platform(name: str) -> Platform:
    """The platform of that name. Raises SettingError."""
    try:
        return PLATFORMS[name]
    except KeyError:
        raise SettingError(f'no platform "{name}"', hint=f"One of: {', '.join(PLATFORMS)}.") from None

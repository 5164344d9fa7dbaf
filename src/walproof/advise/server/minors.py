"""The rule about releases: fixes that newer minors have, and major versions that get none any more."""

from __future__ import annotations

from datetime import UTC, date, datetime

from walproof.advise.server.advice import Advice, Fine, Found, Weight
from walproof.advise.server.case import ServerCase
from walproof.settings.fixes import fixes_above, looked_up
from walproof.settings.minors import major_minor
from walproof.settings.releases import Release, release_of

_BEHIND_MOST = 2
"""Minors come out once in three months: a server that is further behind has missed half a year of fixes."""


def minors(case: ServerCase) -> Found | None:
    """Fixes that a newer minor of the same major version has, and the end of its support."""
    version = case.window.version
    missing, release = fixes_above(version), release_of(case.major)
    behind = _behind(version, release)
    evidence = [fix.sentence for fix in missing]
    if release is not None and behind > _BEHIND_MOST:
        evidence.append(
            f"{behind} minor releases came after {version}; the newest known here is "
            f"{release.major}.{release.newest_minor} (as of {release.looked_up}, {release.source}). Each "
            "mends bugs, some of them in crash recovery, replication or storage."
        )
    if release is not None and _today(case) > release.supported_until:
        return Advice(
            "minors",
            Weight.DANGER,
            f"Move from PostgreSQL {case.major} to a version that is supported",
            (
                f"PostgreSQL {case.major} is supported until {release.supported_until} ({release.source}): "
                "what is found after that, security holes as well, is not mended.",
                *evidence,
            ),
            costs=(
                "An upgrade to another major version, as the provider offers it; until then the newest minor "
                f"of {release.major} that it offers."
                if case.is_hosted
                else "An upgrade to another major version (pg_upgrade, or logical replication); until then "
                f"{release.major}.{release.newest_minor}, a restart, has what was mended.",
            ),
        )
    if not evidence:
        newest = f"; {release.major}.{release.newest_minor} is the newest" if release and behind else ""
        return Fine(
            "minors",
            f"No fix of the write path above {version} is known here (as of {looked_up()}){newest}.",
        )
    wanted = max([fix.minor for fix in missing] + ([release.newest_minor] if release and behind else []))
    return Advice(
        "minors",
        Weight.DANGER,
        f"Have the provider update to {case.major}.{wanted} or a newer minor of {case.major}"
        if case.is_hosted
        else f"Install {case.major}.{wanted} or a newer minor of {case.major}",
        tuple(evidence),
        costs=(
            "A restart, in its maintenance window or when you begin it. It may not be offered yet."
            if case.is_hosted
            else "A restart. The data directory stays as it is.",
        ),
    )


def _behind(version: str, release: Release | None) -> int:
    """How many known minors came after a version; 0 for a version without a minor (19rc1)."""
    _, minor = major_minor(version)
    return 0 if minor is None or release is None else max(0, release.newest_minor - minor)


def _today(case: ServerCase) -> date:
    """The day on which the server was looked at, by its own clock."""
    looks = case.window.looks
    return datetime.fromtimestamp(looks[-1].at, UTC).date() if looks else date.min

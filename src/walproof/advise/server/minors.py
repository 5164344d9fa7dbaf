"""The rule about minor releases: known fixes of the write path that are newer than the installed one."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Weight
from walproof.advise.server.case import ServerCase
from walproof.settings.fixes import fixes_above, looked_up


def minors(case: ServerCase) -> Found | None:
    """Fixes that a newer minor of the same major version has."""
    version = case.window.version
    missing = fixes_above(version)
    if not missing:
        return Fine(
            "minors", f"No fix of the write path above {version} is known here (as of {looked_up()})."
        )
    return Advice(
        "minors",
        Weight.DANGER,
        f"Install {case.major}.{max(fix.minor for fix in missing)} or a newer minor of {case.major}",
        tuple(fix.sentence for fix in missing),
        costs=("A restart. The data directory stays as it is.",),
    )

"""In which settings a variant differs from the baseline, and which variants differ in nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from walproof.facts import Install, Kind, Variant
from walproof.settings.catalogue import Catalogue, is_custom

_BY_INITDB = {"shared_buffers": "128MB", "max_connections": "100"}
"""What initdb writes into postgresql.conf where the machine allows as much; where it does not, a server would
not start with that value either."""
_ELSEWHERE = frozenset(
    {
        "client_encoding", "default_text_search_config", "dynamic_shared_memory_type", "log_timezone",
        "max_stack_depth", "timezone", "wal_sync_method",
    }
)  # fmt: skip
"""Settings whose default is chosen by initdb, the platform or the database, not by the version."""
_CHANGES_DEFAULTS = ("-c", "--set", "--wal-segsize")
"""Options of initdb after which a server's defaults are not those of its version."""


def typed_otherwise(
    base: Mapping[str, str], variant: Variant, reference: Variant, install: Install
) -> list[str]:
    """Settings that the two give other values, or only one of them gives any, in alphabetical order.

    They have to be changed to come from one to the other, even where the value is the default.
    """
    catalogue = Catalogue.for_version(install.version_num)
    ours, theirs = _complete(base, variant), _complete(base, reference)
    return [
        name
        for name in sorted({*ours, *theirs})
        if len({catalogue.normalise(name, v[name]) if name in v else None for v in (ours, theirs)}) > 1
    ]


def differing(
    base: Mapping[str, str],
    variant: Variant,
    reference: Variant,
    install: Install,
    initdb: Sequence[str],
) -> list[str]:
    """Those of them whose values differ where what nobody gives is the version's default."""
    ours, theirs = _complete(base, variant), _complete(base, reference)

    def is_default(name: str) -> bool:
        given = ours.get(name, theirs.get(name))
        default = _default(name, install, initdb)
        is_alone = (name in ours) != (name in theirs)
        return is_alone and given is not None and default is not None and _same(name, given, default, install)

    return [name for name in typed_otherwise(base, variant, reference, install) if not is_default(name)]


def same_as_baseline(
    base: Mapping[str, str],
    variants: Sequence[Variant],
    baseline: str,
    installs: Sequence[Install],
    kind: Kind,
    initdb: Sequence[str],
) -> dict[str, str]:
    """Each variant that differs from the baseline in nothing that acts, and a sentence about it."""
    reference = next(variant for variant in variants if variant.name == baseline)

    def beside_settings(variant: Variant) -> tuple[object, ...]:
        of_kind = variant.conditions
        if of_kind is None and kind.conditions is not None:
            of_kind = kind.conditions()
        return variant.waldir, variant.device, of_kind

    return {
        variant.name: f"{variant.name} differs from the baseline, {baseline}, in nothing that acts: a "
        "difference between them is chance."
        for variant in variants
        if variant is not reference
        and beside_settings(variant) == beside_settings(reference)
        and not any(_acting(base, variant, reference, install, initdb) for install in installs)
    }


def _acting(
    base: Mapping[str, str], variant: Variant, reference: Variant, install: Install, initdb: Sequence[str]
) -> list[str]:
    """Those of the differing settings that do something."""
    found = differing(base, variant, reference, install, initdb)
    if found == ["commit_siblings"]:
        # XLogFlush in xlog.c asks for it only where commit_delay is above 0.
        delay = _complete(base, variant).get("commit_delay", _default("commit_delay", install, initdb))
        # initdb may have set one.
        if delay is not None and _same("commit_delay", delay, "0", install):
            return []
    return found


def _complete(base: Mapping[str, str], variant: Variant) -> dict[str, str]:
    # PostgreSQL ignores the case of names.
    typed = {**base, **variant.settings, **variant.implied}
    return {name.lower(): value for name, value in typed.items()}


def _default(name: str, install: Install, initdb: Sequence[str]) -> str | None:
    """The value that a server of walproof has without the setting; None where that is not certain."""
    if (
        is_custom(name)
        or name in _ELSEWHERE
        or any(option.startswith(_CHANGES_DEFAULTS) for option in initdb)
    ):
        return None
    # Empty: initdb or the build decides.
    return _BY_INITDB.get(name) or Catalogue.for_version(install.version_num).get(name).boot or None


def _same(name: str, ours: str, theirs: str, install: Install) -> bool:
    catalogue = Catalogue.for_version(install.version_num)
    return catalogue.normalise(name, ours) == catalogue.normalise(name, theirs)

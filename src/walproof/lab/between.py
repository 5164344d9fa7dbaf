"""Standbys on other hosts, in the words of a study: ``distance = "hosts"``.

It is one level of what lies between the servers, in addition to emulated distances. So the real way can be a
level of a factor or of a variant, and is compared as those are."""

from __future__ import annotations

from walproof.errors import StudyError
from walproof.facts import FailoverConditions, Install, Plan, StreamingConditions
from walproof.lab.studyfile import StudyFile, VariantTable
from walproof.postgres.build import has_tls

DISTANCE = "distance"
HOSTS = "hosts"
"""Level of ``distance``."""
_NONE = "0ms"


def standby_hosts(plan: Plan) -> int:
    """How many other hosts the plan needs for standbys; 0: all of it runs on one machine."""
    counts = [
        variant.conditions.count
        for variant in plan.variants
        if isinstance(variant.conditions, StreamingConditions | FailoverConditions)
        and variant.conditions.between_hosts
    ]
    return max(counts, default=0)


def lacks_tls(conditions: StreamingConditions | FailoverConditions, install: Install) -> str | None:
    """Why servers of that install cannot be on several hosts; None if they can, or need not be."""
    if not conditions.between_hosts or has_tls(install):
        return None
    return f"PostgreSQL {install.label} was built without TLS, which servers of two hosts need"


def with_hosts(study: StudyFile, *, has_standbys: bool) -> StudyFile:
    """The study with each variant once more, with its standbys on other hosts, where nothing is emulated. In
    a factorial design the factor ``distance`` gets one more level. A study that names hosts itself is left as
    it is. Raises StudyError for a study without standbys."""
    if not has_standbys:
        raise StudyError(
            f'study "{study.name}" has no standbys, which could be on other hosts',
            hint="--between is for studies of a live stream and of failover: replication-live, synchronous.",
        )
    if HOSTS in study.factors.get(DISTANCE, ()) or any(
        variant.settings.get(DISTANCE) == HOSTS for variant in study.variant
    ):
        return study
    if study.factors:
        levels = study.factors.get(DISTANCE, (_NONE,))
        return study.model_copy(update={"factors": {**study.factors, DISTANCE: (*levels, HOSTS)}})
    beside = [
        VariantTable(
            name=f"{variant.name}, between hosts",
            settings={**variant.settings, DISTANCE: HOSTS},
            note=variant.note,
            optional=variant.optional,
        )
        for variant in study.variant
        if not any(name in variant.settings for name in (DISTANCE, "bandwidth", "standby_device"))
    ]
    return study.model_copy(update={"variant": (*study.variant, *beside)})

"""The variants of a plan: from those of a study file, or from the cells of its factorial design."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from walproof.errors import SettingError, StudyError, WalproofError
from walproof.facts import Install, Kind, LeftOut, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.design import factorial_design
from walproof.lab.kind import LabKind
from walproof.postgres.build import missing_libraries, rejection
from walproof.sentences import say_count
from walproof.settings.catalogue import Catalogue, as_shown
from walproof.settings.risk import durability_class
from walproof.settings.rules import contradictions, imply

_DEFAULT_MAX_CONNECTIONS = 100
_PROBE_CONNECTIONS = 5
"""Connections that the probes may hold beside the load's."""


def typed_variants(asked: Asked, kind: Kind, half: LabKind[Any]) -> tuple[list[Variant], tuple[str, ...]]:
    """The variants as typed, before implied settings and classes; and what the design confounds.

    Raises StudyError.
    """
    study = asked.study
    typed = [
        half.variant(
            Variant(
                table.name,
                dict(table.settings),
                note=table.note,
                waldir=None if table.waldir is None else str((asked.scripts / table.waldir).absolute()),
            ),
            kind,
            table,
        )
        for table in study.variant
    ]
    aliases: tuple[str, ...] = ()
    if study.factors:
        if typed:
            raise StudyError(
                "the study has both variants and factors",
                hint="Levels of a factor are its variants; put settings that all share under [base].",
            )
        design = factorial_design(study.factors, study.design.fraction)
        aliases = design.aliases
        typed = [
            half.variant(Variant(_cell_name(cell, study.factors), dict(cell), levels=dict(cell)), kind, None)
            for cell in design.cells
        ]
    if not typed:
        raise StudyError("the study has neither variants nor factors")
    return _with_wal_folder(typed, asked, kind, half), aliases


def _with_wal_folder(
    variants: Sequence[Variant], asked: Asked, kind: Kind, half: LabKind[Any]
) -> list[Variant]:
    """The variants, and one more if the command line names a folder for WAL."""
    study, overrides = asked.study, asked.overrides
    found = list(variants)
    if overrides.waldir is not None:
        base = next((variant for variant in variants if variant.name == study.baseline), variants[0])
        folder = str(overrides.waldir.absolute())
        found.append(replace(base, name=f"{base.name}, WAL in {folder}", waldir=folder, levels={}))
    if all(variant.waldir is None for variant in found):
        return found
    if overrides.device is not None or overrides.power_cut_images is not None:
        raise StudyError(
            "WAL in another folder cannot be on a simulated disk",
            hint="Leave out --device and --power-cut, or --waldir.",
        )
    has_addition = kind.added_crash is not None or kind.cut_images > 0
    if not half.moves_wal or has_addition or study.factors:
        raise StudyError(
            "WAL in another folder is for studies of throughput and of loading, without factors",
            hint="Leave out --waldir.",
        )
    return found


def _cell_name(cell: Mapping[str, str], factors: Mapping[str, Sequence[str]]) -> str:
    """A name of all levels or, if there are many factors, of those that are not the reference's."""
    if len(factors) > _NAMED_FACTORS:
        changed = {name: level for name, level in cell.items() if level != factors[name][0]}
        return ", ".join(f"{name}={level}" for name, level in changed.items()) or "reference"
    return ", ".join(f"{name}={level}" for name, level in cell.items())


_NAMED_FACTORS = 4
"""With more factors a name of all levels is longer than a line."""


def available(
    base: Mapping[str, str],
    variants: Sequence[Variant],
    optional: Collection[str],
    chosen: Sequence[Install],
    half: LabKind[Any],
) -> tuple[list[Variant], tuple[LeftOut, ...]]:
    """The variants that every install can run, and the ``optional`` ones that one cannot.

    Raises StudyError.
    """
    kept, left_out = [], []
    for cell in variants:
        reason = _lack(base, cell, chosen, half) if cell.name in optional else None
        if reason is None:
            kept.append(cell)
        else:
            left_out.append(LeftOut(cell.name, reason))
    if not kept:
        raise StudyError(
            "no variant of the study can be run",
            detail="\n".join(f"{o.variant}: {o.reason}" for o in left_out),
        )
    return kept, tuple(left_out)


def _lack(
    base: Mapping[str, str], cell: Variant, chosen: Sequence[Install], half: LabKind[Any]
) -> str | None:
    """What keeps an install from running the variant: its version, its build, or this machine."""
    for install in chosen:
        if (reason := half.missing(cell, install)) is not None:
            return reason
        catalogue = Catalogue.for_version(install.version_num)
        complete = {**base, **cell.settings, **imply({**base, **cell.settings}, install.version_num)}
        try:
            for name, value in complete.items():
                catalogue.check(name, value)
        except SettingError as error:
            return f"PostgreSQL {install.label}: {error.message}"
        if rejection(install, complete) is not None:
            named = ", ".join(f"{name}={value}" for name, value in cell.settings.items())
            return f"PostgreSQL {install.label} was built without what {named} needs"
        if missing := missing_libraries(install, complete):
            return f'PostgreSQL {install.label} has no library "{missing[0]}"'
    return None


def check_settings(
    base: Mapping[str, str], cells: Sequence[Variant], chosen: Sequence[Install], segment_mb: int
) -> None:
    """Refuse what no server would accept, all at once. ``segment_mb`` is the size of a WAL segment. Raises
    SettingError."""
    problems: dict[str, SettingError] = {}
    for install in chosen:
        catalogue = Catalogue.for_version(install.version_num)
        for cell in cells:
            typed = {**base, **cell.settings}
            complete = {**typed, **imply(typed, install.version_num)}
            for name, value in complete.items():
                try:
                    catalogue.check(name, value)
                except SettingError as error:
                    problems.setdefault(f"{name}={value} on PostgreSQL {install.version}", error)
            if problems:
                continue  # rules between settings read values that are known to be good
            segment_bytes = segment_mb << 20
            for complaint in contradictions(complete, install.version_num, wal_segment_bytes=segment_bytes):
                problems[f"{cell.name}: {complaint}"] = SettingError(f"{cell.name}: {complaint}")
    if len(problems) == 1:
        raise next(iter(problems.values()))
    if problems:
        raise SettingError(
            f"{len(problems)} settings cannot be used",
            detail="\n".join(in_one_line(error) for error in problems.values()),
        )


def in_one_line(error: WalproofError) -> str:
    """Message, detail and hint."""
    parts = (error.message, error.detail, error.hint)
    return ". ".join(part.rstrip(".") for part in parts if part)


def resolved(
    base: Mapping[str, str],
    variant: Variant,
    chosen: Sequence[Install],
    workloads: Sequence[Workload],
    half: LabKind[Any],
) -> Variant:
    """The variant with what comes along with its settings, and its durability class."""
    typed = as_shown({**base, **variant.settings})
    implied: dict[str, str] = {}
    for install in chosen:
        implied.update(imply(typed, install.version_num))
    if "max_connections" in as_shown(variant.settings):
        implied.update(_room(typed, workloads))
    complete = as_shown({**typed, **implied})
    classes = (durability_class(complete), half.risk(variant, complete))
    return replace(variant, implied=implied, durability=max(classes, key=lambda found: found.rank))


def with_room(base: Mapping[str, str], workloads: Sequence[Workload]) -> dict[str, str]:
    """The settings of every variant, with max_connections where the load needs more."""
    return {**base, **_room(as_shown(base), workloads)}


def crowded(base: Mapping[str, str], variants: Sequence[Variant], workloads: Sequence[Workload]) -> list[str]:
    """A sentence on each max_connections that was given, and that the load's clients do not fit into.

    ``base``: the settings of every variant, as typed.
    """
    clients = max(workload.clients for workload in workloads)
    typed = {"the base": as_shown(base)} | {each.name: as_shown(each.settings) for each in variants}
    return [
        f"{name}: max_connections is {room} instead of {settings['max_connections']}, because the load has "
        f"{say_count(clients, 'client')}."
        for name, settings in typed.items()
        for room in _room(settings, workloads).values()
        if int(settings.get("max_connections", clients)) < clients
    ]


def _room(settings: Mapping[str, str], workloads: Sequence[Workload]) -> dict[str, str]:
    """max_connections, if the load and the probes would not fit into it as it is."""
    needed = max(workload.clients for workload in workloads) + _PROBE_CONNECTIONS
    present = settings.get("max_connections", str(_DEFAULT_MAX_CONNECTIONS))
    if not present.isdigit() or int(present) >= needed + _RESERVED_CONNECTIONS:
        return {}
    return {"max_connections": str(needed + _RESERVED_CONNECTIONS)}


_RESERVED_CONNECTIONS = 3
"""superuser_reserved_connections, which are left free as by the server."""

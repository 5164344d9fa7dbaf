"""From a study, and what the command line changes in it, to a Plan: every default and name resolved."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from walproof.disk.device import parse_device
from walproof.errors import StudyError
from walproof.facts import Design, Install, Plan, Reference
from walproof.facts.gate import BUDGET_S, ROUNDS_MOST
from walproof.lab.asked import Asked, Overrides
from walproof.lab.between import with_hosts
from walproof.lab.configurations import Configurations
from walproof.lab.designs import cuts_of, gave_way, with_designs
from walproof.lab.differing import same_as_baseline
from walproof.lab.gate import gate_of, held_by_rate, require_known
from walproof.lab.kinds.registry import kind_of
from walproof.lab.placing import placed
from walproof.lab.reading import check_study, read_study_file
from walproof.lab.standby_settings import WITHOUT_STANDBYS, refuse_settings
from walproof.lab.studyfile import ScriptTable, StudyFile
from walproof.lab.variants import available, check_settings, crowded, resolved, typed_variants, with_room
from walproof.lab.workloads import require_unique, workload_of
from walproof.postgres import install as installs
from walproof.probe.registry import PROBES

_BUILT_IN = resources.files("walproof") / "studies"

_DEFAULT_ROUNDS = 5
_MOST_ROUNDS = 50
"""The most rounds if a half-width or a budget ends the run and the study names no other bound."""
_WITHIN_LEAST = 0.001
"""Smallest half-width that may be asked for."""


def built_in_names() -> tuple[str, ...]:
    """Names of the studies that come with walproof."""
    return tuple(sorted(file.name.removesuffix(".toml") for file in _BUILT_IN.iterdir()
                        if file.name.endswith(".toml")))  # fmt: skip


def read_study(name: str, pg: Sequence[str] | None = None) -> tuple[StudyFile, str, Path]:
    """The study of a built-in name or a TOML file, its text, and the folder that its scripts are relative to.

    ``pg``: check the settings of a file, too, for these installs, or without any for its own. Raises
    StudyError.
    """
    if name in built_in_names():
        path, pg = Path(str(_BUILT_IN / f"{name}.toml")), None
    elif name.endswith(".toml") or "/" in name:
        path = Path(name)
    else:
        near = difflib.get_close_matches(name, built_in_names(), n=1)
        raise StudyError(
            f'study "{name}" does not exist',
            detail=f"Built-in studies: {', '.join(built_in_names())}. A file's name ends in .toml.",
            hint=f'Did you mean "{near[0]}"?' if near else '"walproof studies" describes the built-in ones.',
        )
    study = read_study_file(path, pg)
    return study, path.read_text(encoding="utf-8"), path.parent


def resolve(
    study: StudyFile,
    overrides: Overrides,
    *,
    folder: Path,
    scripts: Path = Path(),
    given: Sequence[Install] | None = None,
    notes: Sequence[str] = (),
) -> Plan:
    """The plan of a study. ``folder`` holds the clusters; ``scripts`` is where script files are; ``notes``
    are sentences about what was given and is not measured.

    Raises StudyError, SettingError or InstallError; all mistakes in settings are named at once.
    """
    half = kind_of(study, overrides)
    if overrides.between:
        study = with_hosts(study, has_standbys=half.has_standbys)
    chosen = tuple(given) if given is not None else chosen_installs(overrides.pg or study.pg)
    _, driver = installs.find_driver(chosen)
    asked = Asked(study, overrides, scripts, driver)
    workloads = tuple(workload_of(table, asked) for table in study.workload)
    kind = half.resolve(asked)
    if not half.has_standbys:
        refuse_settings(asked, WITHOUT_STANDBYS)
    require_known(overrides.fail_if, kind, half)
    workloads = tuple(half.workload(workload, kind, asked) for workload in workloads)
    workloads = placed(asked, half, workloads)
    require_unique("workload", [workload.name for workload in workloads])
    asked_base = {**study.base, **overrides.base}
    base = with_room(asked_base, workloads)
    typed, aliases = typed_variants(asked, kind, half)
    optional = {table.name for table in study.variant if table.optional}
    kept, left_out = available(base, typed, optional, chosen, half)
    check_settings(base, kept, chosen, half.segment_mb(kind, study.initdb))
    variants = tuple(resolved(base, variant, chosen, workloads, half) for variant in kept)
    require_unique("variant", [variant.name for variant in variants])
    baseline = study.baseline or variants[0].name
    if baseline not in [variant.name for variant in variants]:
        raise StudyError(
            f'baseline "{baseline}" is not a variant',
            detail=f"Variants: {', '.join(variant.name for variant in variants)}.",
        )
    same = same_as_baseline(base, variants, baseline, chosen, kind, study.initdb)
    variants = with_designs(asked, kind, half, base, variants, baseline, chosen, workloads)
    require_unique("variant", [variant.name for variant in variants])
    gate = gate_of(asked, kind, chosen, workloads, variants)
    rounds, half_width, budget_s = _stop_rule(study, overrides)
    toggling, slicing = cuts_of(asked, variants, baseline, rounds, is_typed=_says_how_many(study, overrides))
    in_slices = all(variant.design is not Design.FRESH for variant in variants)
    if in_slices:
        rounds = max(cut.starts for cut in (toggling, slicing) if cut is not None)
    return Plan(
        study=study.name,
        title=study.title,
        description=study.description.strip(),
        kind=kind,
        installs=chosen,
        driver=driver,
        workloads=workloads,
        base_settings=base,
        variants=variants,
        baseline=baseline,
        factors={name: tuple(levels) for name, levels in study.factors.items()},
        fraction=study.design.fraction,
        aliases=aliases,
        rounds=rounds,
        half_width=half_width,
        budget_s=budget_s,
        initdb_options=study.initdb,
        checkpoint_before=study.design.checkpoint == "before window",
        # Slices have no windows that probes could observe.
        probes=()
        if in_slices
        else _probes(overrides.probes if overrides.probes is not None else study.design.probes),
        seed=overrides.seed if overrides.seed is not None else study.design.seed,
        folder=str(folder),
        references=tuple(
            Reference(f.variant, f.workload, f.tps, f.latency_ms_avg, f.latency_ms_stddev, f.metrics)
            for f in (study.reference.figure if study.reference else ())
        ),
        reference_source=study.reference.source if study.reference else None,
        left_out=left_out,
        flush_rates=study.design.flush_rates,
        quick=overrides.quick,
        device=None if overrides.device is None else parse_device(overrides.device).name,
        toggling=toggling,
        slicing=slicing,
        place=asked.place,
        gate=gate,
        notes=(
            *notes,
            *gave_way(asked, variants),
            *held_by_rate(gate, workloads),
            *same.values(),
            *crowded(asked_base, kept, workloads),
        ),
        same=tuple(same),
    )


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a workload's scripts and tables."""

    keys: Mapping[str, object]
    """Keys of ``[[workload]]``, among them its name."""
    scripts: Sequence[ScriptTable] = ()

    @property
    def table(self) -> dict[str, object]:
        """``[[workload]]``."""
        scripts = {"script": [script.model_dump() for script in self.scripts]} if self.scripts else {}
        return {**self.keys, **scripts}


def ad_hoc(
    sets: Sequence[Mapping[str, str]],
    workload: Mapping[str, object],
    scripts: Sequence[ScriptTable] = (),
    against: Version | None = None,
    configurations: Configurations | None = None,
    tables: Mapping[str, Any] | None = None,
) -> StudyFile:
    """The study that ``walproof compare`` runs: each of ``sets`` a variant against the defaults.

    ``workload`` holds keys of ``[[workload]]``; ``against`` is the version that it is compared with;
    ``configurations`` take the place of the defaults; ``tables`` are others of the load's file (``base``,
    ``initdb``). Raises StudyError.
    """
    tables = tables or {}
    confs = configurations or Configurations({}, {"default": {}}, ())
    first = confs.names[0]
    variants = [{"name": name, "settings": dict(lines)} for name, lines in confs.own.items()]
    variants += [
        {
            "name": ", ".join(f"{name}={value}" for name, value in settings.items()),
            "settings": {**confs.own[first], **settings},
        }
        for settings in sets
    ]
    if against is not None:
        title = "What does this version of the workload cost, compared with the other one?"
    elif len(variants) > 1:
        than = "the defaults" if configurations is None else first
        title = f"What do these {'settings' if sets else 'configurations'} buy, compared with {than}?"
    else:
        title = "How do these installs of PostgreSQL compare?"
    return check_study(
        {
            "name": "compare",
            "title": title,
            "design": {"design": "auto"},
            "base": {**tables.get("base", {}), **confs.base},
            "initdb": tables.get("initdb", []),
            "workload": [
                version.table for version in (against, Version(workload, scripts)) if version is not None
            ],
            "variant": variants,
            "against": None if against is None else against.keys["name"],
        },
        "compare",
    )


def chosen_installs(specs: Sequence[str]) -> tuple[Install, ...]:
    """The installs that are named, each with a label of its own; one that is found here if none is."""
    found = [installs.find(spec) for spec in specs] if specs else [installs.find(None)]
    return tuple(installs.label_all(found))


def _stop_rule(study: StudyFile, overrides: Overrides) -> tuple[int, float | None, float | None]:
    """The most rounds, half-width and budget. The command line's rule replaces the study's as a whole.

    Raises StudyError.
    """
    design = study.design
    if overrides.fail_if:
        # A gate ends by itself; what the study says of rounds is for studies that only measure.
        return overrides.rounds or ROUNDS_MOST, None, overrides.budget_s or BUDGET_S
    if overrides.rounds is None and overrides.within is None and overrides.budget_s is None:
        if overrides.quick:
            return study.quick.rounds, None, study.quick.budget
        rounds, half_width, budget_s = design.rounds, design.within, design.budget
    else:
        rounds, half_width, budget_s = overrides.rounds, overrides.within, overrides.budget_s
    if half_width is not None and half_width < _WITHIN_LEAST:
        raise StudyError(
            f"no ratio can be known within {100 * half_width:.2g} %",
            detail="Starts of one server differ by more, and reports show a tenth of a per cent.",
            hint=f"--within (or within in the study) is {_WITHIN_LEAST:.1%} or more: 3% is usual.",
        )
    if rounds is None:
        rounds = _DEFAULT_ROUNDS if half_width is None and budget_s is None else _MOST_ROUNDS
    return rounds, half_width, budget_s


def _says_how_many(study: StudyFile, overrides: Overrides) -> bool:
    """Whether the number of rounds, or what ends them, was typed."""
    given = (overrides.rounds, overrides.within, overrides.budget_s, overrides.fail_if or None)
    typed = (study.design.rounds, study.design.within, study.design.budget)
    return any(value is not None for value in (*given, *(() if overrides.quick else typed)))


def _probes(names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return tuple(PROBES)
    unknown = [name for name in names if name not in PROBES]
    if unknown:
        raise StudyError(f'probe "{unknown[0]}" does not exist', detail=f"Probes: {', '.join(PROBES)}.")
    return tuple(name for name in PROBES if name in names)

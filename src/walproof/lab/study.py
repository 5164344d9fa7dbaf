"""From a study, and what the command line changes in it, to a Plan: every default and name resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from walproof.disk.device import parse_device
from walproof.errors import SettingError, StudyError
from walproof.facts import (
    Crash,
    CutConditions,
    Install,
    LeftOut,
    Plan,
    PowerCut,
    Reference,
    Script,
    Statement,
    UnitBytes,
    Variant,
    Workload,
)
from walproof.lab.design import factorial_design
from walproof.lab.failover_study import check_failover, failover_of, failover_workload, with_pair
from walproof.lab.kind import check_kind
from walproof.lab.load_study import check_load, load_of, load_workload, method_of, missing_for
from walproof.lab.replay_study import check_replay, replay_of, replay_workload, with_conditions
from walproof.lab.streaming_study import check_streaming, streaming_of, streaming_workload, with_stream
from walproof.lab.studyfile import (
    CutTable,
    ScriptTable,
    StudyFile,
    WorkloadTable,
    check_study,
    read_study_file,
)
from walproof.postgres import install as installs
from walproof.postgres.build import missing_libraries, rejection
from walproof.postgres.kernel_audit import audit_refusal
from walproof.probe.registry import PROBES
from walproof.settings.catalogue import Catalogue
from walproof.settings.durability import DurabilityClass
from walproof.settings.risk import durability_class
from walproof.settings.rules import contradictions, imply

_BUILT_IN = resources.files("walproof") / "studies"

_DEFAULT_ROUNDS = 5
_MOST_ROUNDS = 50
"""When a half-width or a budget ends the run and the study names no other bound."""
_DEFAULT_DURATION_S = 60.0
_DEFAULT_MAX_CONNECTIONS = 100
_PROBE_CONNECTIONS = 5
"""Connections that the probes may hold beside the load's."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line changes in a study."""

    quick: bool = False
    base: Mapping[str, str] = field(default_factory=dict)
    rounds: int | None = None
    half_width: float | None = None
    budget_s: float | None = None
    duration_s: float | None = None
    warmup_s: float | None = None
    pg: tuple[str, ...] = ()
    seed: int | None = None
    probes: tuple[str, ...] | None = None
    device: str | None = None
    """The emulated disk, as typed."""
    power_cut_images: int | None = None
    """Images of a power cut in each trial."""
    waldir: Path | None = None
    """One variant more: the baseline with pg_wal in that folder."""


def built_in_names() -> tuple[str, ...]:
    """Names of the studies that come with walproof."""
    return tuple(sorted(file.name.removesuffix(".toml") for file in _BUILT_IN.iterdir()
                        if file.name.endswith(".toml")))  # fmt: skip


def read_study(name: str) -> tuple[StudyFile, str, Path]:
    """(study, its text, folder that its scripts are relative to) of a built-in name or a TOML file.

    Raises StudyError.
    """
    if name in built_in_names():
        path = Path(str(_BUILT_IN / f"{name}.toml"))
    elif name.endswith(".toml") or "/" in name:
        path = Path(name)
    else:
        import difflib

        near = difflib.get_close_matches(name, built_in_names(), n=1)
        raise StudyError(
            f'study "{name}" does not exist',
            detail=f"Built-in studies: {', '.join(built_in_names())}. A file's name ends in .toml.",
            hint=f'Did you mean "{near[0]}"?' if near else '"walproof studies" describes the built-in ones.',
        )
    study = read_study_file(path)
    return study, path.read_text(encoding="utf-8"), path.parent


def resolve(
    study: StudyFile,
    overrides: Overrides,
    *,
    folder: Path,
    scripts: Path = Path(),
    given: Sequence[Install] | None = None,
) -> Plan:
    """The plan of a study. ``folder`` holds the clusters; ``scripts`` is where script files are.

    Raises StudyError, SettingError or InstallError; all mistakes in settings are named at once.
    """
    check_kind(study, power_cuts_asked=overrides.power_cut_images is not None)
    chosen = tuple(given) if given is not None else _installs(overrides.pg or study.pg)
    _, driver = installs.find_driver(chosen)
    workloads = tuple(_workload(table, study, overrides, scripts) for table in study.workload)
    if study.streaming is not None:
        check_streaming(study, driver)
        workloads = tuple(streaming_workload(workload) for workload in workloads)
    if study.replay is not None:
        check_replay(study)
        workloads = tuple(replay_workload(workload, study, overrides.quick) for workload in workloads)
    _require_unique("workload", [workload.name for workload in workloads])
    base = _with_room({**study.base, **overrides.base}, workloads)
    cells, aliases = _cells(study, scripts)
    cells = _with_wal_folder(cells, study, overrides)
    if study.replay is not None:
        cells = [with_conditions(cell) for cell in cells]
    if study.streaming is not None:
        cells = [with_stream(cell) for cell in cells]
    if study.failover is not None:
        check_failover(study)
        workloads = tuple(failover_workload(workload, study, overrides.quick) for workload in workloads)
        cells = [with_pair(cell) for cell in cells]
    if study.load is not None:
        check_load(study)
        workloads = tuple(load_workload(workload, study) for workload in workloads)
    cells, left_out = _available(base, cells, study, chosen)
    _check_settings(base, cells, chosen)
    variants = tuple(_variant(base, cell, chosen, workloads) for cell in cells)
    _require_unique("variant", [variant.name for variant in variants])
    baseline = study.baseline or variants[0].name
    if baseline not in [variant.name for variant in variants]:
        raise StudyError(
            f'baseline "{baseline}" is not a variant',
            detail=f"Variants: {', '.join(variant.name for variant in variants)}.",
        )
    if overrides.device is not None and (study.replay is not None or study.streaming is not None):
        raise StudyError(
            "--device has no meaning in a study of replay or of a live stream",
            detail="An emulated disk delays flushes; what is compared is the CPU of replay.",
            hint="Run the study without --device. Study synchronous-standby has a standby with a slow disk.",
        )
    rounds, half_width, budget_s = _stop_rule(study, overrides)
    return Plan(
        study=study.name,
        title=study.title,
        description=study.description.strip(),
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
        probes=_probes(overrides.probes if overrides.probes is not None else study.design.probes),
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
        power_cut=_power_cut(study, overrides),
        replay=replay_of(study, overrides.quick),
        streaming=streaming_of(study),
        failover=failover_of(study, overrides.quick),
        crash=_crash(study, overrides),
        load=load_of(study, overrides.quick, scripts),
    )


def ad_hoc(
    sets: Sequence[Mapping[str, str]],
    workload: Mapping[str, object],
    scripts: Sequence[ScriptTable] = (),
) -> StudyFile:
    """The study that ``walproof compare`` runs: each of ``sets`` a variant against the defaults.

    ``workload`` holds keys of ``[[workload]]``. Raises StudyError.
    """
    variants: list[dict[str, object]] = [{"name": "default"}]
    variants += [
        {"name": ", ".join(f"{name}={value}" for name, value in one.items()), "settings": dict(one)}
        for one in sets
    ]
    return check_study(
        {
            "name": "compare",
            "title": "What do these settings buy, compared with the defaults?",
            "workload": [{**workload, "script": [script.model_dump() for script in scripts]}],
            "variant": variants,
        },
        "compare",
    )


def _installs(specs: Sequence[str]) -> tuple[Install, ...]:
    found = [installs.find(spec) for spec in specs] if specs else [installs.find(None)]
    return tuple(installs.label_all(found))


def _workload(table: WorkloadTable, study: StudyFile, overrides: Overrides, scripts: Path) -> Workload:
    where = f'workload "{table.name}"'
    kinds = {"a builtin": table.builtin, "scripts": table.script, "statements": table.statement}
    given = [noun for noun, value in kinds.items() if value]
    if len(given) > 1:
        raise StudyError(f"{where} has both {' and '.join(given)}", hint="Leave out one of them.")
    if table.statement:
        _require_unique("statement", [one.name for one in table.statement])
        return _statements(table, scripts)
    if table.duration is not None and table.transactions is not None:
        raise StudyError(f"{where} has both a duration and transactions", hint="Leave out one of them.")
    if table.threads > table.clients:
        raise StudyError(
            f"{where} has more threads ({table.threads}) than clients ({table.clients})",
            hint="pgbench divides its clients among its threads.",
        )
    duration_s, transactions = table.duration, table.transactions
    if overrides.quick:
        if transactions is not None:
            transactions = study.quick.transactions or transactions
        else:
            duration_s = study.quick.duration or duration_s
    if overrides.duration_s is not None:
        duration_s, transactions = overrides.duration_s, None
    if transactions is None and duration_s is None:
        duration_s = _DEFAULT_DURATION_S
    if duration_s is not None and duration_s < 1:
        raise StudyError(
            f"{where} has a window of {duration_s:g} s", hint="pgbench runs whole seconds, 1 at least."
        )
    return Workload(
        name=table.name,
        builtin=table.builtin or (None if table.script else "tpcb-like"),
        scripts=tuple(_script(script, number, scripts) for number, script in enumerate(table.script, 1)),
        scale=table.scale,
        clients=table.clients,
        threads=table.threads,
        duration_s=duration_s,
        transactions=transactions,
        rate_tps=table.rate,
        protocol=table.protocol,
        warmup_s=overrides.warmup_s if overrides.warmup_s is not None else table.warmup,
        setup_sql=None if table.setup is None else _text(table.setup, scripts, "setup"),
    )


def _statements(table: WorkloadTable, scripts: Path) -> Workload:
    """A workload of single statements: what shapes a load has no meaning for it."""
    return Workload(
        name=table.name,
        builtin=None,
        scripts=(),
        scale=table.scale,
        clients=1,
        threads=1,
        duration_s=None,
        transactions=1,
        rate_tps=None,
        protocol="simple",
        warmup_s=0.0,
        setup_sql=None if table.setup is None else _text(table.setup, scripts, "setup"),
        statements=tuple(Statement(one.name, one.sql, one.setup, one.explain) for one in table.statement),
    )


def _script(table: ScriptTable, number: int, scripts: Path) -> Script:
    if (table.file is None) == (table.sql is None):
        raise StudyError(f"script {number} needs exactly one of file and sql")
    if table.sql is not None:
        return Script(f"script {number}", table.sql, table.weight)
    assert table.file is not None
    return Script(Path(table.file).name, _text(table.file, scripts, "script", must=True), table.weight)


def _text(value: str, folder: Path, noun: str, *, must: bool = False) -> str:
    """The text of a file named ``value``, or ``value`` itself where it is not the name of an SQL file."""
    if not must and not value.strip().endswith(".sql"):
        return value
    path = folder / value.strip()
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StudyError(f'could not read {noun} "{path}": {error.strerror}') from error


def _cells(study: StudyFile, scripts: Path) -> tuple[list[Variant], tuple[str, ...]]:
    """The variants as typed, before implied settings and classes; and what the design confounds."""
    typed = [
        Variant(
            table.name,
            dict(table.settings),
            note=table.note,
            cut=_conditions(table.cut),
            load=method_of(table.load),
            waldir=None if table.waldir is None else str((scripts / table.waldir).absolute()),
        )
        for table in study.variant
    ]
    if not study.factors:
        if not typed:
            raise StudyError("the study has neither variants nor factors")
        return typed, ()
    if typed:
        raise StudyError(
            "the study has both variants and factors",
            hint="Levels of a factor are its variants; put settings that all share under [base].",
        )
    design = factorial_design(study.factors, study.design.fraction)
    return [
        Variant(_cell_name(cell, study.factors), dict(cell), levels=dict(cell)) for cell in design.cells
    ], design.aliases


def _with_wal_folder(cells: Sequence[Variant], study: StudyFile, overrides: Overrides) -> list[Variant]:
    """The variants, and one more where the command line names a folder for WAL."""
    found = list(cells)
    if overrides.waldir is not None:
        base = next((cell for cell in cells if cell.name == study.baseline), cells[0])
        folder = str(overrides.waldir.absolute())
        found.append(replace(base, name=f"{base.name}, WAL in {folder}", waldir=folder, levels={}))
    if all(cell.waldir is None for cell in found):
        return found
    others = (study.power_cut, study.replay, study.streaming, study.failover, study.crash)
    if any(table is not None for table in others) or study.factors:
        raise StudyError(
            "WAL in another folder is for studies of throughput and of loading, without factors",
            hint="Leave out --waldir.",
        )
    if overrides.device is not None or overrides.power_cut_images is not None:
        raise StudyError(
            "WAL in another folder cannot be on a simulated disk",
            hint="Leave out --device and --power-cut, or --waldir.",
        )
    return found


def _cell_name(cell: Mapping[str, str], factors: Mapping[str, Sequence[str]]) -> str:
    """Every level; of many factors, those that are not the reference's."""
    if len(factors) > _NAMED_FACTORS:
        changed = {name: level for name, level in cell.items() if level != factors[name][0]}
        return ", ".join(f"{name}={level}" for name, level in changed.items()) or "reference"
    return ", ".join(f"{name}={level}" for name, level in cell.items())


_NAMED_FACTORS = 4
"""With more factors a name of all levels is longer than a line."""


def _available(
    base: Mapping[str, str], cells: Sequence[Variant], study: StudyFile, chosen: Sequence[Install]
) -> tuple[list[Variant], tuple[LeftOut, ...]]:
    """The variants that every install can run, and the optional ones that one cannot."""
    optional = {table.name for table in study.variant if table.optional}
    kept, left_out = [], []
    for cell in cells:
        reason = _lack(base, cell, chosen) if cell.name in optional else None
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


def _lack(base: Mapping[str, str], cell: Variant, chosen: Sequence[Install]) -> str | None:
    """What keeps an install from running the variant, its version or its build; or this machine."""
    if cell.replay.kernel_audit != "off" and (refusal := audit_refusal()) is not None:
        return f"kernel audit: {refusal}"
    for install in chosen:
        if (reason := missing_for(cell.load, install)) is not None:
            return f"PostgreSQL {install.label}: {reason}"
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


def _check_settings(base: Mapping[str, str], cells: Sequence[Variant], chosen: Sequence[Install]) -> None:
    """Refuse what no server would take, all of it at once. Raises SettingError."""
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
            for complaint in contradictions(complete, install.version_num):
                problems[f"{cell.name}: {complaint}"] = SettingError(f"{cell.name}: {complaint}")
    if len(problems) == 1:
        raise next(iter(problems.values()))
    if problems:
        raise SettingError(
            f"{len(problems)} settings cannot be used",
            detail="\n".join(_in_one_line(error) for error in problems.values()),
        )


def _in_one_line(error: SettingError) -> str:
    parts = (error.message, error.detail, error.hint)
    return ". ".join(part.rstrip(".") for part in parts if part)


def _variant(
    base: Mapping[str, str], cell: Variant, chosen: Sequence[Install], workloads: Sequence[Workload]
) -> Variant:
    typed = {**base, **cell.settings}
    implied: dict[str, str] = {}
    for install in chosen:
        implied.update(imply(typed, install.version_num))
    if "max_connections" in cell.settings:
        implied.update(_room(typed, workloads))
    complete = {**typed, **implied}
    return Variant(
        name=cell.name,
        settings=cell.settings,
        implied=implied,
        durability=max(
            durability_class(complete),
            DurabilityClass.TABLE
            if cell.cut.unlogged or "unlogged" in cell.load.steps
            else DurabilityClass.NONE,
            key=lambda one: one.rank,
        ),
        note=cell.note,
        levels=cell.levels,
        cut=cell.cut,
        replay=cell.replay,
        distance_s=cell.distance_s,
        bandwidth_bytes_per_s=cell.bandwidth_bytes_per_s,
        standby_device=cell.standby_device,
        replay_cpu_share=cell.replay_cpu_share,
        load=cell.load,
        waldir=cell.waldir,
    )


_UNITS: Mapping[str, UnitBytes] = {"512B": 512, "4kB": 4096, "8kB": 8192}


def _conditions(table: CutTable) -> CutConditions:
    return CutConditions(
        unit_bytes=None if table.unit is None else _UNITS[table.unit],
        writeback_s=None if table.writeback == "never" else float(table.writeback),
        names=table.names,
        failing_flush=table.failing_flush,
        checksums=table.checksums,
        unlogged=table.unlogged,
    )


def _power_cut(study: StudyFile, overrides: Overrides) -> PowerCut | None:
    asked = study.power_cut
    if overrides.power_cut_images is not None:
        return PowerCut(overrides.power_cut_images, only=asked is not None and asked.only)
    return None if asked is None else PowerCut(asked.images, asked.only)


def _crash(study: StudyFile, overrides: Overrides) -> Crash | None:
    if study.crash is None:
        return None
    if overrides.device is not None:
        raise StudyError(
            "--device does not emulate the reads of a recovery",
            detail="An emulated disk delays writes and flushes.",
            hint="Run the study without --device.",
        )
    if study.crash.predict and any(one.transactions is None for one in study.workload):
        raise StudyError(
            "[crash] predict needs workloads of a fixed number of transactions",
            detail="What another variant writes is predicted for the same transactions.",
        )
    return Crash(study.crash.cold, study.crash.predict, study.crash.iops, study.crash.power_cut)


def _with_room(base: Mapping[str, str], workloads: Sequence[Workload]) -> dict[str, str]:
    return {**base, **_room(base, workloads)}


def _room(settings: Mapping[str, str], workloads: Sequence[Workload]) -> dict[str, str]:
    """max_connections, where the load and the probes would not fit into it as it is."""
    needed = max(workload.clients for workload in workloads) + _PROBE_CONNECTIONS
    present = settings.get("max_connections", str(_DEFAULT_MAX_CONNECTIONS))
    if not present.isdigit() or int(present) >= needed + _RESERVED_CONNECTIONS:
        return {}
    return {"max_connections": str(needed + _RESERVED_CONNECTIONS)}


_RESERVED_CONNECTIONS = 3
"""superuser_reserved_connections, left free as the server would."""


def _stop_rule(study: StudyFile, overrides: Overrides) -> tuple[int, float | None, float | None]:
    """(most rounds, half-width, budget). The command line's rule replaces the study's as a whole."""
    design = study.design
    if overrides.rounds is None and overrides.half_width is None and overrides.budget_s is None:
        if overrides.quick:
            return study.quick.rounds, None, None
        rounds, half_width, budget_s = design.rounds, design.half_width, design.budget
    else:
        rounds, half_width, budget_s = overrides.rounds, overrides.half_width, overrides.budget_s
    if rounds is None:
        rounds = _DEFAULT_ROUNDS if half_width is None and budget_s is None else _MOST_ROUNDS
    return rounds, half_width, budget_s


def _probes(names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return tuple(PROBES)
    unknown = [name for name in names if name not in PROBES]
    if unknown:
        raise StudyError(f'probe "{unknown[0]}" does not exist', detail=f"Probes: {', '.join(PROBES)}.")
    return tuple(name for name in PROBES if name in names)


def _require_unique(noun: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise StudyError(f'two of the {noun}s are called "{name}"', hint="Give each its own name.")

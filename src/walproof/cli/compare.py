"""``walproof compare``: an ad-hoc study, each ``--set`` a variant against the defaults.

Configurations (``--conf`` twice), installs (``--pg`` twice) and, for a gate, two versions of a workload can
be compared instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walproof.cli import gate, options, study_options
from walproof.cli.declaration import (
    Override,
    WorkloadKey,
    command_line,
    declared,
    overrides,
    workload_table,
)
from walproof.sentences import say_list

if TYPE_CHECKING:
    from walproof.facts import Install
    from walproof.lab.studyfile import ScriptTable

THIS_VERSION, OTHER_VERSION = "this version", "the other version"
"""Workloads of a gate on two versions."""
_TRANSACTIONS = 4000
"""Transactions of all clients together in each trial of a gate on WAL."""
_TRANSACTIONS_LEAST = 200
"""Fewest transactions of a client, so that all clients are busy together for most of a trial."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What ``walproof compare`` is given."""

    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE[,...]",
            help="One variant: its settings. Repeat for more variants.",
            autocompletion=options.complete_setting,
        ),
    ] = None
    conf: Annotated[
        list[Path] | None,
        typer.Option(
            "--conf",
            metavar="FILE",
            help="A postgresql.conf in place of the defaults. Again for each one that is compared with it.",
        ),
    ] = None
    base: Annotated[
        list[str] | None,
        typer.Option("--base", metavar="NAME=VALUE", help="Setting of every variant, defaults included."),
        Override("base", study_options.one_configuration),
    ] = None
    load: Annotated[
        str | None,
        typer.Option(
            "--load", metavar="FILE", help="The load: a TOML file with one [[workload]], or a built-in study."
        ),
    ] = None
    builtin: Annotated[
        str | None,
        typer.Option("--builtin", help="pgbench script: tpcb-like (default), simple-update, select-only."),
        WorkloadKey("builtin"),
    ] = None
    script: Annotated[
        list[str] | None,
        typer.Option(
            "--script", metavar="FILE[@WEIGHT]", help="pgbench script to use instead. May be repeated."
        ),
    ] = None
    setup: Annotated[
        Path | None,
        typer.Option("--setup", metavar="FILE", help="SQL that makes the script's own tables."),
        WorkloadKey("setup", str),
    ] = None
    script_against: Annotated[
        list[str] | None,
        typer.Option(
            "--script-against",
            metavar="FILE[@WEIGHT]",
            help="With --fail-if: scripts of the version to compare with.",
        ),
    ] = None
    setup_against: Annotated[
        Path | None,
        typer.Option(
            "--setup-against", metavar="FILE", help="With --fail-if: SQL that makes that version's tables."
        ),
    ] = None
    scale: Annotated[
        int | None,
        typer.Option("--scale", min=1, help="pgbench scale factor. Default: 50."),
        WorkloadKey("scale"),
    ] = None
    clients: Annotated[
        int | None,
        typer.Option("--clients", min=1, help="Client sessions. Default: the load's, or 20."),
        WorkloadKey("clients"),
    ] = None
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads of pgbench. Default: the load's, or 2.")
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            help="Offered load in transactions per second. Default: the load's, or as fast as possible.",
        ),
        WorkloadKey("rate"),
    ] = None
    protocol: Annotated[
        str | None,
        typer.Option("--protocol", help="simple, extended, prepared. Default: the load's, or simple."),
        WorkloadKey("protocol"),
    ] = None
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration", metavar="TIME", help="Length of each window. Default: the load's, or 10s."
        ),
        WorkloadKey("duration"),
    ] = None
    transactions: Annotated[
        int | None,
        typer.Option("--transactions", min=1, help="Transactions per client, instead of a duration."),
        WorkloadKey("transactions"),
    ] = None
    warmup: study_options.Warmup = None
    rounds: study_options.Rounds = None
    design: study_options.DesignOption = None
    passes: study_options.Passes = None
    settle: study_options.Settle = None
    within: study_options.Within = None
    budget: study_options.Budget = None
    fail_if: gate.FailIf = None
    undecided: gate.UndecidedOption = gate.Undecided.fail
    junit: gate.Junit = None
    summary: gate.Summary = None
    pg: study_options.Pg = None
    seed: study_options.Seed = None
    device: study_options.Device = None
    power_cut: study_options.PowerCut = None
    keep_failures: study_options.KeepFailures = None
    on: options.On = None
    ray: study_options.Ray = None
    hosts: study_options.Hosts = None
    insecure: study_options.Insecure = False
    out: study_options.Out = options.DEFAULT_OUT
    store: study_options.StoreUrl = None
    dry_run: study_options.DryRun = False
    json: study_options.Json = False
    new: study_options.New = False


@declared
def compare(given: CompareOptions) -> None:
    """Compare settings, configurations or installs with each other.

    The first configuration or install is what the others are compared with. With --fail-if it decides a gate.
    """
    from walproof.cli.execution import carry_out
    from walproof.cli.plan import say_notes, say_unused_duration, say_unused_passes
    from walproof.errors import StudyError
    from walproof.lab.configurations import read_configurations
    from walproof.lab.load_file import read_load
    from walproof.lab.study import Version, ad_hoc, chosen_installs, resolve

    gate.check(given)
    study_options.check_hosts(given)
    _check(given)
    has_duration = given.duration is not None and given.transactions is None
    tables, scripts = ({"workload": [{}]}, Path()) if given.load is None else read_load(given.load)
    given = in_full(given, tables)
    against = _against(given)
    setups = _setups(given, against)
    (workload,) = tables["workload"]
    name = workload.get("name", f"scale {given.scale}") if against is None else THIS_VERSION
    chosen = chosen_installs(tuple(given.pg or map(str, tables.get("pg", ()))))
    if len(chosen) < len(given.pg or []):
        # Also by two names.
        raise StudyError("an install is named twice", detail=f"Given: {', '.join(given.pg or [])}.")
    is_judged = bool(given.fail_if)
    configurations = read_configurations(given.conf, chosen, is_judged=is_judged) if given.conf else None
    if configurations is not None:
        configurations = configurations.under(study_options.one_configuration(given.base or []))
    if configurations is not None and not is_judged:
        # A gate on a change that changes nothing holds.
        configurations.require_differences()
    study = ad_hoc(
        options.parse_sets(given.set_ or []),
        {**_keys(given, workload, setups), "name": name},
        _scripts(given.script),
        None
        if against is None
        else Version({**_keys(against, workload, setups), "name": OTHER_VERSION}, _scripts(against.script)),
        configurations,
        tables,
    )
    folder = options.work_folder(given.on, of_hosts=given.ray is not None)
    notes = (
        *(() if configurations is None else configurations.notes),
        *_majors(given.load, tuple(map(str, tables.get("pg", ()))), chosen),
    )
    plan = resolve(study, overrides(given), folder=folder, scripts=scripts, given=chosen, notes=notes)
    say_notes(plan)
    if has_duration:
        say_unused_duration(plan)
    if given.passes is not None:
        say_unused_passes(plan)
    if given.ray is not None and not given.dry_run:
        from walproof.cli.host_run import carry_out_over_hosts

        carry_out_over_hosts(plan, command_line("compare", given), given, given.on)
        return
    view = carry_out(plan, command_line("compare", given), given, keep_failures=given.keep_failures)
    gate.conclude(view, given)


def _majors(load: str | None, named: Sequence[str], chosen: Sequence[Install]) -> tuple[str, ...]:
    """That the load was made for another major version than is measured."""
    from walproof.cli.majors import named_major, other_major

    read = named_major(named)
    note = None if load is None or read is None else other_major(f"load {load}", read, chosen)
    return () if note is None else (note,)


def _check(given: CompareOptions) -> None:
    """Refuse what compares nothing, and two loads. Raises StudyError."""
    from walproof.errors import StudyError

    if given.load is not None:
        parts = ("builtin", "script", "setup", "script_against", "setup_against", "scale")
        typed = [f"--{name.replace('_', '-')}" for name in parts if getattr(given, name) is not None]
        if typed:
            raise StudyError(
                f"--load and {typed[0]} both say what the load is",
                hint=f"Leave out {say_list(typed)}, or change the load's file.",
            )
    if given.builtin is not None and given.script:
        raise StudyError(
            "--builtin and --script both say what clients run",
            hint="Leave one of them out; a load's file can mix scripts by weights.",
        )
    if given.duration is not None and given.transactions is not None:
        raise StudyError(
            "--duration and --transactions both say when a window ends",
            hint="Leave one of them out.",
        )
    versions = given.script_against or given.setup_against is not None
    if versions and not given.fail_if:
        raise StudyError(
            "two versions of scripts and tables are compared by a gate only",
            hint='Say what must not happen: --fail-if "wal_bytes_per_txn > 1.02x".',
        )
    if given.script_against and not given.script:
        raise StudyError(
            "--script-against needs --script",
            hint="--script is the version that is judged against the other.",
        )
    if not given.set_ and max(len(given.pg or []), len(given.conf or [])) < 2 and not versions:
        raise StudyError(
            "there is nothing to compare",
            hint="Name settings (--set NAME=VALUE), a second configuration (--conf twice) or install (--pg "
            "twice)."
            + (
                " Or name the other version of a workload (--script-against, --setup-against)."
                * bool(given.fail_if)
            ),
        )


def in_full(given: CompareOptions, tables: Mapping[str, Any]) -> CompareOptions:
    """The options with their defaults, so that a later default changes nothing that is measured.

    What the load's file says is left to the file.
    """
    (workload,) = tables["workload"]
    if given.load is None:
        given = replace(
            given,
            scale=given.scale or 50,
            clients=given.clients or 20,
            threads=given.threads or 2,
            builtin=None if given.script else given.builtin or "tpcb-like",
        )
    # A window has a length or a number of transactions.
    if given.transactions is not None:
        return replace(given, duration=None)
    if given.duration is not None:
        return given
    equal = _equal_transactions(given, workload)
    if equal is not None:
        return replace(given, transactions=equal)
    return given if {"duration", "transactions"} & set(workload) else replace(given, duration="10s")


def _equal_transactions(given: CompareOptions, workload: Mapping[str, Any]) -> int | None:
    """Transactions of each client where the gate is about WAL and nobody said otherwise; None for a duration.

    The bytes of a transaction depend on how many came before it since the checkpoint, so they vary least when
    both sides run equally many.
    """
    is_about_wal = any(
        promise.metric.startswith("wal_") for promise in gate.read_promises(given.fail_if or [])
    )
    said: list[object] = [given.design, given.passes, given.settle, given.rate, given.warmup, given.power_cut]
    said += [workload.get("rate"), workload.get("transactions")]
    if not is_about_wal or any(option is not None for option in said):
        return None
    return max(_TRANSACTIONS_LEAST, -(-_TRANSACTIONS // (given.clients or int(workload.get("clients", 1)))))


def _against(given: CompareOptions) -> CompareOptions | None:
    """The options of the other version: what is not given for it is as in this one. None if there is none."""
    if not given.script_against and given.setup_against is None:
        return None
    scripts = given.script_against or given.script
    setup = given.setup_against or given.setup
    return replace(given, script=scripts, setup=setup, builtin=None if scripts else given.builtin)


def _setups(*versions: CompareOptions | None) -> dict[Path, str]:
    """The text of each file that makes tables, whatever its name ends in. Each is read once, because what the
    shell makes of <(git show main:tables.sql) can be read only once. Raises StudyError."""
    from walproof.lab.asked import text_of

    paths = {given.setup for given in versions if given is not None and given.setup is not None}
    return {path: text_of(str(path), Path(), "setup", must=True) for path in paths}


def _keys(
    given: CompareOptions, workload: Mapping[str, Any], setups: Mapping[Path, str]
) -> dict[str, object]:
    """Keys of ``[[workload]]``: the load's, and over them what was typed. ``setups``: texts of files."""
    typed = workload_table(given)
    if given.setup is not None:
        typed["setup"] = setups[given.setup]
    window = {"duration", "transactions"}
    others = {key: value for key, value in workload.items() if key not in window or not window & set(typed)}
    keys = {**others, **typed}
    if "transactions" in typed:
        # A file's warm-up is for windows: so many transactions may all be over before it is.
        keys.pop("warmup", None)
    threads = given.threads or int(workload.get("threads", 1))
    return {**keys, "threads": min(threads, int(str(keys.get("clients", 1))))}


def _scripts(texts: Sequence[str] | None) -> list[ScriptTable]:
    from walproof.lab.studyfile import ScriptTable

    return [ScriptTable.model_validate(_script(text)) for text in texts or []]


def _script(text: str) -> dict[str, str | int]:
    """``FILE[@WEIGHT]``, as pgbench's --file has it. Raises StudyError."""
    from walproof.errors import StudyError

    file, at, weight = text.rpartition("@")
    if at and weight.isdecimal():
        if int(weight) == 0:
            raise StudyError(
                f'the weight of script "{file}" is 0: it would never run',
                hint="Leave it out, or give it a weight of 1 or more.",
            )
        return {"file": file, "weight": int(weight)}
    return {"file": text}

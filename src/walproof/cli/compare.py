"""``walproof compare``: an ad-hoc study, each ``--set`` a variant against the defaults.

Configurations (``--conf`` twice), installs (``--pg`` twice) and, for a gate, two versions of a workload can
be compared instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import gate, options, study_options
from walproof.cli.declaration import (
    Override,
    Repeated,
    WorkloadKey,
    command_line,
    declared,
    overrides,
    workload_table,
)

if TYPE_CHECKING:
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
            "--set", metavar="NAME=VALUE[,...]", help="One variant: its settings. Repeat for more variants."
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
    builtin: Annotated[
        str | None,
        typer.Option("--builtin", help="pgbench script: tpcb-like, simple-update, select-only."),
        WorkloadKey("builtin"), Repeated.CHANGED,
    ] = "tpcb-like"  # fmt: skip
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
        int, typer.Option("--scale", min=1, help="pgbench scale factor."), WorkloadKey("scale")
    ] = 50
    clients: Annotated[
        int, typer.Option("--clients", min=1, help="Client sessions."), WorkloadKey("clients")
    ] = 20
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of pgbench.")] = 2
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Offered load in transactions per second. Default: as fast as possible."),
        WorkloadKey("rate"),
    ] = None
    protocol: Annotated[
        str,
        typer.Option("--protocol", help="simple, extended or prepared."),
        WorkloadKey("protocol"), Repeated.CHANGED,
    ] = "simple"  # fmt: skip
    duration: Annotated[
        str | None,
        typer.Option("--duration", metavar="TIME", help="Length of each window. Default: 10s."),
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
    from walproof.cli.plan import read_and_say, say_unused_duration
    from walproof.lab.study import Version, ad_hoc, chosen_installs, resolve

    gate.check(given)
    _check(given)
    has_duration = given.duration is not None and given.transactions is None
    # What is measured is said in full: a window's length or its transactions, scripts or a built-in one.
    if given.transactions is not None:
        given = replace(given, duration=None)
    elif given.duration is None:
        equal = _equal_transactions(given)
        given = replace(given, duration="10s") if equal is None else replace(given, transactions=equal)
    against = _against(given)
    if given.script:
        given = replace(given, builtin=None)
    name = f"scale {given.scale}" if against is None else THIS_VERSION
    chosen = chosen_installs(tuple(given.pg or ()))
    configurations = read_and_say(given.conf, chosen) if given.conf else None
    if configurations is not None and not given.fail_if:
        # A gate on a change that changes nothing holds.
        configurations.require_differences()
    study = ad_hoc(
        options.parse_sets(given.set_ or []),
        {"name": name, **_keys(given)},
        _scripts(given.script),
        None
        if against is None
        else Version({"name": OTHER_VERSION, **_keys(against)}, _scripts(against.script)),
        configurations,
    )
    plan = resolve(study, overrides(given), folder=options.work_folder(given.on), given=chosen)
    if has_duration:
        say_unused_duration(plan)
    if given.ray is not None and not given.dry_run:
        from walproof.cli.host_run import carry_out_over_hosts

        carry_out_over_hosts(plan, command_line("compare", given), given, given.on)
        return
    view = carry_out(plan, command_line("compare", given), given, keep_failures=given.keep_failures)
    gate.conclude(view, given)


def _check(given: CompareOptions) -> None:
    """Refuse what compares nothing. Raises StudyError."""
    from walproof.errors import StudyError

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


def _equal_transactions(given: CompareOptions) -> int | None:
    """Transactions of each client where the gate is about WAL and nobody said otherwise; None for a duration.

    The bytes of a transaction depend on how many came before it since the checkpoint, so they vary least when
    both sides run equally many.
    """
    is_about_wal = any(
        promise.metric.startswith("wal_") for promise in gate.read_promises(given.fail_if or [])
    )
    said = (given.design, given.passes, given.settle, given.rate, given.warmup, given.power_cut)
    if not is_about_wal or any(option is not None for option in said):
        return None
    return max(_TRANSACTIONS_LEAST, -(-_TRANSACTIONS // given.clients))


def _against(given: CompareOptions) -> CompareOptions | None:
    """The options of the other version: what is not given for it is as in this one. None if there is none."""
    if not given.script_against and given.setup_against is None:
        return None
    scripts = given.script_against or given.script
    setup = given.setup_against or given.setup
    return replace(given, script=scripts, setup=setup, builtin=None if scripts else given.builtin)


def _keys(given: CompareOptions) -> dict[str, object]:
    return {"threads": min(given.threads, given.clients), **workload_table(given)}


def _scripts(texts: Sequence[str] | None) -> list[ScriptTable]:
    from walproof.lab.studyfile import ScriptTable

    return [ScriptTable.model_validate(_script(text)) for text in texts or []]


def _script(text: str) -> dict[str, str | int]:
    """``FILE[@WEIGHT]``, as pgbench's --file has it."""
    file, at, weight = text.rpartition("@")
    if at and weight.isdigit():
        return {"file": file, "weight": int(weight)}
    return {"file": text}

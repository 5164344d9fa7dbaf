"""What an experiment does in each trial, in words: for the report's setup, and for ``--dry-run``."""

from __future__ import annotations

from walproof.facts import Failover, Load, Plan, Replay, Statements, Streaming, Variant, Workload
from walproof.units import format_bytes, format_duration


def load_of(plan: Plan, workload: Workload) -> str:
    """The load of a workload in a word or two: a script's name, or what takes its place."""
    match plan.kind:
        case Load(table=table):
            return f"rows into {table}"
        case Failover():
            return "ledger"
        case Replay() | Streaming():
            return "prepared INSERTs"
        case Statements() if workload.statements:
            return f"{len(workload.statements)} statements"
    return workload.builtin or " + ".join(script.name for script in workload.scripts)


def driven_by(plan: Plan) -> str:
    """Who makes the load, and how much of what, in a sentence."""
    match plan.kind:
        case Load() as load:
            source = "generated from the seed" if load.file is None else f"from {load.file}"
            return f"{load.rows:,} rows into {load.table}, {source}; clients are walproof's own processes."
        case Failover() as failover:
            return f"A ledger in {failover.sessions} sessions, by walproof itself."
        case Streaming() as streaming:
            return (
                f"Each transaction inserts {streaming.rows_per_commit} rows into five partitioned tables "
                f"that hold {streaming.preloaded_rows:,}. Driven by pgbench {plan.driver.version}."
            )
        case Replay() as replay:
            return (
                f"{replay.rows:,} rows into five partitioned tables that hold "
                f"{replay.preloaded_rows:,}, {replay.rows_per_commit} a commit, by walproof itself."
            )
        case Statements():
            return "Each statement is measured by itself, on a quiet server, by walproof itself."
    return f"Driven by pgbench {plan.driver.version}."


def conditions(variant: Variant) -> dict[str, str]:
    """What a variant has beside settings that is not as in every variant, in the words of a study file."""
    found = {}
    if variant.replay.checksums:
        found["data_checksums"] = "on"
    if variant.replay.is_cold:
        found["cache"] = "cold"
    if variant.replay.kernel_audit != "off":
        found["kernel_audit"] = variant.replay.kernel_audit
    if variant.distance_s:
        found["distance"] = format_duration(variant.distance_s)
    if variant.bandwidth_bytes_per_s is not None:
        found["bandwidth"] = f"{format_bytes(variant.bandwidth_bytes_per_s)}/s"
    if variant.standby_device is not None:
        found["standby_device"] = variant.standby_device
    if variant.replay_cpu_share < 1:
        found["replay_cpu"] = f"{variant.replay_cpu_share * 100:g}%"
    return found

"""Causes on WAL's way from the upstream to the standby's disk."""

from __future__ import annotations

from walproof.advise.replica.arriving import walreceiver_silent
from walproof.advise.replica.cause import (
    SHARE,
    Cause,
    NamedCause,
    is_late,
    most_seen,
    streams,
)
from walproof.analysis.replication import (
    IO_WAITS,
    KEEPING_UP_S,
    LagSplit,
    Stage,
    share,
)
from walproof.facts.replication import ReplicationWindow
from walproof.sentences import say_percent
from walproof.units import format_bytes, format_duration


def generation(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The upstream's own disk: WAL is sent when it is flushed there."""
    stage = split.stage(Stage.GENERATION)
    if stage.lag_s < KEEPING_UP_S:
        return None
    return NamedCause(
        Cause.GENERATION,
        "The upstream does not flush its own WAL in time; only flushed WAL is sent.",
        (f"{format_bytes(stage.lag_bytes)} written and not flushed for {format_duration(stage.lag_s)}",),
        ("Look at the disk of the upstream's pg_wal.",),
    )


def network(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """WAL waits to be sent, or is on its way, while the standby waits for it."""
    waits = window.waits.get("walreceiver", {})
    if not streams(window) or not is_late(split, Stage.NETWORK, Stage.WRITE):
        return None
    if share(waits, IO_WAITS) >= SHARE or walreceiver_silent(window, split) is not None:
        return None
    rates = split.rates
    evidence = [
        f"{format_bytes(split.stage(Stage.NETWORK).lag_bytes)} wait on the upstream to be sent, "
        f"{format_bytes(split.stage(Stage.WRITE).lag_bytes)} are on their way",
        f"WAL arrives at {format_bytes(rates.written_bytes_per_s)}/s and is made at "
        f"{format_bytes(rates.generated_bytes_per_s)}/s",
    ]
    if idle := share(waits, ("Activity/",)):
        evidence.append(f"the walreceiver waited for WAL in {say_percent(idle)} of the looks")
    if full := share(window.waits.get("walsender", {}), ("Client/WalSenderWriteData",)):
        evidence.append(
            f"the walsender waited for the network to take more in {say_percent(full)} of the looks"
        )
    if (sender := window.last.upstream.sender) is not None and sender.state != "streaming":
        evidence.append(f"the walsender's state is {sender.state}")
    return NamedCause(
        Cause.NETWORK,
        "The network is the limit: WAL waits to be sent while the standby waits for it.",
        tuple(evidence),
        (
            "Compare the rate with the link's; look for a narrow link, loss, or distance.",
            "wal_compression makes less WAL where full-page images are its bulk, for CPU on the primary.",
        ),
    )


def flush(window: ReplicationWindow, split: LagSplit) -> NamedCause | None:
    """The disk of the standby's pg_wal."""
    waits = window.waits.get("walreceiver", {})
    if not streams(window) or not is_late(split, Stage.NETWORK, Stage.WRITE, Stage.FLUSH):
        return None
    seen = share(waits, IO_WAITS)
    if seen < SHARE and not is_late(split, Stage.FLUSH):
        return None
    evidence = [
        f"{format_bytes(split.stage(Stage.FLUSH).lag_bytes)} are written on the standby and not flushed",
        f"WAL is flushed there at {format_bytes(split.rates.flushed_bytes_per_s)}/s and made at "
        f"{format_bytes(split.rates.generated_bytes_per_s)}/s",
    ]
    if seen:
        evidence.insert(
            0, f"the walreceiver waited for {most_seen(waits, IO_WAITS)} in {say_percent(seen)} of the looks"
        )
    return NamedCause(
        Cause.FLUSH,
        "The standby's disk is the limit: its walreceiver waits for WAL to be written and flushed.",
        tuple(evidence),
        (
            "Put pg_wal of the standby on a disk that flushes faster; walproof disk measures it.",
            "With synchronous_commit = on, commits on the primary wait for this flush.",
        ),
    )

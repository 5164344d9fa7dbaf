"""Why a standby is behind: from what was seen of a pair to causes.

A table of rules, each a function of the window and its split. States come first (nothing arrives, paused),
because they explain every lag that follows from them; then what limits each stage on WAL's way. A pair that
is idle, or that keeps up, has no cause. One that falls behind has one always, if only "unexplained".
"""

from __future__ import annotations

from dataclasses import dataclass

from walproof.advise.replica.arriving import (
    archive_recovery,
    local_replay,
    missing_segment,
    walreceiver_absent,
    walreceiver_silent,
)
from walproof.advise.replica.cause import NamedCause, Rule
from walproof.advise.replica.holding import apply_delay, conflict, replay_paused
from walproof.advise.replica.replaying import replay, replay_cpu, replay_io, replay_starved
from walproof.advise.replica.sending import flush, generation, network
from walproof.advise.replica.unexplained import unexplained
from walproof.analysis.replication import LagSplit, split_lag
from walproof.facts.replication import ReplicationWindow

RULES: tuple[Rule, ...] = (
    missing_segment,
    walreceiver_absent,
    archive_recovery,
    walreceiver_silent,
    replay_paused,
    conflict,
    apply_delay,
    generation,
    flush,
    network,
    replay_starved,
    replay_cpu,
    replay_io,
    replay,
    local_replay,  # after what holds such a replay
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a window says about a pair."""

    split: LagSplit
    causes: tuple[NamedCause, ...]
    """The one that explains most first; empty for a pair that is idle or keeps up."""


def diagnose(window: ReplicationWindow) -> Diagnosis:
    """The lag of the window, split, and its causes."""
    split = split_lag(window)
    found = [cause for rule in RULES if (cause := rule(window, split)) is not None]
    if not found and (admitted := unexplained(window, split)) is not None:
        found = [admitted]
    return Diagnosis(split, tuple(found))

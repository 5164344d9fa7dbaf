"""A checkpoint_timeout that is shorter than the default is looked at, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.test_whatif import make, outcome
from walproof.advise.server.checkpoints import choice
from walproof.analysis.whatif import Question, ServerLimits, study
from walproof.wal.whatif import SimulatedRun, Target

TIMES = 1.4
"""How much more WAL there is with checkpoints that begin after less than five minutes."""


def _outcome(target: Target) -> SimulatedRun:
    # A size that decides nothing: all of the difference is the timeout's.
    found = outcome(replace(target, max_wal_size_mb=4096))
    is_short = (target.checkpoint_timeout_s or 300) < 300
    return replace(found, wal_bytes=int(found.wal_bytes * (TIMES if is_short else 1)))


@pytest.mark.parametrize("timeout_s", [30, 300])
def test_a_short_timeout_is_made_longer_where_that_saves_wal(timeout_s: int) -> None:
    question = Question(Target(max_wal_size_mb=4096, checkpoint_timeout_s=timeout_s), is_present_known=True)
    made = make(question)
    simulated = replace(made.found, outcomes=tuple(_outcome(target) for target in made.found.targets))
    found = choice(study(simulated, question), ServerLimits())
    if timeout_s == 300:
        assert found is None
    else:
        assert found is not None
        assert ("checkpoint_timeout", "5min") in {(change.name, change.value) for change in found.changes}

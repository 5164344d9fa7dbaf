"""A study whose standbys are on other hosts: first checks and hosts, then an ordinary run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.errors import StudyError
from walproof.sentences import say_count

if TYPE_CHECKING:
    from walproof.cli.study_options import HostExecution
    from walproof.facts import Plan
    from walproof.report.layout import ReportView


def carry_out_between(
    plan: Plan,
    count: int,
    command: Sequence[str],
    given: HostExecution,
    on: Path | None,
    listen: str | None,
    study_text: str | None = None,
) -> ReportView | None:
    """Carry out the plan with its standbys on ``count`` other hosts. Raises a WalproofError."""
    from walproof.cli.execution import carry_out
    from walproof.cli.options import work_folder

    if given.ray is None:
        raise StudyError(
            f"variants of the study need {say_count(count, 'other host')} for their standbys",
            hint="--ray HOST:PORT names the cluster that has them (docs/many-machines.md).",
        )
    if given.hosts is not None:
        raise StudyError(
            "--hosts means nothing in a study between hosts", detail="It takes as many as its variants need."
        )
    work_folder(on)  # of the primary; each host looks for its own
    from walproof.hosts.between import standby_hosts
    from walproof.hosts.cluster import connected

    with (
        connected(given.ray, insecure=given.insecure) as cluster,
        standby_hosts(
            cluster, count, plan.installs, listen=listen, folder=None if on is None else str(on.absolute()),
            insecure=given.insecure, tell=lambda line: print(line, file=sys.stderr),
        ) as hosts,
    ):  # fmt: skip
        return carry_out(plan, command, given, study_text=study_text, other_hosts=hosts)

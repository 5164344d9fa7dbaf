"""The hosts of a tuning: each carries out every step by itself, so comparisons stay within a host.

This machine decides the steps, records the load and judges limits; the hosts measure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.errors import HostError, StudyError

if TYPE_CHECKING:
    from walproof.advise.tune.space import Capacity
    from walproof.analysis.hosts import HostStudy
    from walproof.cli.tune import TuneOptions
    from walproof.facts import Plan
    from walproof.facts.store import Store
    from walproof.facts.tuning_journal import StepTaken
    from walproof.hosts.cluster import Host
    from walproof.lab.tune.conduct import StepOnHosts


class RayHosts:
    """``walproof.lab.tune.conduct.Hosts`` on a Ray cluster."""

    def __init__(self, hosts: Sequence[Host], url: str, on: Path | None) -> None:
        """``url``: the store that all hosts reach; ``on``: the folder for servers on each host."""
        self._hosts = list(hosts)
        self._url, self._on = url, None if on is None else str(on.absolute())

    def carry_out(self, plan: Plan, command: Sequence[str]) -> StepOnHosts:
        """Let each host carry out the whole plan. A host that fails is left out from then on.

        Raises HostError if no host finishes.
        """
        from walproof.cli.host_run import RunOrder, carry_out_here
        from walproof.facts.codec import to_json
        from walproof.facts.tuning_journal import HostRun
        from walproof.hosts.study import on_hosts
        from walproof.lab.tune.conduct import StepOnHosts

        names = tuple(host.machine.name for host in self._hosts)
        orders = [
            RunOrder(to_json(plan), tuple(command), self._url, None, self._on, False, name, names, once=True)
            for name in names
        ]
        carried = on_hosts(self._hosts, carry_out_here, orders, _tell)
        runs = tuple(
            HostRun(result.host.machine.name, result.answer)
            for result in carried
            if result.answer is not None
        )
        left_out = tuple(
            f"host {result.host.machine.name} is left out: {result.reason}"
            for result in carried
            if result.answer is None
        )
        if not runs:
            raise HostError(
                "no host finished a step",
                detail="\n".join(left_out),
                hint="What was measured is stored; the same command resumes the tuning.",
            )
        self._hosts = [result.host for result in carried if result.answer is not None]
        return StepOnHosts(runs, left_out)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Claim this machine, as a host is claimed while it measures. Raises HostError if it is busy."""
        from walproof.cli.host_run import busy
        from walproof.facts.store import Store
        from walproof.hosts.task import boot_id

        store = Store(self._url)
        try:
            with store.claim(f"on machine {boot_id()}") as is_ours:
                if not is_ours:
                    raise busy()
                yield
        finally:
            store.close()

    def narrowest(self, here: Capacity) -> Capacity:
        """The least memory and the least free disk of all hosts and of this machine. Raises HostError."""
        from walproof.advise.tune.space import Capacity
        from walproof.facts.codec import from_json
        from walproof.hosts.study import on_hosts

        carried = on_hosts(self._hosts, look_at, [self._on or ""] * len(self._hosts), lambda _: None)
        if silent := [
            f"{result.host.machine.name}: {result.reason}" for result in carried if result.answer is None
        ]:
            raise HostError("hosts did not report their memory and disk", detail="\n".join(silent))
        found = [
            here,
            *(from_json(Capacity, result.answer) for result in carried if result.answer is not None),
        ]
        return Capacity(
            min(machine.memory_bytes for machine in found), min(machine.disk_bytes for machine in found)
        )


def look_at(on: str) -> str:
    """The memory of this machine and the free disk space where its servers live, as JSON."""
    from walproof.cli.options import work_folder
    from walproof.cli.tune_prepare import machine_of
    from walproof.facts.codec import to_json

    return to_json(machine_of(work_folder(Path(on) if on else None)))


@contextmanager
def tuning_hosts(given: TuneOptions) -> Iterator[RayHosts | None]:
    """The hosts of ``--ray``; None without it, or if only the plan is wanted.

    Raises HostError, StudyError.
    """
    if given.ray is None:
        if given.hosts is not None or given.insecure:
            raise StudyError("--hosts and --insecure are for a tuning over hosts", hint="Add --ray.")
        yield None
        return
    from walproof.cli.host_run import shared_url

    url = shared_url(given.store)
    if given.dry_run:
        yield None
        return
    from walproof.hosts.cluster import connected
    from walproof.hosts.study import choose

    with connected(given.ray, insecure=given.insecure) as cluster:
        hosts = choose(cluster, given.hosts, _tell)
        _tell(f"hosts: {', '.join(host.machine.name for host in hosts)}")
        yield RayHosts(hosts, url, given.on)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def host_study(taken: Sequence[StepTaken], store: Store, metric: str) -> HostStudy | None:
    """The last comparison with the winner that several hosts made, hosts as blocks; None if there is none.

    Raises StoreError, AnalysisError.
    """
    from walproof.analysis.hosts import over_hosts
    from walproof.facts.tuning import Purpose

    for purpose in (Purpose.FINAL, Purpose.LINES, Purpose.CONFIRM):
        for step in reversed(taken):
            if step.step.purpose is purpose and step.step.design == "fresh" and len(step.hosts) > 1:
                plan = store.run(step.hosts[0].run).plan
                return over_hosts(
                    plan, {host_run.host: store.trials(host_run.run) for host_run in step.hosts}, metric
                )
    return None

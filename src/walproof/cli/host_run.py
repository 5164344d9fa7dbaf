"""A study over several hosts: what each host does by itself, and the result of all together."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from walproof.errors import HostError, StudyError

if TYPE_CHECKING:
    from walproof.cli.study_options import HostExecution
    from walproof.facts import Plan, Run


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What a host is told: text and numbers, which every version of Python reads alike."""

    plan: str
    command: tuple[str, ...]
    store: str
    study_text: str | None
    on: str | None
    new: bool
    host: str
    hosts: tuple[str, ...]
    """All hosts that carry out the study."""
    once: bool = False
    """Whether a finished run of this plan on the host is its answer, as for a step of a tuning."""


def carry_out_over_hosts(
    plan: Plan, command: Sequence[str], given: HostExecution, on: Path | None, study_text: str | None = None
) -> None:
    """Carry out the plan on every host. The result over hosts goes to stdout and into ``--out``.

    Raises a WalproofError if the hosts or the store cannot be used, no host finished, or all trials failed.
    """
    from walproof.analysis.hosts import over_hosts
    from walproof.analysis.unmeasured import failed_hosts, require_finished_trial
    from walproof.cli.execution import private_out
    from walproof.cli.files import write_file
    from walproof.cli.options import open_store, result_console
    from walproof.facts.codec import plan_hash, to_json
    from walproof.hosts.cluster import connected
    from walproof.hosts.study import choose, on_hosts
    from walproof.report import hosts as report
    from walproof.report.kinds.registry import report_kind
    from walproof.report.terminal import print_page

    assert given.ray is not None
    if plan.gate is not None:
        raise StudyError("a gate is decided on one machine", hint="Leave out --ray or --fail-if.")
    private_out(given.out)
    store = open_store(given.out, given.store)
    try:
        url = shared_url(given.store)
        ended_before = {run.id for run in store.runs() if run.finished_at is not None}

        def tell(line: str) -> None:
            sys.stderr.write(f"{line}\n")

        with connected(given.ray, insecure=given.insecure) as cluster:
            hosts = choose(cluster, given.hosts, tell)
            tell(f"hosts: {', '.join(host.machine.name for host in hosts)}")
            orders = [
                RunOrder(
                    to_json(plan), tuple(command), url, study_text,
                    None if on is None else str(on.absolute()), given.new, host.machine.name,
                    tuple(other.machine.name for other in hosts),
                )
                for host in hosts
            ]  # fmt: skip
            carried = on_hosts(
                hosts, carry_out_here, orders, tell, again=lambda order: replace(order, new=False)
            )
        runs = {
            carried_out.host.machine.name: carried_out.answer
            for carried_out in carried
            if carried_out.answer is not None
        }
        left_out = {
            carried_out.host.machine.name: carried_out.reason
            for carried_out in carried
            if carried_out.reason is not None
        }
        for host, run in runs.items():
            if run in ended_before:
                tell(f"{host}: run {run} had ended before, and is taken")
        if not runs:
            raise HostError(
                "no host finished",
                detail="\n".join(f"{host}: {reason}" for host, reason in left_out.items()),
                hint="What was measured is stored, and the same command continues.",
            )
        trials = {host: store.trials(run) for host, run in runs.items()}
        left_out |= failed_hosts(trials)
        study = over_hosts(plan, trials, report_kind(plan.kind).metric_of(plan))
    finally:
        store.close()
    view = report.hosts_view(plan, study, runs, left_out)
    page = given.out / "reports" / f"{plan.study}-{plan_hash(plan)[:8]}-hosts.html"
    write_file(page, report.to_html(view))
    if given.json:
        sys.stdout.write(report.to_json(study, runs, left_out))
    else:
        console = result_console()
        print_page(view.question, view.dateline, view.sections, console)
    sys.stderr.write(f"report: {page}\n")
    require_finished_trial([trial for of_host in trials.values() for trial in of_host])


def shared_url(url: str | None) -> str:
    """The store's address, for every host. Raises StudyError for an address that cannot be sent."""
    from walproof.facts.place import find_place

    if url is None or find_place(url).path is not None:
        raise StudyError(
            "hosts need a store that all of them reach",
            hint="Name a PostgreSQL database with --store, as in 'postgresql:///?service=facts'; every host "
            "needs the service file.",
        )
    address = urlsplit(url)
    if address.password is not None or any(key.endswith("password") for key in parse_qs(address.query)):
        raise StudyError(
            "the address of the store has a password, which would be sent to every host",
            hint="Use a service file or ~/.pgpass on each host: --store 'postgresql:///?service=facts'.",
        )
    return url


def carry_out_here(order: RunOrder) -> str:
    """Carry out the plan on this machine, or the rest of it, and return the run's id.

    Installs and folder are those of this machine. Raises a WalproofError.
    """
    from walproof.analysis.within import DueCells
    from walproof.cli.execution import never, stop_rule
    from walproof.cli.options import memory_folder, work_folder
    from walproof.facts import Plan
    from walproof.facts.codec import from_json
    from walproof.facts.store import Store
    from walproof.files import private_folder
    from walproof.hosts.task import boot_id
    from walproof.lab.kinds.registry import lab_kind
    from walproof.lab.schedule import Unseen
    from walproof.lab.session import execute
    from walproof.postgres.cache import cache_folder
    from walproof.postgres.install import on_host

    told = from_json(Plan, order.plan)
    folder_of = memory_folder if lab_kind(told.kind).works_in_memory else work_folder
    plan = replace(
        told,
        installs=on_host(told.installs),
        driver=on_host((told.driver,))[0],
        folder=str(folder_of(None if order.on is None else Path(order.on))),
    )
    within = stop_rule(plan)
    locks = cache_folder() / "hosts" / order.host.replace("/", "-")
    private_folder(locks)
    store = Store(order.store)
    try:
        with _alone(locks), store.claim(f"on machine {boot_id()}") as is_ours:
            if not is_ours:
                raise busy()
            if order.once and (ended := ended_runs(store.runs(), order, plan)):
                return ended[-1].id
            if not order.new and (done := ended_in_study(store.runs(), order, plan)) is not None:
                return done.id
            run = execute(
                plan, store, order.command, DueCells(plan, within), within or never, Unseen(), locks=locks,
                study_text=order.study_text, fresh=order.new, host=order.host, kept=locks / "kept",
            )  # fmt: skip
        return run.id
    finally:
        store.close()


def ended_runs(runs: Sequence[Run], order: RunOrder, plan: Plan) -> list[Run]:
    """Finished runs of this plan on this host, with the same command."""
    from walproof.facts.codec import plan_hash

    digest = plan_hash(plan)
    return [
        run
        for run in runs
        if run.command == order.command
        and run.finished_at is not None
        and run.environment.facts.get("host") == order.host
        and plan_hash(run.plan) == digest
    ]


def ended_in_study(runs: Sequence[Run], order: RunOrder, plan: Plan) -> Run | None:
    """The run of this plan that this host has finished of an unfinished study over hosts; None if there is
    none.

    The study is unfinished if the newest run of a host is unfinished and measures the same: with that run the
    command goes on. This host's run belongs to the study if it ended after that run had begun.
    """
    from walproof.facts.codec import plan_hash

    newest = {
        host: run
        for run in runs
        if (host := run.environment.facts.get("host")) in order.hosts
        and (run.plan.study, run.command) == (plan.study, order.command)
    }
    measured = _measured_anywhere(plan)
    open_since = min(
        (
            run.created_at
            for run in newest.values()
            if run.finished_at is None and _measured_anywhere(run.plan) == measured
        ),
        default=None,
    )
    own = newest.get(order.host)
    if open_since is None or own is None or own.finished_at is None or own.finished_at <= open_since:
        return None
    return own if plan_hash(own.plan) == plan_hash(plan) else None


def _measured_anywhere(plan: Plan) -> str:
    """What the plan measures, whichever host's folders it names."""
    from walproof.facts.codec import measured_json

    installs = tuple(replace(install, bindir="", origin="") for install in plan.installs)
    driver = replace(plan.driver, bindir="", origin="")
    return measured_json(replace(plan, installs=installs, driver=driver, folder=""))


@contextmanager
def _alone(locks: Path) -> Iterator[None]:
    """Keep other studies of this user off this machine, even while the store with the claim is away."""
    with (locks / ".machine.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy() from None
        yield


def busy() -> HostError:
    """The error if this machine is measuring for another study."""
    return HostError(
        "another study runs on this machine",
        hint="Trials that run at the same time disturb each other; wait for it to end.",
    )

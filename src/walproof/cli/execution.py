"""What commands that measure share once there is a plan: print it, or carry it out and report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.cli import Interrupted
from walproof.cli.files import check_folder, write_file
from walproof.cli.options import open_store, result_console
from walproof.cli.plan import expected_round_s, plan_text
from walproof.cli.progress import TerminalProgress
from walproof.cli.stored import view_of
from walproof.cli.streams import reader_may_leave
from walproof.cli.study_options import Execution
from walproof.errors import StoreError, StudyError
from walproof.facts import Plan, Run, Trial
from walproof.facts.codec import plan_hash, to_json
from walproof.facts.store import Store
from walproof.files import private_folder

if TYPE_CHECKING:
    from walproof.analysis.within import Within
    from walproof.lab.joining import OtherHosts
    from walproof.report.layout import ReportView


def carry_out(
    plan: Plan,
    command: Sequence[str],
    given: Execution,
    *,
    study_text: str | None = None,
    keep_failures: Path | None = None,
    show: Callable[[Run, Store], None] | None = None,
    other_hosts: OtherHosts | None = None,
) -> ReportView | None:
    """Run the plan (or print it), write the HTML report into ``--out``, print the result on stdout.

    ``show`` prints another result than the report's own; ``other_hosts`` are for standbys. Returns the
    report; None where the plan was printed.
    """
    from walproof.advise.gate import say_beginning
    from walproof.analysis.gate import GateRule
    from walproof.analysis.within import DueCells
    from walproof.lab.session import execute

    check_kept(keep_failures, plan)
    if given.dry_run:
        check_places(given.out, given.store)
        sys.stdout.write(to_json(plan) + "\n" if given.json else plan_text(plan, command))
        return None
    private_out(given.out)
    store = open_store(given.out, given.store)
    try:
        # Reports beside --out are not those of a store elsewhere.
        is_elsewhere = given.store is not None
        unread = (
            None if given.new or is_elsewhere else _finished_without_report(store, plan, command, given.out)
        )
        if unread is not None:
            sys.stderr.write(
                f"run {unread.id} is finished, but was interrupted before its report: --new measures again\n"
            )
            return present(unread, store, out=given.out, json=given.json, show=show)
        within = stop_rule(plan)
        if plan.gate is not None:
            sys.stderr.write(f"{say_beginning(plan, expected_round_s(plan))}\n")
        with TerminalProgress(plan) as progress:
            run = execute(
                plan,
                store,
                command,
                DueCells(plan, within),
                GateRule(plan) if plan.gate is not None else within or never,
                progress,
                locks=given.out,
                study_text=study_text,
                fresh=given.new,
                keep_failures=keep_failures,
                other_hosts=other_hosts,
            )
        return present(run, store, out=given.out, json=given.json, show=show)
    except Interrupted as signalled:
        said = "the same command without --new" if given.new else "the same command"
        signalled.kept = f"finished trials are stored, and {said} resumes the run"
        raise
    finally:
        store.close()


def present(
    run: Run,
    store: Store,
    *,
    out: Path,
    json: bool,
    show: Callable[[Run, Store], None] | None = None,
) -> ReportView:
    """Print a run's result, as ``show`` does where there is one, and write its HTML report. Returns it.

    Raises AnalysisError, after all that, where every trial failed; of a gate ``cli.gate.conclude`` says so.
    """
    from walproof.analysis.unmeasured import require_finished_trial
    from walproof.report.html import to_html
    from walproof.report.json import to_json
    from walproof.report.terminal import print_terminal

    view = view_of(run, store)
    path = out / "reports" / f"{run.id}.html"
    write_file(path, to_html(view))
    with reader_may_leave():
        if show is not None:
            show(run, store)
        elif json:
            sys.stdout.write(to_json(view) + "\n")
        else:
            print_terminal(view, result_console())
    with reader_may_leave():
        sys.stderr.write(f"report: {path}\n")
    if view.gate is None:
        require_finished_trial(view.trials)
    return view


def _finished_without_report(store: Store, plan: Plan, command: Sequence[str], out: Path) -> Run | None:
    """The newest run of this plan by this command on this machine, when only its report is missing and it is
    of the builds that are there now; no gate of another time. Raises InstallError."""
    from walproof.lab.session import is_of_this_machine, is_past, replaced_builds

    digest = plan_hash(plan)
    for run in reversed(store.runs()):
        if plan_hash(run.plan) == digest and run.command == tuple(command) and is_of_this_machine(run):
            written = (out / "reports" / f"{run.id}.html").exists()
            is_wanted = run.finished_at is not None and not written and not replaced_builds(run, plan)
            return run if is_wanted and not is_past(plan, run) else None
    return None


def check_kept(keep_failures: Path | None, plan: Plan) -> None:
    """Refuse a folder for images that fail where nothing is cut, or where none can be kept. Raises
    StudyError, StoreError."""
    if keep_failures is None:
        return
    if not plan.kind.cut_images:
        raise StudyError(
            "--keep-failures is for power cuts, and there are none",
            hint="Add --power-cut 4, or leave it out.",
        )
    check_folder(keep_failures, "Name another folder with --keep-failures.")


def private_out(folder: Path) -> None:
    """Make the folder of results where there is none. Raises StoreError."""
    try:
        private_folder(folder)
    except OSError as error:
        raise StoreError(
            f'could not create folder "{folder}": {error.strerror}', hint="Name another folder with --out."
        ) from error


def check_places(out: Path, store: str | None) -> None:
    """Refuse, without making anything, places where no results could be kept. Raises StoreError."""
    from walproof.facts.place import require_writable

    require_writable(out / "walproof.sqlite" if store is None else store)
    if store is not None:
        # Reports are written there, wherever the facts are.
        require_writable(out / "reports" / "report.html")


def stop_rule(plan: Plan) -> Within | None:
    """The rule of a plan whose ratios are to be known within a width; None for a number of rounds."""
    from walproof.analysis.within import Within
    from walproof.report.kinds.registry import report_kind

    if plan.half_width is None:
        return None
    return Within(plan, plan.half_width, report_kind(plan.kind).metric_of(plan))


def never(_trials: Sequence[Trial]) -> bool:
    """The stop rule of a fixed number of rounds."""
    return False

"""What is said of a host that gave no answer, and which runs of before answer a command."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts.plans import INSTALL, plan
from tests.hosts.clusters import ENVIRONMENT
from walproof.cli.host_run import RunOrder, ended_in_study, ended_runs
from walproof.errors import DiskError
from walproof.facts import Environment, Plan, Run
from walproof.hosts.standby_host import StandbyHost
from walproof.hosts.study import said_loss

COMMAND = ("walproof", "run", "my.toml")
CHANGED = replace(plan(), base_settings={"max_wal_size": "16GB"})


def order(host: str) -> RunOrder:
    return RunOrder("", COMMAND, "", None, None, False, host, ("elm", "oak"))


def run(host: str, begun: float, ended: float | None = None, measured: Plan | None = None) -> Run:
    environment = Environment({"host": host}, {})
    asked = plan() if measured is None else measured
    return Run(f"{host}-{begun:.0f}", asked, COMMAND, begun, "0.2.0", environment, finished_at=ended)


def test_a_run_that_had_ended_is_taken_where_another_host_goes_on() -> None:
    elsewhere = replace(INSTALL, bindir="/usr/pgsql-18/bin", origin="system")
    oak = replace(plan(), installs=(elsewhere,), driver=elsewhere, folder="/srv")
    runs = [run("elm", 1, 50), run("oak", 2, measured=oak)]
    assert ended_in_study(runs, order("elm"), plan()) == runs[0]
    assert ended_in_study(runs, order("oak"), oak) is None
    assert ended_in_study([runs[0]], order("elm"), plan()) is None
    assert ended_in_study([runs[0], run("oak", 60)], order("elm"), plan()) is None, "it ended before that"


def test_a_run_of_the_study_as_it_was_before_is_not_taken() -> None:
    runs = [run("elm", 1, 50), run("oak", 2)]
    assert ended_in_study(runs, order("elm"), CHANGED) is None
    runs = [run("elm", 1, 50, CHANGED), run("oak", 2)]
    assert ended_in_study(runs, order("elm"), CHANGED) is None
    assert ended_runs([run("elm", 1, 50)], order("elm"), CHANGED) == []
    assert ended_runs(runs, order("elm"), CHANGED) == [runs[0]]


def test_an_interrupted_run_that_a_new_one_followed_keeps_no_study_open() -> None:
    """As after --new, on all hosts."""
    runs = [run("elm", 1), run("oak", 2), run("elm", 60, 90), run("oak", 61, 95)]
    assert ended_in_study(runs, order("elm"), plan()) is None
    assert ended_in_study(runs, order("oak"), plan()) is None


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("NodeDiedError", ["raylet 10.0.0.1"], "its node of the cluster ended or cannot be reached"),
        ("LocalRayletDiedError", [], "its node of the cluster ended or cannot be reached"),
        ("OutOfMemoryError", ["see docs"], "its memory ran out, and Ray ended the run there"),
        ("TaskUnschedulableError", ["none is left"], "The task is not schedulable: none is left"),
    ],
)
def test_the_reason_is_said_without_names_of_classes(kind: str, words: list[str], said: str) -> None:
    # Ray reads how it authenticates when it is imported, and clusters may follow in this process.
    os.environ.update(ENVIRONMENT)
    from ray import exceptions

    assert said_loss(getattr(exceptions, kind)(*words)).removeprefix("it was lost: ") == said


def test_a_host_of_a_standby_makes_no_folder_that_was_mistyped(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="of --on does not exist"):
        StandbyHost("127.0.0.1", None, str(tmp_path / "nmve"), False).introduce(())
    assert list(tmp_path.iterdir()) == []

"""A real Ray cluster of two nodes on this machine. One file, so that it is started once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import start, walproof
from tests.facts.server import store_server, store_url
from tests.golden.unpack import VERSIONS, unpack
from tests.hosts import clusters
from tests.lab.tune_loads import shop
from tests.schemas import assert_valid
from tests.wal.places.archive import laid_golden
from walproof.errors import HostError, WalError
from walproof.facts import Install
from walproof.facts.store import Store
from walproof.facts.tuning_answers import candidate_name
from walproof.facts.tuning_journal import Journal, JournalFile
from walproof.hosts import verify as on_hosts_verify
from walproof.hosts.archive import archive_stats
from walproof.hosts.cluster import RayCluster, connected, signals_heard
from walproof.hosts.safety import check_hosts
from walproof.hosts.study import choose, on_hosts
from walproof.hosts.verify import verify_on
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.report.wal.rows import By, json_text, rows
from walproof.report.wal.verify_json import verification_json
from walproof.units import Lsn
from walproof.wal import WalStats, stats
from walproof.wal.verify.names import is_segment
from walproof.wal.verify.reading import Verifier
from walproof.wal.verify.verify import verify

IS_ROOT = os.geteuid() == 0
"""Whose tasks are refused, unless --insecure is given."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with clusters.cluster() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(address: str) -> Iterator[RayCluster]:
    with connected(address, insecure=IS_ROOT) as found:
        yield found


def texts(wal: WalStats) -> list[str]:
    return [json_text(wal, by, rows(wal, by)) for by in By]


@pytest.mark.parametrize("major", VERSIONS)
def test_an_archive_is_read_as_by_one_machine(cluster: RayCluster, tmp_path: Path, major: int) -> None:
    facts = unpack(major, tmp_path)
    assert texts(archive_stats(cluster, [tmp_path])) == texts(stats(tmp_path))
    start, end = Lsn.parse(facts["start"]), Lsn.parse(facts["end"])
    between = archive_stats(cluster, [tmp_path], start=start, end=end)
    assert texts(between) == texts(stats(tmp_path, start=start, end=end))


def said(read: Callable[[], WalStats]) -> object:
    """The answer, or the error."""
    try:
        return texts(read())
    except WalError as error:
        return error.message, error.detail, error.hint


def test_damage_and_gaps_are_told_as_by_one_machine(cluster: RayCluster, tmp_path: Path) -> None:
    unpack(18, tmp_path)
    segments = sorted(path for path in tmp_path.iterdir() if len(path.name) == 24)
    assert len(segments) >= 3
    errors = 0
    for segment in segments:
        whole = segment.read_bytes()
        for place in (0, 8192, 300_000, 700_000, None):
            if place is None:
                segment.unlink()
            else:
                segment.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            plain = said(lambda: stats(tmp_path))
            assert said(lambda: archive_stats(cluster, [tmp_path])) == plain, (segment.name, place)
            errors += isinstance(plain, tuple)
        segment.write_bytes(whole)
    assert errors > 4
    assert said(lambda: archive_stats(cluster, [tmp_path / "none"])) == said(lambda: stats(tmp_path / "none"))


def verified(root: Path, verifier: Verifier | None = None) -> Any:
    """What ``wal verify --json`` prints, but for the moment."""
    found = json.loads(verification_json(verify([root], verifier=verifier)))
    return {name: value for name, value in found.items() if name not in ("started_at", "ended_at")}


@pytest.mark.parametrize("each", [1, 2, 64])
def test_an_archive_is_verified_as_by_one_machine(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    """A damaged record, a history, a label, backups; then with a file cut short, gone, and not readable."""
    monkeypatch.setattr(on_hosts_verify, "FILES_MOST", each)
    monkeypatch.setattr(on_hosts_verify, "_BATCHES_PER_CORE", 1 / each)
    (tmp_path / "golden").mkdir()
    unpack(17, tmp_path / "golden")
    verifier = verify_on(cluster.cores)
    layout, ending = {1: ("pgBackRest", "lz4"), 2: ("WAL-G", "zst"), 64: ("folder", "")}[each]
    (tmp_path / "archive").mkdir()
    root = laid_golden(tmp_path / "golden", layout, ending, tmp_path / "archive").root
    kinds: set[str] = set()

    def look() -> None:
        plain = verified(root)
        assert verified(root, verifier) == plain
        kinds.update(problem["kind"] for archive in plain["archives"] for problem in archive["problems"])

    look()
    segments = sorted(path for path in root.rglob("*") if is_segment(path.name))
    middle = segments[1]
    data = middle.read_bytes()
    middle.write_bytes(data[:-9])
    look()
    middle.unlink()
    look()
    middle.symlink_to(root)  # neither a file nor a folder of the archive
    look()
    assert "unreadable" in kinds
    assert len(kinds) > 1


def test_verify_from_the_command_line(address: str, tmp_path: Path) -> None:
    (tmp_path / "wal").mkdir()
    unpack(18, tmp_path / "wal")
    anyway = ["--insecure"] if IS_ROOT else []
    whole = walproof("wal", "verify", "wal", cwd=tmp_path)
    done = walproof("wal", "verify", "wal", "--ray", address, *anyway, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (whole.returncode, whole.stdout, "")
    refused = walproof("wal", "verify", "wal", "--ray", address, "--threads", "2", cwd=tmp_path)
    assert (refused.returncode, "--threads is for one machine" in refused.stderr) == (2, True)


def test_whatif_from_the_command_line(address: str, tmp_path: Path) -> None:
    """Also of an archive that does not go through: one machine's error."""
    (tmp_path / "wal").mkdir()
    unpack(17, tmp_path / "wal")
    anyway = ["--insecure"] if IS_ROOT else []
    options = ["wal", "whatif", "wal", "--set", "max_wal_size=8MB,wal_compression=lz4", "--json"]

    def answer(text: str) -> Any:
        return json.loads(text, object_hook=lambda value: {k: v for k, v in value.items() if k != "cpu_s"})

    whole = walproof(*options, cwd=tmp_path)
    done = walproof(*options, "--ray", address, *anyway, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert answer(done.stdout) == answer(whole.stdout)
    sorted(path for path in (tmp_path / "wal").iterdir() if is_segment(path.name))[1].unlink()
    whole = walproof(*options, cwd=tmp_path)
    done = walproof(*options, "--ray", address, *anyway, cwd=tmp_path)
    assert whole.returncode == done.returncode == 2
    assert done.stderr.splitlines()[1:] == whole.stderr.splitlines()
    assert "this machine reads it" in done.stderr


def test_the_hosts_are_told_apart(cluster: RayCluster) -> None:
    assert sorted(host.machine.boot_id for host in cluster.hosts) == sorted(clusters.HOSTS)
    assert cluster.cores == 2
    assert all(host.is_lab for host in cluster.hosts)


def test_from_the_command_line(address: str, tmp_path: Path) -> None:
    (tmp_path / "wal").mkdir()
    unpack(17, tmp_path / "wal")
    options = ["wal", "stats", "wal", "--by", "relation", "--json"]
    whole = walproof(*options, cwd=tmp_path)
    anyway = ["--insecure"] if IS_ROOT else []
    done = walproof(*options, "--ray", address, *anyway, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, whole.stdout, "")


def test_unsafe_hosts_are_named(cluster: RayCluster) -> None:
    here = cluster.hosts[0].machine
    private = replace(here, is_root=False)
    check_hosts([private], insecure=False)
    other = replace(private, name="ash", address="8.8.8.8", is_root=True)
    with pytest.raises(HostError, match="not safe") as refused:
        check_hosts([private, other], insecure=False)
    assert (
        refused.value.detail
        == "ash (8.8.8.8): listens on a public address\nash (8.8.8.8): runs tasks as root"
    )
    check_hosts([private, other], insecure=True)
    with pytest.raises(HostError, match="another version of walproof"):
        check_hosts([replace(private, walproof_version="0.0.1")], insecure=True)


@pytest.fixture(scope="module")
def shared_store(work: Path, embedded: Install) -> Iterator[str]:
    with Workspace(work, server_user()) as workspace, store_server(workspace, embedded) as server:
        yield store_url(server)


@pytest.mark.live
def test_a_study_runs_on_every_host(address: str, shared_store: str, tmp_path: Path) -> None:
    anyway = ["--insecure"] if IS_ROOT else []
    done = walproof(
        "compare", "--set", "fsync=off", "--pg", "embedded", "--scale", "1", "--clients", "2",
        "--duration", "1s", "--rounds", "2", "--store", shared_store, "--ray", address, "--json", *anyway,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    found = json.loads(done.stdout)
    assert_valid("hosts", found)
    assert sorted(found["runs"]) == sorted(clusters.HOSTS)
    assert found["left_out"] == {}
    (effect,) = found["effects"]
    ratios = {host["host"]: host["value"] for host in effect["hosts"]}
    # On a busy machine two rounds can differ so much that a host's interval has no lower end.
    assert sorted([*ratios, *effect["silent"]]) == sorted(clusters.HOSTS)
    assert (effect["mean"] is None) == (len(ratios) < 2)
    assert effect["mean"] is None or min(ratios.values()) <= effect["mean"] <= max(ratios.values())
    store = Store(shared_store)
    try:
        for host, name in found["runs"].items():
            run = store.run(name)
            assert run.environment.facts["host"] == host
            assert run.finished_at is not None
            assert sorted((trial.round, trial.variant) for trial in store.trials(name)) == [
                (1, "default"), (1, "fsync=off"), (2, "default"), (2, "fsync=off"),
            ]  # fmt: skip
    finally:
        store.close()
    (page,) = (tmp_path / "walproof-out" / "reports").iterdir()
    assert all(host in page.read_text() for host in clusters.HOSTS)


def test_a_study_all_of_whose_trials_fail_is_an_error(
    address: str, shared_store: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.sql").write_text("SELECT 1 FROM nowhere;\n")
    anyway = ["--insecure"] if IS_ROOT else []
    done = walproof(
        "compare", "--set", "fsync=off", "--pg", "embedded", "--scale", "1", "--script", "bad.sql",
        "--design", "fresh", "--duration", "1s", "--rounds", "1", "--store", shared_store, "--ray", address,
        "--json", *anyway, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "walproof: error: all 4 trials failed" in done.stderr
    found = json.loads(done.stdout)
    assert_valid("hosts", found)
    assert sorted(found["left_out"]) == sorted(found["runs"]) == sorted(clusters.HOSTS)
    assert all("all 2 trials failed: " in reason for reason in found["left_out"].values())


TUNE = ("tune", "--load", "shop.toml", "--only", "commit_delay,max_wal_size", "--budget", "100s")


def _interrupted_when(done: Callable[[], bool], options: Sequence[str], folder: Path) -> str:
    """Start the tuning, and stop it as soon as that is so; what it said."""
    errors = folder / "errors"
    process = start((*TUNE, *options), folder, errors)
    deadline = time.monotonic() + 240
    while not done() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, errors.read_text()
    return errors.read_text()


@pytest.mark.long
@pytest.mark.live
def test_a_tuning_measures_on_every_host_and_goes_on(address: str, shared_store: str, tmp_path: Path) -> None:
    """Interrupted in a step; the same command ends the step with the trials that were stored."""
    shop(tmp_path)
    options = ["--ray", address, "--store", shared_store, *(["--insecure"] if IS_ROOT else [])]
    plan = walproof(*TUNE, *options, "--dry-run", cwd=tmp_path)
    assert "every host of " + address in plan.stdout, plan.stderr
    store = Store(shared_store)

    def stored() -> dict[tuple[str, str], list[tuple[int, str, float]]]:
        """By study and host: round, variant, when it began."""
        return {
            (run.plan.study, str(run.environment.facts["host"])): [
                (trial.round, trial.variant, trial.started_at) for trial in store.trials(run.id)
            ]
            for run in store.runs()
            if run.plan.study.startswith("tune-shop-")
        }

    def journal() -> Journal | None:
        folders = list((tmp_path / "walproof-out" / "tunings").glob("*"))
        return JournalFile(folders[0]).read() if folders else None

    def is_answered() -> bool:
        return (found := journal()) is not None and len([step for step in found.steps if step.finished]) > 1

    try:
        said = _interrupted_when(lambda: any(stored().values()), options, tmp_path)
        assert "the same command goes on with the tuning" in said
        before = stored()
        said = _interrupted_when(is_answered, options, tmp_path)
        found = journal()
        assert found is not None
        step = found.steps[1]
        study = f"{found.name}-2"
        assert "step 2: screening settings (goes on)" in said
        assert {host_run.host for host_run in step.hosts} == set(clusters.HOSTS)
        after = stored()
        for host in clusters.HOSTS:
            trials = after[study, host]
            assert trials[: len(before.get((study, host), []))] == before.get((study, host), [])
            names = [candidate_name(candidate) for candidate in step.step.candidates]
            assert sorted(trial[:2] for trial in trials) == sorted(
                (round_number, name) for round_number in range(1, step.step.rounds + 1) for name in names
            )
        assert len([run for run in store.runs() if run.plan.study == study]) == len(clusters.HOSTS)
    finally:
        store.close()


def test_one_node_is_taken_of_a_machine(cluster: RayCluster) -> None:
    told: list[str] = []
    host = cluster.hosts[0]
    twice = RayCluster((host, replace(host, node_id="other")))
    assert choose(twice, None, told.append) == [host]
    assert "is the same machine as" in told[0]
    with pytest.raises(HostError, match="has 2 of the 3 hosts"):
        choose(cluster, 3, told.append)


def fails_on_oak(name: str) -> str:
    if name == "oak":
        raise WalError("no room", detail="0 bytes are free")
    return name


def dies(name: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return name


def dies_the_first_time(order: str) -> str:
    if order != "again":
        os.kill(os.getpid(), signal.SIGKILL)
    return order


def test_a_host_that_fails_is_left_out_and_named(cluster: RayCluster) -> None:
    told: list[str] = []
    hosts = choose(cluster, None, told.append)
    names = [host.machine.name for host in hosts]
    answers = {
        answer.host.machine.name: answer for answer in on_hosts(hosts, fails_on_oak, names, told.append)
    }
    assert answers["elm"].answer == "elm"
    assert (answers["oak"].answer, answers["oak"].reason) == (None, "no room 0 bytes are free")
    assert "oak is left out: no room 0 bytes are free" in told
    (lost,) = on_hosts(hosts[:1], dies, names[:1], told.append, tries=2)
    assert lost.reason == "its process was lost 2 times"
    # As the second order says: with --new another run would be begun.
    (late,) = on_hosts(hosts[:1], dies_the_first_time, names[:1], told.append, again=lambda _: "again")
    assert late.answer == "again"


def nice_value(name: str) -> str:
    """Of what a host's process starts, as a server is started."""
    return subprocess.run(["nice"], capture_output=True, text=True, check=True).stdout.strip()


def test_servers_of_a_host_run_at_the_nice_value_of_its_node(cluster: RayCluster) -> None:
    hosts = choose(cluster, 1, lambda _: None)
    (found,) = on_hosts(hosts, nice_value, ["elm"], lambda _: None)
    assert found.answer == nice_value("here")


def test_a_signal_that_ray_heard_is_the_signal() -> None:
    with pytest.raises(KeyboardInterrupt), signals_heard():
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()
    with pytest.raises(SystemError), signals_heard():
        raise SystemError


def test_an_open_head_is_refused() -> None:
    with (
        clusters.open_head() as there,
        pytest.raises(HostError, match="is open: it runs what anybody sends to its port") as refused,
        connected(there),
    ):
        pass
    assert "--insecure" in str(refused.value.hint)

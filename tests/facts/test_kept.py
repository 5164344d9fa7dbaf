"""A store that goes away while trials end: each is stored once when it is back, whoever is there then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts.plans import ENVIRONMENT, SERIES, plan, trial
from tests.facts.server import store_server, store_url
from tests.lab.network import network
from tests.wal.server import BINDIRS, Server
from walproof.errors import StoreAwayError, StoreError
from walproof.facts import Install, RequestKind, place
from walproof.facts.kept import KeptTrials
from walproof.facts.run import BegunTrial, Request
from walproof.facts.store import Store
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def server(work: Path, embedded: Install) -> Iterator[Cluster]:
    with Workspace(work, server_user()) as workspace, store_server(workspace, embedded) as cluster:
        yield cluster


@pytest.fixture
def store(server: Cluster, tmp_path: Path) -> Iterator[Store]:
    name = f"kept_{abs(hash(tmp_path)):x}"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    opened = Store(store_url(server, name))
    yield opened
    opened.close()


def test_trials_are_kept_and_stored_once(server: Cluster, store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    run = store.add_run(plan(), ("walproof",), ENVIRONMENT, "1")
    first = KeptTrials(store, folder, 0.0)
    with store.claim(run.id) as is_ours:
        assert is_ours
        assert first.trials(run.id) == ()
        first.add_trial(run.id, trial(1), (SERIES,))
        server.stop("immediate")
        try:
            for number in (2, 3):
                first.add_trial(run.id, trial(number), (SERIES,))
            assert [file.name for file in sorted(folder.iterdir())] == [
                f"{run.id}.{number:06d}.json" for number in (2, 3)
            ]
            with pytest.raises(StoreAwayError) as away:
                first.finish_run(run.id)
            assert away.value.detail == f'2 trials are kept in "{folder}".'
            with pytest.raises(StoreAwayError):
                first.trials(run.id)
        finally:
            server.start({})
    second = KeptTrials(store, folder, 0.0)
    assert [trial.number for trial in second.trials(run.id)] == [1, 2, 3]
    assert len(store.series(run.id)) == 3 * len((SERIES,))
    assert list(folder.iterdir()) == []
    second.add_trial(run.id, trial(4), (SERIES,))
    second.finish_run(run.id)
    second.finish_run(run.id)  # of which only the answer was lost
    assert [trial.number for trial in store.trials(run.id)] == [1, 2, 3, 4]
    assert store.trials(run.id)[1] == replace(trial(2), metrics=store.trials(run.id)[1].metrics)
    assert store.run(run.id).finished_at is not None


def test_a_store_whose_network_is_cut_is_away_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody refuses, and nothing comes back."""
    soon = {"keepalives_idle": "1", "keepalives_interval": "1", "keepalives_count": "1"}
    # Two seconds are the least that libpq takes for a connection.
    monkeypatch.setattr(place, "_NETWORK", {**soon, "tcp_user_timeout": "1500", "connect_timeout": "2"})
    folder = tmp_path / "kept"
    with network() as net, Server(BINDIRS["18"], namespace=net.namespace) as server:
        server.configure({"listen_addresses": net.address})
        with (server.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
        server.stop()
        server.start()
        with closing(Store(f"postgresql://postgres@{net.address}/postgres")) as store:
            run = store.add_run(plan(), ("walproof",), ENVIRONMENT, "1")
            kept = KeptTrials(store, folder, 0.0)
            with store.claim(run.id):
                kept.add_trial(run.id, trial(1), (SERIES,))
                net.cut()
                began = time.monotonic()
                kept.add_trial(run.id, trial(2), (SERIES,))
                assert time.monotonic() - began < 60
            assert [file.name for file in folder.iterdir()] == [f"{run.id}.000002.json"]


def test_a_trial_whose_answer_was_lost_is_not_stored_again(
    server: Cluster, store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    run = store.add_run(plan(), ("walproof",), ENVIRONMENT, "1")
    kept = KeptTrials(store, folder, 0.0)
    server.stop("immediate")
    try:
        kept.add_trial(run.id, trial(1), (SERIES,))
    finally:
        server.start({})
    store.runs()  # the first use of a lost connection may fail
    store.add_trial(run.id, trial(1), (SERIES,))
    assert [trial.number for trial in kept.trials(run.id)] == [1]
    assert list(folder.iterdir()) == []


def test_an_answer_whose_acknowledgement_was_lost_is_not_stored_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.add_run(plan(), ("walproof",), ENVIRONMENT, "1")
    kept = KeptTrials(store, tmp_path / "kept", 0.0)
    first, second = (store.ask(run.id, RequestKind.ROUNDS, rounds) for rounds in (1, 2))
    stored = store.answer

    def cut_off(run_id: str, request: Request, words: str, *, is_granted: bool) -> None:
        stored(run_id, request, words, is_granted=is_granted)
        raise StoreAwayError("the reply to COMMIT did not come")

    with monkeypatch.context() as patch:
        patch.setattr(store, "answer", cut_off)
        kept.answer(run.id, first, "1 more round follows", is_granted=True)
    assert kept.requests(run.id)[0].words == "1 more round follows"
    # What somebody else has answered is no acknowledgement.
    stored(run.id, second, "no", is_granted=False)
    with pytest.raises(StoreError, match="cannot be written"):
        kept.answer(run.id, second, "2 more rounds follow", is_granted=True)


def test_a_run_that_another_process_went_on_with_is_not_mixed(
    server: Cluster, store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    run = store.add_run(plan(), ("walproof",), ENVIRONMENT, "1")
    kept = KeptTrials(store, folder, 0.0)
    server.stop("immediate")
    try:
        kept.add_trial(run.id, trial(1), (SERIES,))
    finally:
        server.start({})
    store.add_trial(run.id, replace(trial(1), started_at=trial(1).started_at + 7.0), (SERIES,))
    with pytest.raises(StoreError, match="continued by another process"):
        kept.trials(run.id)
    assert len(list(folder.iterdir())) == 1


def test_a_trial_begins_though_the_store_is_away(server: Cluster, store: Store, tmp_path: Path) -> None:
    run = store.add_run(plan(), ("walproof",), ENVIRONMENT, "1")
    kept = KeptTrials(store, tmp_path / "kept", 0.0)
    first, second = (BegunTrial(number, 1, "18", "", "default", float(number)) for number in (1, 2))
    kept.begin_trial(run.id, first)
    server.stop("immediate")
    try:
        kept.begin_trial(run.id, second)
    finally:
        server.start({})
    assert store.begun([run.id]) == {run.id: first}


def test_what_is_asked_is_heard_when_the_store_is_back(server: Cluster, store: Store, tmp_path: Path) -> None:
    run = store.add_run(plan(), ("walproof",), ENVIRONMENT, "1")
    kept = KeptTrials(store, tmp_path / "kept", 0.0)
    with store.claim(run.id):
        asked = store.ask(run.id, RequestKind.ROUNDS, 2)
        assert kept.requests(run.id) == (asked,)
        server.stop("immediate")
        try:
            assert kept.requests(run.id) == ()
            kept.answer(run.id, asked, "2 more rounds follow", is_granted=True)
            assert kept.requests(run.id) == ()
        finally:
            server.start({})
        (answered,) = kept.requests(run.id)
    assert (answered.words, answered.is_granted) == ("2 more rounds follow", True)
    assert answered.answered_at is not None


def test_who_only_reads_does_not_notice_that_the_store_was_away(server: Cluster, store: Store) -> None:
    """Its kept connection was closed meanwhile."""
    run = store.add_run(plan(), ("walproof",), ENVIRONMENT, "1")
    assert store.trials(run.id) == ()
    server.stop("immediate")
    server.start({})
    assert store.trials(run.id) == ()


def test_a_store_that_is_read_only_for_now_is_away(server: Cluster, store: Store, tmp_path: Path) -> None:
    """As after a failover, until the new primary is reached."""
    name = f"kept_{abs(hash(tmp_path)):x}"
    run = store.add_run(plan(), ("walproof",), ENVIRONMENT, "1")
    kept = KeptTrials(store, tmp_path / "kept", 0.0)
    with server.connect() as session:
        session.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        store.close()  # its next sessions begin with that
        kept.add_trial(run.id, trial(1), (SERIES,))
        assert len(list((tmp_path / "kept").iterdir())) == 1
        session.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
    store.close()
    assert [trial.number for trial in kept.trials(run.id)] == [1]

"""One conformance suite for both databases: SQLite in a file and a real PostgreSQL."""

from __future__ import annotations

import dataclasses
import gc
import json
import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.facts.plans import ENVIRONMENT, SERIES, failed, plan, trial
from tests.facts.server import store_url
from walproof.errors import StoreError
from walproof.facts import CheckedImage, CutFacts, ImageState, Plan, RequestKind, Slice
from walproof.facts.claim import SESSION
from walproof.facts.codec import from_json, plan_hash, to_data
from walproof.facts.run import BegunTrial, Extent
from walproof.facts.store import Store
from walproof.postgres.cluster import Cluster

COMMAND = ("walproof", "run", "example")


def test_what_is_stored_is_read_back(store: Store, url: str) -> None:
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    store.add_trial(run.id, trial(1), [SERIES])
    store.add_trial(run.id, failed(2))
    again = Store(url)
    try:
        assert again.runs() == (run,)
        assert again.trials(run.id) == (trial(1), failed(2))
        assert again.series(run.id) == (SERIES,)
        assert again.series(run.id, ["latency_ms_avg"]) == ()
    finally:
        again.close()


def test_a_power_cut_is_stored_with_its_trial(store: Store, url: str) -> None:
    image = CheckedImage(1, 77, "random 0.5 of 512 B", ImageState.LOST, "3 gone", 2, 3, 41.5, 0.4, "/kept/1")
    cut = CutFacts(9, "wal flush 5", "busy", 100, 1.5, 4096, 2, ("pg_xact/0000",), (image,))
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    store.add_trial(run.id, dataclasses.replace(trial(1), cut=cut))
    store.add_trial(run.id, trial(2))
    reader = Store(url)
    assert [trial.cut for trial in reader.trials(run.id)] == [cut, None]
    reader.close()


@pytest.mark.parametrize("table", ["power_cut", "slice"])
def test_a_store_of_before_a_table_gets_it(tmp_path: Path, table: str) -> None:
    path = tmp_path / "old.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"DROP TABLE {table}")
    connection.close()
    opened = Store(path)
    run = opened.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    opened.add_trial(run.id, trial(1))
    assert opened.trials(run.id)[0].cut is None
    assert opened.trials(run.id)[0].slices == ()
    opened.close()


def test_slices_are_stored_with_their_start(store: Store, url: str) -> None:
    first = Slice(
        1, 1, 1, "default", None, 1000.25, 1000.5, 2**40, 2**40 + 4096, 12, 30.5, 2.0, 4.0, 5.0, 0.3
    )
    second = dataclasses.replace(
        first, number=2, position=2, variant="other", predecessor="default", transactions=0,
        latency_ms_sum=0.0, latency_ms_p50=None, latency_ms_p95=None, latency_ms_p99=None, cpu_s=None,
    )  # fmt: skip
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    store.add_trial(run.id, dataclasses.replace(trial(1), slices=(first, second)))
    store.add_trial(run.id, trial(2))
    reader = Store(url)
    assert [trial.slices for trial in reader.trials(run.id)] == [(first, second), ()]
    reader.close()


def test_plans_of_before_designs_are_read(tmp_path: Path) -> None:
    """Every variant of a plan that was stored without designs has servers of its own."""
    data = to_data(plan())
    assert data.pop("toggling") is None
    for variant in data["variants"]:
        assert (variant.pop("design"), variant.pop("design_reason")) == ("fresh", None)
    read = from_json(Plan, json.dumps(data))
    assert read == plan()
    assert plan_hash(read) == plan_hash(plan())


def test_a_run_is_open_until_it_is_finished(store: Store) -> None:
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    assert store.run(run.id).finished_at is None
    store.finish_run(run.id)
    assert store.run(run.id).finished_at is not None


def test_extents_count_what_is_stored(store: Store) -> None:
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    other = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    for stored in (trial(1), failed(2)):
        store.add_trial(run.id, stored)
    store.finish_run(run.id)
    found = store.extents()
    newest = max(trial(1).ended_at, failed(2).ended_at)
    rounds = max(trial(1).round, failed(2).round)
    assert found[run.id] == Extent(2, 1, rounds, newest, store.run(run.id).finished_at)
    assert found[other.id] == Extent(0, 0, 0, None, None)


def test_runs_of_the_same_plan_have_different_ids(store: Store) -> None:
    ids = {store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0").id for _ in range(3)}
    assert len(ids) == 3


def test_a_run_is_found_by_id_beginning_study_and_last(store: Store) -> None:
    first = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    other = store.add_run(plan(seed=8), COMMAND, ENVIRONMENT, "1.0")
    assert store.run(first.id) == first
    assert store.run(first.id[:12]) == first
    assert store.run("example") == other
    assert store.run("last") == other
    with pytest.raises(StoreError, match="ambiguous"):
        store.run("exampl")
    with pytest.raises(StoreError, match="does not exist") as caught:
        store.run("nothing")
    assert first.id in str(caught.value.detail)


def test_a_trial_is_stored_whole_or_not_at_all(store: Store) -> None:
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    with pytest.raises(StoreError):
        store.add_trial(run.id, trial(1), [SERIES, SERIES])  # the second violates the key
    assert store.trials(run.id) == ()
    assert store.series(run.id) == ()


def test_a_trial_is_never_overwritten(store: Store) -> None:
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    store.add_trial(run.id, trial(1))
    with pytest.raises(StoreError):
        store.add_trial(run.id, trial(1, tps=999.0))
    assert store.trials(run.id) == (trial(1),)


def test_a_trial_needs_its_run(store: Store) -> None:
    with pytest.raises(StoreError):
        store.add_trial("no such run", trial(1))


def test_figures_that_are_no_numbers_are_left_out(store: Store) -> None:
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    odd = dataclasses.replace(
        trial(1), metrics={"tps": float("nan"), "wal_bytes": float("inf"), "wal_fpi": 1.0}
    )
    store.add_trial(run.id, odd)
    assert store.trials(run.id)[0].metrics == {"wal_fpi": 1.0}


def test_a_reader_works_while_a_writer_writes(store: Store, url: str) -> None:
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    seen: list[int] = []

    def read() -> None:
        reader = Store(url)
        for _ in range(20):
            seen.append(len(reader.trials(run.id)))
        reader.close()

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(1, 21):
        store.add_trial(run.id, trial(number), [dataclasses.replace(SERIES, trial=number)])
    thread.join()
    assert len(store.trials(run.id)) == 20
    assert seen == sorted(seen)


def test_many_may_open_a_new_store_at_once(url: str) -> None:
    problems: list[Exception] = []
    barrier = threading.Barrier(8)

    def open_it() -> None:
        barrier.wait()
        try:
            Store(url).close()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_who_opens_a_new_store_waits_for_another_that_writes_it(tmp_path: Path) -> None:
    """SQLite does not wait by itself where the mode of the journal is to change."""
    path = tmp_path / "store.sqlite"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ("ROLLBACK",))
    release.start()
    try:
        store = Store(path)
        store.close()
        assert release.finished.is_set()
    finally:
        release.join()
        other.close()


def test_a_store_that_nobody_holds_any_more_has_closed_its_connections(tmp_path: Path) -> None:
    """From Python 3.13 on a connection that is left open is a warning, and in tests an error."""
    store = Store(tmp_path / "store.sqlite")
    closed: list[object] = []
    sa.event.listen(store._engine, "close", lambda connection, _: closed.append(connection))
    del store
    gc.collect()
    assert len(closed) == 1


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE walproof_format SET format = 99")
    connection.close()
    with pytest.raises(StoreError, match="format 99, expected 2"):
        Store(path)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be one" * 100)
    with pytest.raises(StoreError) as caught:
        Store(path)
    assert str(path) in caught.value.message


def test_a_password_is_never_shown() -> None:
    with pytest.raises(StoreError) as caught:
        Store("postgresql://user:secret@/nowhere?host=/nonexistent&port=1")
    said = f"{caught.value.message} {caught.value.detail} {caught.value.hint}"
    assert "secret" not in said


@pytest.mark.parametrize("bad", ["mysql://host/db", "postgresql://[", "sqlite3://x"])
def test_other_databases_are_refused(bad: str) -> None:
    with pytest.raises(StoreError):
        Store(bad)


def test_a_run_is_carried_out_by_one_process(store: Store, url: str) -> None:
    """Whoever asks while it is claimed is told; when the claim ends, or its store is closed, it is free."""
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    other = Store(url)
    with store.claim(run.id) as is_ours, other.claim(run.id) as is_theirs:
        assert (is_ours, is_theirs) == (True, False)
        another = other.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
        with other.claim(another.id) as is_theirs:
            assert is_theirs
    with other.claim(run.id) as is_theirs:
        assert is_theirs
    other.close()


def test_whether_a_run_is_carried_out_is_seen_without_claiming_it(store: Store, url: str) -> None:
    run, idle = (store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0") for _ in range(2))
    other, ids = Store(url), (run.id, idle.id)
    assert other.claimed(ids) == frozenset()
    # Many times: a server that ends the claim's session a moment later must not keep the claim for it.
    for _ in range(20):
        with store.claim(run.id):
            assert other.claimed(ids) == {run.id}
            assert other.claimed([idle.id]) == frozenset()
        assert other.claimed(ids) == frozenset()
    other.close()


def test_a_claim_whose_session_was_ended_is_free_and_ends_in_silence(tmp_path: Path, server: Cluster) -> None:
    name = f"lost_{abs(hash(tmp_path)):x}"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    held, other = (Store(store_url(server, name)) for _ in range(2))
    run = held.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    with held.claim(run.id) as is_ours, server.connect() as connection:
        assert is_ours
        connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_locks WHERE locktype = 'advisory' AND database ="
            " (SELECT oid FROM pg_database WHERE datname = %s)",
            [name],
        )
        with other.claim(run.id) as is_theirs:
            assert is_theirs
    held.close()
    other.close()


def test_the_trial_that_was_begun_last_is_known(store: Store) -> None:
    run, idle = (store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0") for _ in range(2))
    assert store.begun([run.id, idle.id]) == {}
    # The first is interrupted, and begins again.
    begun = [BegunTrial(number, 1, "18", "", "default", at) for number, at in ((1, 5.0), (1, 9.0), (2, 12.0))]
    for one in begun:
        store.begin_trial(run.id, one)
        assert store.begun([run.id, idle.id]) == {run.id: one}
    assert store.begun([]) == {}


def test_two_runs_of_one_plan_at_once_have_two_names(url: str) -> None:
    """Begun by several processes in the same moment; each waits for nobody."""
    Store(url).close()
    names: list[str] = []
    ready = threading.Barrier(4)

    def begin() -> None:
        store = Store(url)
        ready.wait()
        names.extend(store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0").id for _ in range(5))
        store.close()

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 20


def test_a_trial_that_another_process_stored_is_not_stored_again(store: Store) -> None:
    """As after a claim that was lost with its connection."""
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    store.add_trial(run.id, trial(1))
    with pytest.raises(StoreError, match="cannot be written") as caught:
        store.add_trial(run.id, trial(1))
    assert "lost its claim" in (caught.value.hint or "")
    assert len(store.trials(run.id)) == 1


def test_what_is_asked_of_a_run_and_what_it_answers_are_stored(store: Store) -> None:
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    more = store.ask(run.id, RequestKind.ROUNDS, 2)
    stop = store.ask(run.id, RequestKind.STOP)
    assert [request.number for request in store.requests(run.id)] == [1, 2]
    assert store.run(run.id).rounds_more == 0
    with pytest.raises(StoreError, match="was asked to stop already"):
        store.ask(run.id, RequestKind.STOP)
    for wrong in (0, -1, 1001):
        with pytest.raises(StoreError, match="expected 1 to 1000"):
            store.ask(run.id, RequestKind.ROUNDS, wrong)
    store.answer(run.id, more, "2 more rounds follow", is_granted=True)
    store.answer(run.id, stop, "no", is_granted=False)
    found = store.run(run.id)
    assert [(request.is_granted, request.words) for request in found.requests] == [
        (True, "2 more rounds follow"),
        (False, "no"),
    ]
    assert found.rounds_more == 2
    assert found.trials_most == (3 + 2) * 2
    assert found.stopped is None
    store.finish_run(run.id)
    with pytest.raises(StoreError, match=f"run {run.id} has ended: there is nothing left to stop"):
        store.ask(run.id, RequestKind.STOP)
    with pytest.raises(StoreError, match="does not exist"):
        store.ask("none", RequestKind.STOP)


def test_requests_of_several_at_once_all_have_numbers(url: str) -> None:
    store = Store(url)
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    askers = [
        threading.Thread(target=store.ask, args=(run.id, RequestKind.ROUNDS, number))
        for number in (1, 2, 3, 4)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    found = store.requests(run.id)
    assert [run.number for run in found] == [1, 2, 3, 4]
    assert sorted(run.rounds for run in found) == [1, 2, 3, 4]
    store.close()


@pytest.mark.parametrize("name", ["../../site/index", "a/b", "A", "", ".a", "a\n", "a" * 201])
def test_an_id_that_would_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """A store may be a stranger's, and pages and locks are files of that name."""
    path = tmp_path / "theirs.sqlite"
    theirs = Store(path)
    theirs.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE run SET id = ?", [name])
    connection.close()
    with pytest.raises(StoreError, match="an id that walproof does not give"):
        theirs.run("last")
    theirs.close()


def test_a_claim_of_a_machine_that_was_cut_off_ends_within_minutes() -> None:
    """By keepalives of the server, which the sockets of these tests have none of. Their default is hours."""
    idle, interval, count = (int(SESSION[f"tcp_keepalives_{part}"]) for part in ("idle", "interval", "count"))
    assert 60 <= idle + interval * count <= 180
    assert int(SESSION["tcp_user_timeout"]) <= 180_000


def test_an_empty_name_is_not_the_only_run(store: Store) -> None:
    """A script whose variable was not set would remove it."""
    store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0")
    with pytest.raises(StoreError, match="no run is named"):
        store.run("")

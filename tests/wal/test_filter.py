"""Conditions on records: pg_waldump prints the same ones."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.unpack import VERSIONS, unpack
from tests.wal.server import BINDIRS, SERVERS, Server
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import BlockRef, Record, lines, read_map, records
from walproof.wal.filter import RecordFilter
from walproof.wal.relations import Relation, RelationMap, find_relations


def place(block: BlockRef) -> tuple[int, int, int]:
    return block.tablespace, block.database, block.relation


def has_block(record: Record, wanted: Callable[[BlockRef], bool]) -> bool:
    return any(map(wanted, record.blocks))


def most(things: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    return Counter(things).most_common(1)[0][0]


@pytest.mark.parametrize("version", VERSIONS)
def test_those_that_meet_every_condition_and_no_others(version: int, tmp_path: Path) -> None:
    unpack(version, tmp_path)
    whole = list(records(tmp_path))
    first = most([place(block) for record in whole for block in record.blocks])
    xid = Counter(record.xid for record in whole if record.xid).most_common(1)[0][0]
    cases: list[tuple[RecordFilter, Callable[[Record], bool]]] = [
        (RecordFilter(), lambda _: True),
        (RecordFilter(operations=("heap",)), lambda record: record.rmgr == "Heap"),
        (
            RecordFilter(operations=("Heap/INSERT", "XLOG")),
            lambda record: (
                record.rmgr == "XLOG"
                or (record.rmgr == "Heap" and record.operation in ("INSERT", "INSERT+INIT"))
            ),
        ),
        (
            RecordFilter(operations=("Heap/INSERT+INIT",)),
            lambda record: (record.rmgr, record.operation) == ("Heap", "INSERT+INIT"),
        ),
        (RecordFilter(xids=(xid, 3)), lambda record: record.xid in (xid, 3)),
        (
            RecordFilter(relations=(first,)),
            lambda record: has_block(record, lambda block: place(block) == first),
        ),
        (
            RecordFilter(relations=(first,), fork="main", block=1),
            lambda record: has_block(
                record,
                lambda block: (place(block), block.fork, block.block) == (first, "main", 1),
            ),
        ),
        (RecordFilter(fork="vm"), lambda record: has_block(record, lambda block: block.fork == "vm")),
        (
            RecordFilter(only_images=True),
            lambda record: has_block(record, lambda block: block.image is not None),
        ),
        (
            RecordFilter(operations=("Heap",), only_images=True, xids=(xid,)),
            lambda record: (
                record.rmgr == "Heap"
                and record.xid == xid
                and has_block(record, lambda block: block.image is not None)
            ),
        ),
    ]
    for only, is_wanted in cases:
        expected = list(filter(is_wanted, whole))
        assert list(records(tmp_path, only=only)) == expected, only
        told = [
            json.loads(line)
            for text in lines(tmp_path, style="json", only=only)
            for line in text.splitlines()
        ]
        assert [record["lsn"] for record in told] == [str(record.lsn) for record in expected]
    assert len(list(records(tmp_path, only=cases[5][0]))) > 20


@pytest.mark.live
def test_pg_waldump_prints_the_same_ones(tmp_path: Path) -> None:
    """Its options are those of 15 and newer; it knows one value of each."""
    facts = unpack(18, tmp_path)
    start, end = Lsn.parse(facts["start"]), Lsn.parse(facts["end"])
    whole = list(records(tmp_path, start=start, end=end))
    first = most([place(block) for record in whole for block in record.blocks])
    relation = f"--relation={'/'.join(map(str, first))}"
    xid = Counter(record.xid for record in whole if record.xid).most_common(1)[0][0]
    cases: list[tuple[list[str], RecordFilter]] = [
        (["--rmgr=btree"], RecordFilter(operations=("Btree",))),
        ([f"--xid={xid}"], RecordFilter(xids=(xid,))),
        ([relation], RecordFilter(relations=(first,))),
        ([relation, "--block=0"], RecordFilter(relations=(first,), block=0)),
        (["--fork=vm"], RecordFilter(fork="vm")),
        (["--fullpage"], RecordFilter(only_images=True)),
        (["--fullpage", "--rmgr=Heap"], RecordFilter(only_images=True, operations=("Heap",))),
        (["--rmgr=Heap", "--limit=3"], RecordFilter(operations=("Heap",))),
    ]
    base = [str(BINDIRS["18"] / "pg_waldump"), "-p", str(tmp_path), "-s", str(start), "-e", str(end)]
    for options, only in cases:
        done = subprocess.run([*base, *options], capture_output=True, text=True, check=True)
        expected = [
            Lsn.parse(line.split("lsn: ")[1].split(",")[0])
            for line in done.stdout.splitlines()
            if "lsn: " in line
        ]
        found = [record.lsn for record in records(tmp_path, start=start, end=end, only=only)]
        assert found[: 3 if "--limit=3" in options else None] == expected, options
        assert expected, options


@pytest.mark.live
@pytest.mark.parametrize("version", SERVERS)
def test_the_end_of_a_transaction_is_found_by_its_parts(version: str) -> None:
    """Of a subtransaction, and of one that was prepared and is committed by another session, in which case it
    stands after lists of files, statistics and messages."""
    with Server(SERVERS[version]) as server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE kept (id int)")
            tables = [f"CREATE TABLE gone{number} (id int PRIMARY KEY)" for number in range(3)]
            for statement in tables:
                connection.execute(statement)
        start = server.insert_lsn()
        top, sub = write(server, "COMMIT")
        prepared, below = write(server, "DROP TABLE gone0, gone1; PREPARE TRANSACTION 'later'")
        with server.connect() as connection:
            connection.execute("COMMIT PREPARED 'later'")
        aborted, within = write(server, "DROP TABLE gone2; PREPARE TRANSACTION 'never'")
        with server.connect() as connection:
            connection.execute("ROLLBACK PREPARED 'never'")
        end = server.insert_lsn()

        def ends_of(xid: int) -> list[str]:
            only = RecordFilter(operations=("Transaction",), xids=(xid,))
            found = records(server.wal, start=start, end=end, only=only)
            return [
                f"{record.operation} {record.xid}"
                for record in found
                if record.operation not in ("ASSIGNMENT", "INVALIDATION")
            ]

        assert ends_of(top) == ends_of(sub) == [f"COMMIT {top}"]
        assert ends_of(prepared) == [f"PREPARE {prepared}", "COMMIT_PREPARED 0"]
        assert ends_of(below) == ["COMMIT_PREPARED 0"]
        assert ends_of(aborted) == [f"PREPARE {aborted}", "ABORT_PREPARED 0"]
        assert ends_of(within) == ["ABORT_PREPARED 0"]
        rows = records(server.wal, start=start, end=end, only=RecordFilter(operations=("Heap",), xids=(sub,)))
        assert "INSERT" in {record.operation.partition("+")[0] for record in rows}


def write(server: Server, end: str) -> tuple[int, int]:
    """A transaction that inserts a row after a savepoint; its number and the subtransaction's."""
    with server.connect() as connection:
        connection.execute("BEGIN; SELECT txid_current(); SAVEPOINT point; INSERT INTO kept VALUES (1)")
        row = connection.execute(
            "SELECT txid_current(), xmin::text FROM kept ORDER BY xmin::text::bigint DESC"
        )
        top, sub = row.fetchone() or (0, 0)
        connection.execute(end)
    return int(str(top)), int(str(sub))


def test_a_limit_counts_what_is_wanted(tmp_path: Path) -> None:
    unpack(18, tmp_path)
    only = RecordFilter(operations=("Transaction",))
    whole = "".join(lines(tmp_path, only=only)).splitlines()
    assert "".join(lines(tmp_path, only=only, limit=7)).splitlines() == whole[:7]
    assert len(whole) > 100


def test_names_that_no_record_has_are_refused() -> None:
    with pytest.raises(WalError, match='no resource manager is called "Heaps"') as caught:
        RecordFilter(operations=("Heap", "Heaps/INSERT"))
    assert "XLOG, Transaction" in (caught.value.hint or "")
    with pytest.raises(WalError, match='no fork is called "mian"'):
        RecordFilter(fork="mian")
    with pytest.raises(WalError, match="no operation is called") as caught:
        RecordFilter(operations=("Heap/DELET",))
    assert "Heap/INSERT, Heap/DELETE, Heap/UPDATE" in (caught.value.hint or "")
    for operation in ("Heap/", "custom5", "custom999", "Transaction/COMMIT PREPARED"):
        with pytest.raises(WalError, match="is called"):
            RecordFilter(operations=(operation,))
    RecordFilter(operations=("custom128", "Custom255/UNKNOWN (0)", "heap/hot_update", "Heap/UNKNOWN (90)"))


def relation(database: str, name: str, number: int, owner: str | None = None) -> Relation:
    return Relation(1663, 5, number, database, name, "table", None, owner)


def test_relations_are_found_by_names_and_numbers() -> None:
    names = RelationMap(
        1, 180000, 0.0,
        (
            relation("shop", "public.orders", 10), relation("test", "public.orders", 11),
            relation("shop", "old.orders", 12), relation("shop", "public.customers", 13),
            relation("shop", "public.sales_1", 14, "sales"), relation("shop", "old.x", 15, "old.parts"),
        ),
    )  # fmt: skip

    def numbers(*wanted: str) -> list[int]:
        return [place[2] for place in find_relations(wanted, names)]

    assert numbers("orders") == [10, 11, 12]
    assert numbers("public.orders") == [10, 11]
    assert numbers("shop: public.orders", "public.customers") == [10, 13]
    assert numbers("1663/5/99", "orders", "1663/5/10") == [99, 10, 11, 12]
    assert numbers("public.sales", "old.parts") == [14, 15], "partitions stand for their table"
    assert numbers("sales_1") == numbers("sales") == [14]
    assert find_relations(["1664/0/1262"], None) == ((1664, 0, 1262),)
    with pytest.raises(WalError, match=r'no relation "public\.order"') as caught:
        numbers("public.order")
    assert caught.value.hint == "Is it public.orders or public.customers or old.orders?"
    for text in ("orders", "1663/5", f"1663/5/{2**32}"):
        with pytest.raises(WalError, match="nothing here knows the name"):
            find_relations([text], None)


def test_a_partitioned_table_is_its_partitions_on_every_level() -> None:
    leaf = replace(
        relation("shop", "public.events_11_eu", 10, "events_11"),
        ancestors=("public.events_11", "public.events"),
    )
    other = replace(relation("shop", "public.events_rest", 11, "events"), ancestors=("public.events",))
    quoted = replace(relation("shop", "app.part", 12, 'app."Orders"'), ancestors=("app.Orders",))
    names = RelationMap(1, 180000, 0.0, (leaf, other, quoted))
    for text, numbers in (
        ("public.events", [10, 11]), ("events", [10, 11]), ("shop: public.events", [10, 11]),
        ("public.events_11", [10]), ("app.Orders", [12]),
    ):  # fmt: skip
        assert [place[2] for place in find_relations([text], names)] == numbers
    with pytest.raises(WalError) as caught:
        find_relations(["public.event"], names)
    assert "public.events" in (caught.value.hint or "")


def test_a_map_of_a_file_finds_relations(tmp_path: Path) -> None:
    names = RelationMap(1, 180000, 0.0, (relation("shop", "public.orders", 10),))
    (tmp_path / "map.json").write_text(names.to_json())
    assert find_relations(["orders"], read_map(tmp_path / "map.json")) == ((1663, 5, 10),)

"""The recipe of docs/wal.md: which transaction deleted the rows, and a recovery that ends before it."""

from __future__ import annotations

import json
import shutil
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import walproof
from tests.wal.server import BINDIRS, Server

pytestmark = pytest.mark.live


def found(cwd: Path, wal: Path, *conditions: str) -> list[dict[str, Any]]:
    done = walproof("wal", "records", str(wal), "--map", "map.json", "--json", *conditions, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def run(server: Server, *statements: str) -> list[tuple[object, ...]]:
    """The rows of the last statement."""
    with server.connect() as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def hand_over(server: Server, *paths: Path) -> None:
    """Make files the server's own."""
    owner = server.data.stat()
    for path in paths:
        shutil.chown(path, owner.st_uid, owner.st_gid)


def test_a_recovery_ends_before_the_transaction_that_was_found(tmp_path: Path) -> None:
    with Server(BINDIRS["18"], {"fsync": "off"}) as server:
        run(server, "CREATE TABLE orders (id int)", "CREATE TABLE customers (id int)", "CHECKPOINT")
        backup = server.folder / "backup"
        server.stop()
        shutil.copytree(server.data, backup)
        hand_over(server, backup, *backup.rglob("*"))
        server.start()
        run(
            server,
            "INSERT INTO orders SELECT generate_series(1, 500)",
            "INSERT INTO customers VALUES (1), (2)",
        )
        dsn = f"host={server.folder} user=postgres dbname=postgres"
        (tmp_path / "map.json").write_text(walproof("wal", "map", dsn, cwd=tmp_path).stdout)
        before = datetime.now(UTC).isoformat()
        run(server, "DELETE FROM customers WHERE id = 1")
        [[mistake]] = run(server, "WITH gone AS (DELETE FROM orders) SELECT pg_current_xact_id()::text")
        run(server, "INSERT INTO orders VALUES (501)", "DROP TABLE customers", "SELECT pg_switch_wal()")
        archive = server.new_folder("archive")
        for segment in server.segments():
            shutil.copy(segment, archive)
        hand_over(server, *archive.iterdir())

        deletes = found(tmp_path, archive, "-R", "public.orders", "-r", "Heap/DELETE", "--since", before)
        assert len(deletes) == 500
        assert {record["xid"] for record in deletes} == {int(str(mistake))}
        [commit] = found(tmp_path, archive, "--xid", str(mistake), "-r", "Transaction/COMMIT")
        # A table that is gone is a row that pg_class lost; its transaction is found in the same way.
        dropped = found(
            tmp_path, archive, "-R", "pg_catalog.pg_class", "-r", "Heap/DELETE", "--since", before
        )
        assert {int(record["xid"]) for record in dropped} == {int(str(mistake)) + 2}

        server.stop(signal.SIGINT)
        server.data = backup
        (backup / "recovery.signal").touch()
        server.configure(
            {
                "restore_command": f"cp {archive}/%f %p",
                "recovery_target_xid": str(commit["xid"]),
                "recovery_target_inclusive": "off",
                "recovery_target_action": "promote",
                # Nobody gets in before the target is reached.
                "hot_standby": "off",
            }
        )
        server.start()
        assert run(server, "SELECT count(*), max(id) FROM orders") == [(500, 500)]
        assert run(server, "SELECT id FROM customers") == [(2,)], "what came before is there"

"""Names of relations from a live server, with the rights of a plain user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.wal.server import SERVERS, Server
from walproof.errors import ProbeError
from walproof.probe.relations import read_relations
from walproof.wal import read_map, stats

pytestmark = pytest.mark.live


@pytest.mark.parametrize("version", list(SERVERS))
def test_every_relation_in_the_wal_has_its_name(version: str, tmp_path: Path) -> None:
    with Server(SERVERS[version]) as server:
        with server.connect() as connection:
            connection.execute("CREATE DATABASE shop")
            connection.execute("CREATE ROLE reader LOGIN")
            connection.execute("VACUUM FULL pg_class")
        start = server.insert_lsn()
        with server.connect("shop") as connection:
            connection.execute(
                "CREATE TABLE orders (id int PRIMARY KEY, note text) PARTITION BY RANGE (id);"
                "CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM (0) TO (1000);"
                "CREATE INDEX orders_note ON orders USING hash (note);"
                "CREATE TABLE events (id int) PARTITION BY RANGE (id);"
                "CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (9)"
                " PARTITION BY RANGE (id);"
                "CREATE TABLE events_1_1 PARTITION OF events_1 FOR VALUES FROM (0) TO (5);"
                "INSERT INTO orders SELECT i, repeat(md5(i::text), 200) FROM generate_series(1, 500) i;"
                "SELECT count(*) FROM orders_1 WHERE id = 5"
            )
        end = server.insert_lsn()
        names = read_relations(f"host={server.folder} user=reader dbname=postgres")
        assert names.left_out == ()
        wal = stats(server.wal, start=start, end=end)
        assert names.system_identifier == wal.system_identifier
        known = names.by_place()
        missing = [
            relation
            for relation in wal.relations
            if (relation.tablespace, relation.database, relation.relation) not in known
        ]
        assert missing == []
        by_name = {
            relation.name: relation for relation in names.relations if relation.database_name == "shop"
        }
        assert by_name["public.orders_1"].owner == "orders"
        assert by_name["public.orders_1"].ancestors == ("public.orders",)
        assert by_name["public.events_1_1"].ancestors == ("public.events_1", "public.events")
        assert by_name["public.orders_1_pkey"].ancestors == ()
        assert by_name["public.orders_1_pkey"].kind == "index"
        assert by_name["public.orders_1_note_idx"].method == "hash"
        toasts = [
            relation
            for relation in names.relations
            if relation.owner == "orders_1" and "toast" in relation.kind
        ]
        assert {toast.kind for toast in toasts} == {"toast table", "toast index"}

        dsn = f"host={server.folder} user=reader dbname=postgres"
        done = walproof("wal", "map", dsn, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (tmp_path / "map.json").write_text(done.stdout)
        saved = read_map(tmp_path / "map.json")
        assert saved.system_identifier == names.system_identifier
        # Scans of catalog indexes go on meanwhile.
        assert {(relation.database, relation.relation, relation.name) for relation in saved.relations} == {
            (relation.database, relation.relation, relation.name) for relation in names.relations
        }
        common = ["wal", "stats", str(server.wal), "--start", str(start), "--end", str(end), "--by", "index"]
        shown = walproof(*common, "--map", "map.json", "--json", cwd=tmp_path)
        rows = {row["relation"]: row for row in json.loads(shown.stdout)["rows"]}
        assert rows["shop: public.orders_1_note_idx"]["method"] == "hash"
        assert rows["shop: public.orders_1_note_idx"]["idx_scan"] == 0
        asked = walproof(*common, "--resolve", dsn, cwd=tmp_path)
        assert "shop: public.orders_1_pkey" in asked.stdout, asked.stderr
        unread = [name for name, row in rows.items() if row["idx_scan"] == 0 and ": pg_" not in name]
        text = " ".join(asked.stdout.split())
        assert unread == ["shop: public.orders_1_note_idx"]
        assert "1 index was never scanned since the statistics were reset" in text
        assert "shop: public.orders_1_note_idx" in text.split("The largest:")[1]

        with server.connect() as connection:
            connection.execute("REVOKE CONNECT ON DATABASE shop FROM public")
        partial = read_relations(dsn)
        assert [reason.split(":")[0] for reason in partial.left_out] == ["shop"]
        assert {relation.database_name for relation in partial.relations} >= {"postgres", ""}


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ProbeError, match="could not connect"):
        read_relations("host=/nowhere user=nobody")

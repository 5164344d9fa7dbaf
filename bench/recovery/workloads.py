"""Loads that nobody tuned the model of recovery on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Workload:
    """Tables, and what is run on them until enough WAL is written."""

    name: str
    setup: tuple[str, ...]
    script: str | None
    """For pgbench; None: its own TPC-B-like one."""
    scale: int = 0
    """Of pgbench's own tables; 0: none."""
    clients: int = 4
    settings: Mapping[str, str] = field(default_factory=dict)


_ORDERS = (
    "CREATE TABLE orders (id uuid PRIMARY KEY, customer int, status text, placed timestamptz, body jsonb)",
    "CREATE INDEX ON orders (customer)",
    "CREATE INDEX ON orders (placed)",
    "INSERT INTO orders SELECT gen_random_uuid(), n % 50000, 'new', now() - n * interval '1 s',"
    " jsonb_build_object('n', n, 'text', md5(n::text) || md5((n + 1)::text)) FROM generate_series(1, 400000)"
    " n",
)
_DOCUMENTS = (
    "CREATE TABLE documents (id bigserial PRIMARY KEY, body text, words tsvector)",
    "CREATE INDEX ON documents USING gin (words)",
    "INSERT INTO documents (body, words) SELECT t, to_tsvector('simple', t) FROM (SELECT string_agg("
    "substr(md5((n * 31 + w)::text), 1, 4), ' ') t FROM generate_series(1, 20000) n, generate_series(1, 12) w"
    " GROUP BY n) q",
)
WORKLOADS = (
    Workload("tpcb", (), None, scale=20),
    Workload("tpcb-nofpw", (), None, scale=20, settings={"full_page_writes": "off"}),
    Workload("tpcb-pglz", (), None, scale=20, settings={"wal_compression": "pglz"}),
    Workload(
        "orders",
        _ORDERS,
        r"""\set customer random(1, 50000)
BEGIN;
INSERT INTO orders VALUES (gen_random_uuid(), :customer, 'new', now(), '{"a": 1, "b": "text of an order"}');
UPDATE orders SET status = 'sent' WHERE id = (SELECT id FROM orders WHERE customer = :customer LIMIT 1);
DELETE FROM orders WHERE id = (SELECT id FROM orders WHERE customer = :customer / 2 LIMIT 1);
COMMIT;
""",
    ),
    Workload(
        "bulk",
        (
            "CREATE TABLE events (id bigserial PRIMARY KEY, device int, at timestamptz, value float,"
            " note text)",
            "CREATE INDEX ON events (device, at)",
            "CREATE INDEX ON events (value)",
        ),
        "INSERT INTO events (device, at, value, note) SELECT n % 500, clock_timestamp(), random(),"
        " repeat('e', 60) FROM generate_series(1, 5000) n;\n",
        clients=2,
    ),
    Workload(
        "purge",
        (
            "CREATE TABLE log (id bigserial PRIMARY KEY, at timestamptz, line text)",
            "CREATE INDEX ON log (at)",
            "INSERT INTO log (at, line) SELECT now() - n * interval '1 s', repeat('l', 120)"
            " FROM generate_series(1, 1500000) n",
        ),
        "WITH gone AS (SELECT id FROM log ORDER BY id LIMIT 20000) DELETE FROM log USING gone"
        " WHERE log.id = gone.id;\n"
        "INSERT INTO log (at, line) SELECT now(), repeat('m', 120) FROM generate_series(1, 5000) n;\n"
        "VACUUM log;\n",
        clients=1,
    ),
    Workload(
        "documents",
        _DOCUMENTS,
        "INSERT INTO documents (body, words) SELECT t, to_tsvector('simple', t) FROM (SELECT string_agg("
        "substr(md5(random()::text), 1, 4), ' ') t FROM generate_series(1, 200) n, generate_series(1, 12) w"
        " GROUP BY n) q;\n",
        clients=2,
    ),
    Workload(
        "toast",
        (
            "CREATE TABLE blobs (id int PRIMARY KEY, body text)",
            "INSERT INTO blobs SELECT n, (SELECT string_agg(md5((n * 1000 + k)::text), '')"
            " FROM generate_series(1, 250) k) FROM generate_series(1, 8000) n",
        ),
        r"""\set id random(1, 8000)
UPDATE blobs SET body = (SELECT string_agg(md5((random() * k)::text), '') FROM generate_series(1, 250) k)
 WHERE id = :id;
""",
    ),
    Workload(
        "staging",
        ("CREATE TABLE target (id int, f text)", "CREATE INDEX ON target (id)"),
        r"""\set n random(1, 1000000000)
BEGIN;
CREATE TABLE staging_:n (id int, f text);
INSERT INTO staging_:n SELECT (random() * 1000000)::int, repeat('s', 80) FROM generate_series(1, 10000);
INSERT INTO target SELECT * FROM staging_:n;
COMMIT;
DROP TABLE staging_:n;
""",
        clients=2,
    ),
)

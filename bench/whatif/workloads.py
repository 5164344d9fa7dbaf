"""Fixed work for the validation of the what-if: the same transactions whatever the settings."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Work:
    """Tables, and transactions in a fixed number."""

    name: str
    setup: str = ""
    """SQL; empty for pgbench's own tables."""
    after: str = ""
    """SQL behind pgbench's own tables."""
    script: str = ""
    """pgbench script; empty for tpcb-like."""
    scale: int = 20
    clients: int = 4
    transactions: int = 25_000
    """Of each client."""
    rate: int | None = None
    """Transactions a second at most."""
    initdb: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)


_ZIPF = """\\set aid 1 + (random_zipfian(1, 100000 * :scale, 1.2) * 7919) % (100000 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
_UUID = """\\set one random(1, 1000000000)
\\set two random(1, 1000000000)
INSERT INTO items SELECT md5(:one || 'x' || :two || 'x' || n)::uuid, n FROM generate_series(1, 12) n;
"""
_READS = """\\set aid random(1, 100000 * :scale)
\\set other random(1, 100000 * :scale)
\\set delta random(-5000, 5000)
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid BETWEEN :other AND :other + 50;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""
_SCANS = """\\set aid random(1, 100000 * :scale)
\\set other random(1, 100000 * :scale)
\\set delta random(-5000, 5000)
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :other AND :other + 500;
"""
_CHURN = """\\set aid random(1, 100000 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :aid, :delta, CURRENT_TIMESTAMP);
DELETE FROM pgbench_history WHERE aid = :aid - 1;
END;
"""
_MIX = """\\set id random(1, 200000)
\\set a random(1, 5000)
\\set b random(1, 5000)
BEGIN;
UPDATE docs SET words = ARRAY[:a, :b, :a + 1], place = point(:a, :b), body = repeat(md5(:a::text), 3)
 WHERE id = :id;
INSERT INTO docs (words, place, body) VALUES (ARRAY[:b, :a], point(:b, :a), md5(:b::text));
END;
"""
_SERIES = """\\set day random(1, 8)
\\set device random(1, 2000)
\\set value random(1, 1000000)
INSERT INTO series SELECT date '2026-01-01' + :day, :device, now(), :value + n, md5(n::text)
 FROM generate_series(1, 40) n;
UPDATE series SET value = value + 1
 WHERE day = date '2026-01-01' + :day AND device = :device AND value < 200000;
"""

_QUEUE = """\\set id random(1, 200000)
BEGIN;
INSERT INTO jobs (kind, payload) VALUES (:id % 7, repeat(md5('x' || :id), 6));
UPDATE jobs SET state = 1, done = now() WHERE id = :id;
DELETE FROM jobs WHERE id = :id - 3;
END;
"""
_LOADS = """\\set from random(1, 10000000)
\\set to :from + 300
COPY loads FROM PROGRAM 'seq -f "%.0f,abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyz" :from :to' CSV;
UPDATE loads SET note = 'seen' WHERE id = :from + 5;
"""

TPCB = Work("tpcb")
ZIPF = Work("zipf", script=_ZIPF)
UUID = Work(
    "uuid",
    setup="CREATE TABLE items (id uuid PRIMARY KEY, value int);"
    "INSERT INTO items SELECT md5(n::text)::uuid, n FROM generate_series(1, 600000) n;",
    script=_UUID, transactions=6_000, rate=2000,
)  # fmt: skip
READS = Work("reads with checksums", script=_READS, transactions=20_000, initdb=("-k",))
HINTS = Work("scans, wal_log_hints", script=_SCANS, transactions=8_000)
TPCB_HINTS = Work("tpcb, wal_log_hints")
CHURN = Work(
    "autovacuum", after="CREATE INDEX ON pgbench_history (aid)", script=_CHURN, transactions=12_000,
    scale=10, rate=2500,
    settings={
        "autovacuum": "on", "autovacuum_naptime": "2s", "autovacuum_vacuum_scale_factor": "0.01",
        "autovacuum_vacuum_cost_delay": "0",
    },
)  # fmt: skip
PGLZ = Work("tpcb, pglz", settings={"wal_compression": "on"})
LZ4 = Work("tpcb, lz4", settings={"wal_compression": "lz4"})
ZSTD = Work("tpcb, zstd", settings={"wal_compression": "zstd"})
MIX = Work(
    "gin, gist, hash; logical",
    setup="CREATE TABLE docs (id bigserial PRIMARY KEY, words int[], place point, body text);"
    "INSERT INTO docs (words, place, body) SELECT ARRAY[n % 5000, n % 4999], point(n % 5000, n % 977),"
    " md5(n::text) FROM generate_series(1, 200000) n;"
    "CREATE INDEX ON docs USING gin (words); CREATE INDEX ON docs USING gist (place);"
    "CREATE INDEX ON docs USING hash (body);",
    script=_MIX, transactions=12_000, settings={"wal_level": "logical"},
)  # fmt: skip
SERIES = Work(
    "partitioned series",
    setup="CREATE TABLE series (day date, device int, at timestamptz, value int, note text)"
    " PARTITION BY RANGE (day);"
    "DO $$ BEGIN FOR d IN 0..9 LOOP EXECUTE format('CREATE TABLE series_%s PARTITION OF series FOR VALUES"
    " FROM (%L) TO (%L)', d, date '2026-01-01' + d, date '2026-01-01' + d + 1); END LOOP; END $$;"
    "CREATE INDEX ON series (device, value); CREATE INDEX ON series USING brin (at);",
    script=_SERIES, transactions=4_000,
)  # fmt: skip
TIMED = Work("tpcb, by time", transactions=25_000, rate=1000)
"""100 s of it."""
QUEUE = Work(
    "queue",
    setup="CREATE TABLE jobs (id bigserial PRIMARY KEY, kind int, state int DEFAULT 0, done timestamptz,"
    " payload text);"
    "INSERT INTO jobs (kind, payload) SELECT n % 7, repeat(md5('y' || n), 6)"
    " FROM generate_series(1, 200000) n;"
    "CREATE INDEX ON jobs (state, kind);",
    script=_QUEUE, transactions=10_000,
)  # fmt: skip
LOADS = Work(
    "copy",
    setup="CREATE TABLE loads (id int, note text); CREATE INDEX ON loads (id);",
    script=_LOADS, transactions=1_500,
)  # fmt: skip

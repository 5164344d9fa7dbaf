"""Six loads that are steady once they are warm, for advice that is carried out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """Work that stays the same from cycle to cycle once it is warm."""

    name: str
    pg: str
    prepare: tuple[str, ...]
    scale: int | None
    work: tuple[str, ...]
    sql: str | None
    rate: int
    warm_up: int
    """Transactions before anything is measured: what an update costs falls while pages get room, and rises
    again when they have it."""


LOADS = (
    Load("random updates", "16", (), 4, ("-b", "simple-update"), None, 1000, 300_000),
    Load(
        "random keys", "16",
        ("CREATE TABLE parcel (id uuid PRIMARY KEY, owner int, note text)",
         "INSERT INTO parcel SELECT md5(i::text)::uuid, i % 9000, repeat('p', 60) "
         "FROM generate_series(1, {rows}) i",
         "CREATE INDEX parcel_owner ON parcel (owner)", "VACUUM ANALYZE parcel"),
        None, (),
        "\\set n random(1, 1000000000)\n"
        "INSERT INTO parcel VALUES (md5(:n || 'new')::uuid, :n % 9000, repeat('p', 60)) "
        "ON CONFLICT DO NOTHING;",
        1000, 40_000,
    ),
    Load("tpcb-like", "15", (), 4, ("-b", "tpcb-like"), None, 800, 300_000),
    # Few rows have most of the updates, and room on their pages.
    Load(
        "hot rows", "18",
        ("CREATE TABLE account (id int PRIMARY KEY, balance int, note text) WITH (fillfactor = 70)",
         "INSERT INTO account SELECT i, 0, repeat('h', 80) FROM generate_series(1, {rows}) i",
         "VACUUM ANALYZE account"),
        None, (),
        "\\set id random_zipfian(1, {rows}, 1.05)\n"
        "UPDATE account SET balance = balance + 1 WHERE id = :id;",
        1000, 80_000,
    ),
    # Rows come and go in order; wide ones, so that a page has few.
    Load(
        "queue", "16",
        ("CREATE TABLE job (id bigserial PRIMARY KEY, owner int, payload text)",
         "CREATE INDEX job_owner ON job (owner)",
         "INSERT INTO job (owner, payload) "
         "SELECT i % 9000, repeat('q', 400) FROM generate_series(1, {rows} / 5) i",
         "VACUUM ANALYZE job"),
        None, (),
        "\\set owner random(1, 9000)\n"
        "INSERT INTO job (owner, payload) VALUES (:owner, repeat('q', 400));\n"
        "DELETE FROM job WHERE id = (SELECT min(id) FROM job WHERE owner = :owner);",
        400, 40_000,
    ),
    # Two tables at once: one that grows in order, one that is updated at random.
    Load(
        "ledger", "15",
        ("CREATE TABLE entry "
         "(id bigserial PRIMARY KEY, account int, amount int, at timestamptz DEFAULT now())",
         "CREATE TABLE saldo (account int PRIMARY KEY, amount bigint, note text)",
         "INSERT INTO saldo SELECT i, 0, repeat('s', 120) FROM generate_series(1, {rows} / 2) i",
         "VACUUM ANALYZE saldo"),
        None, (),
        "\\set account random(1, {rows} / 2)\n"
        "BEGIN;\nINSERT INTO entry (account, amount) VALUES (:account, 1);\n"
        "UPDATE saldo SET amount = amount + 1 WHERE account = :account;\nCOMMIT;",
        800, 80_000,
    ),
)  # fmt: skip

"""A table with one of everything that a load has to respect, and a narrow one of types that drivers have."""

from __future__ import annotations

SHOP = """
CREATE TYPE status AS ENUM ('new', 'paid');
CREATE DOMAIN cents AS bigint CHECK (value >= 0);
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE audit (order_id bigint NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE "Orders" (
  id bigint PRIMARY KEY, customer int NOT NULL REFERENCES customers, placed timestamptz NOT NULL,
  day date NOT NULL, amount numeric(10, 2) NOT NULL CHECK (amount > 0), price cents, share real,
  paid boolean,
  points numeric(5), "note it" varchar(40), code char(6), token uuid, body bytea, flags int[] NOT NULL,
  doc jsonb, state status, origin inet, twice bigint GENERATED ALWAYS AS (id * 2) STORED,
  seen timestamptz DEFAULT clock_timestamp()
);
ALTER TABLE "Orders" ALTER seen DROP NOT NULL;
CREATE INDEX orders_customer ON "Orders" (customer);
CREATE UNIQUE INDEX orders_lower ON "Orders" (lower("note it"), id) WHERE paid;
CREATE FUNCTION audit_order() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO audit (order_id) VALUES (new.id); RETURN NULL; END $$;
CREATE TRIGGER orders_audit AFTER INSERT ON "Orders" FOR EACH ROW EXECUTE FUNCTION audit_order();
"""
REPLAY = 'INSERT INTO audit (order_id) SELECT id FROM "Orders"'
NARROW = """
CREATE TABLE narrow (id bigint PRIMARY KEY, account int, amount double precision, kind varchar(12), day date);
CREATE INDEX narrow_account ON narrow (account);
"""

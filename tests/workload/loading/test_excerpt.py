"""What is kept of a dump: the table that was asked about and what it needs, and nothing else."""

from __future__ import annotations

import re

import pytest

from walproof.errors import WorkloadError
from walproof.workload.loading.excerpt import excerpt

DUMP = """--
-- PostgreSQL database dump
--

SET statement_timeout = 0;
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);

CREATE SCHEMA shop;
CREATE SCHEMA other;
CREATE SCHEMA ext;
CREATE EXTENSION IF NOT EXISTS citext WITH SCHEMA ext;

CREATE TYPE shop.state AS ENUM ('new; paid', 'canary-not');
CREATE TYPE other.state AS ENUM ('canary');
CREATE DOMAIN shop.cents AS bigint CONSTRAINT c CHECK (shop.is_fine(VALUE));
CREATE FUNCTION shop.is_fine(x bigint) RETURNS boolean LANGUAGE sql AS $_$ SELECT $1 > 0; -- canary-not
$_$;
CREATE FUNCTION other.is_fine(x bigint) RETURNS boolean LANGUAGE sql AS $$
CREATE TABLE shop.orders (canary int);
$$;
CREATE FUNCTION shop.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO journal VALUES (new.id); PERFORM other.helper(); RETURN NULL; END $$;
CREATE FUNCTION other.helper() RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT 1; END;
CREATE CAST (shop.state AS text) WITH INOUT AS ASSIGNMENT;
CREATE CAST (other.state AS text) WITH FUNCTION other.canary(other.state);
CREATE SUBSCRIPTION s CONNECTION 'host=h password=canary' PUBLICATION p;
ALTER SUBSCRIPTION s ENABLE;
CREATE PUBLICATION p FOR TABLE shop.orders;
CREATE SERVER canary FOREIGN DATA WRAPPER w OPTIONS (host 'canary');
CREATE USER MAPPING FOR me SERVER canary OPTIONS (password 'canary');
CREATE FOREIGN TABLE shop.far (i int) SERVER canary;

CREATE TABLE shop.orders (
    id bigint NOT NULL,
    customer int,
    price shop.cents,
    state shop.state,
    tag ext.citext
)
PARTITION BY RANGE (id);
CREATE SEQUENCE shop.orders_id_seq AS bigint;
ALTER SEQUENCE shop.orders_id_seq OWNED BY shop.orders.id;
CREATE TABLE shop.orders_1 (id bigint NOT NULL, customer int);
CREATE TABLE shop."Customers" (id int NOT NULL, country int);
CREATE TABLE shop.countries (id int NOT NULL);
CREATE TABLE shop.journal (id bigint);
CREATE TABLE shop.lines (order_id bigint, canary text);
CREATE TABLE other.orders (canary int);
CREATE VIEW shop.report AS SELECT orders.id AS canary FROM shop.orders;
ALTER TABLE ONLY shop.orders ATTACH PARTITION shop.orders_1 FOR VALUES FROM (0) TO (10);
ALTER TABLE ONLY shop.orders ALTER COLUMN id SET DEFAULT nextval('shop.orders_id_seq'::regclass);
ALTER TABLE ONLY shop.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (id);
ALTER TABLE ONLY shop.orders_1 ADD CONSTRAINT orders_1_pkey PRIMARY KEY (id);
ALTER TABLE ONLY shop."Customers" ADD CONSTRAINT customers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY shop.countries ADD CONSTRAINT countries_pkey PRIMARY KEY (id);
CREATE UNIQUE INDEX lines_canary ON shop.lines USING btree (canary);
CREATE INDEX orders_customer ON ONLY shop.orders USING btree (customer);
CREATE INDEX orders_1_customer ON shop.orders_1 USING btree (customer);
ALTER INDEX shop.orders_pkey ATTACH PARTITION shop.orders_1_pkey;
ALTER INDEX shop.orders_customer ATTACH PARTITION shop.orders_1_customer;
CREATE TRIGGER noted AFTER INSERT OR UPDATE OF id ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.note();
CREATE INDEX online_orders ON shop.orders USING btree (placed);
CREATE TRIGGER on_order AFTER UPDATE OF on_hand ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.note();
CREATE INDEX only_canary ON shop.lines USING btree (canary);
CREATE TRIGGER canary AFTER INSERT ON shop.lines FOR EACH ROW EXECUTE FUNCTION other.canary();
CREATE POLICY canary ON shop.lines USING (true);
CREATE STATISTICS shop.st ON id, customer FROM shop.orders;
ALTER TABLE ONLY shop.orders ADD CONSTRAINT o_c FOREIGN KEY (customer) REFERENCES shop."Customers"(id);
ALTER TABLE ONLY shop."Customers" ADD CONSTRAINT c_c FOREIGN KEY (country) REFERENCES shop.countries(id);
ALTER TABLE ONLY shop.lines ADD CONSTRAINT canary FOREIGN KEY (order_id) REFERENCES shop.orders(id);
COMMENT ON TABLE shop.orders IS 'canary';
COMMENT ON INDEX shop.orders_customer IS 'canary-not shop.report, shop.lines';
COMMENT ON INDEX shop.lines_canary IS 'canary';
COMMENT ON CONSTRAINT o_c ON shop.orders IS 'canary-not';
COMMENT ON CONSTRAINT canary ON shop.lines IS 'canary';
GRANT SELECT ON TABLE shop.orders TO canary;
"""
NEEDED = (
    "CREATE SCHEMA shop", "CREATE EXTENSION", "CREATE SCHEMA ext", "TYPE shop.state", "DOMAIN shop.cents",
    "shop.is_fine(x", "shop.note()", "other.helper()", "CREATE CAST (shop.state",
    "CREATE TABLE shop.orders (",
    "CREATE SEQUENCE shop.orders_id_seq", "OWNED BY shop.orders.id", "CREATE TABLE shop.orders_1",
    'CREATE TABLE shop."Customers"', "CREATE TABLE shop.countries", "CREATE TABLE shop.journal",
    "ATTACH PARTITION shop.orders_1 FOR", "SET DEFAULT nextval", "ADD CONSTRAINT orders_pkey",
    "ADD CONSTRAINT orders_1_pkey", "customers_pkey", "countries_pkey", "INDEX orders_customer",
    "INDEX orders_1_customer", "ALTER INDEX shop.orders_pkey", "ALTER INDEX shop.orders_customer",
    "INDEX online_orders", "TRIGGER on_order",
    "TRIGGER noted", "STATISTICS shop.st", "CONSTRAINT o_c", "CONSTRAINT c_c",
    "SET standard_conforming_strings",
    "COMMENT ON INDEX shop.orders_customer", "COMMENT ON CONSTRAINT o_c ON",
)  # fmt: skip


def test_what_the_table_needs_is_kept() -> None:
    kept = excerpt(DUMP, "shop.orders")
    for needed in NEEDED:
        assert needed in kept, needed
    assert kept.index("CREATE TYPE shop.state") < kept.index("CREATE TABLE shop.orders (")


def test_nothing_else_is() -> None:
    """Canaries are in everything that other objects have."""
    kept = excerpt(DUMP, "shop.orders")
    assert "canary" not in kept.replace("canary-not", "")
    assert "statement_timeout" not in kept
    assert not re.search(r"SUBSCRIPTION|PUBLICATION|MAPPING|SERVER|GRANT|COMMENT ON TABLE|VIEW", kept)


def test_a_table_by_itself() -> None:
    kept = excerpt(DUMP, "shop.journal")
    assert kept.count("CREATE TABLE") == 1
    assert "FUNCTION" not in kept


def test_a_foreign_key_of_another_table_is_kept_and_that_table_is_not() -> None:
    """It forbids a TRUNCATE, and to drop the key that it points to."""
    kept = excerpt(DUMP, "shop.orders")
    assert 'CREATE TABLE "shop"."walproof_refers_1" AS SELECT id FROM "shop"."orders" LIMIT 0;' in kept
    assert kept.endswith(
        'ALTER TABLE "shop"."walproof_refers_1" ADD FOREIGN KEY (id) REFERENCES "shop"."orders" (id);\n'
    )
    assert "shop.lines ADD" not in kept
    # Those that are kept anyway need none; nor do keys to other tables of that name.
    assert "walproof_refers_2" not in kept
    several = DUMP + (
        'ALTER TABLE other.x ADD CONSTRAINT a FOREIGN KEY (i, j) REFERENCES shop.orders(customer, "Id");\n'
        "ALTER TABLE ONLY other.y ADD CONSTRAINT b FOREIGN KEY (i) REFERENCES shop.orders(id);\n"
        "ALTER TABLE ONLY other.z ADD CONSTRAINT c FOREIGN KEY (i) REFERENCES other.orders(id);\n"
    )
    kept = excerpt(several, "shop.orders")
    assert kept.count("CREATE TABLE") == excerpt(DUMP, "shop.orders").count("CREATE TABLE") + 1
    assert 'FOREIGN KEY (customer, "Id") REFERENCES "shop"."orders" (customer, "Id");' in kept


def test_a_partition_keeps_its_parent() -> None:
    """Alone it would be another table, whose indexes can be dropped."""
    kept = excerpt(DUMP, "shop.orders_1")
    for needed in (
        "CREATE TABLE shop.orders (",
        "ATTACH PARTITION shop.orders_1 FOR",
        "ATTACH PARTITION shop.orders_1_pkey",
    ):
        assert needed in kept, needed
    assert "canary" not in kept.replace("canary-not", "")


def test_names_are_those_of_sql() -> None:
    assert 'CREATE TABLE shop."Customers"' in excerpt(DUMP, 'SHOP."Customers"')
    with pytest.raises(WorkloadError) as raised:
        excerpt(DUMP, "Shop.Customers")
    assert raised.value.hint == 'Capitals need quotes: "shop"."Customers".'
    for absent in ("orders", "shop.customers", "nothing.at_all"):
        with pytest.raises(WorkloadError, match="does not exist"):
            excerpt(DUMP, absent)


def test_sql_that_somebody_wrote_stays_as_it_is() -> None:
    text = "CREATE TABLE a (i int); CREATE TABLE b (i int);"
    assert excerpt(text, "a") == text
    assert excerpt(f"{DUMP}\nCOPY shop.lines FROM stdin;\n", "shop.orders").endswith("stdin;\n")

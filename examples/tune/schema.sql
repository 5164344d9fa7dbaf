CREATE TABLE customers (id int PRIMARY KEY, orders int NOT NULL DEFAULT 0, note text);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer int NOT NULL,
    placed timestamptz NOT NULL DEFAULT now(),
    total numeric NOT NULL
);
CREATE INDEX orders_customer ON orders (customer);
INSERT INTO customers (id, note) SELECT i, repeat('x', 100) FROM generate_series(1, 200000) i;
INSERT INTO orders (customer, total) SELECT 1 + i % 200000, i % 90 FROM generate_series(1, 500000) i;
ANALYZE;

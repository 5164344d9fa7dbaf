\set customer random_zipfian(1, 200000, 1.2)
\set product random(1, 5000)
BEGIN;
INSERT INTO orders (customer_id, total) VALUES (:customer, :product * 0.1) RETURNING id AS order_id \gset
INSERT INTO items (order_id, line, product, price)
VALUES (:order_id, 1, :product, 9.9), (:order_id, 2, :product + 1, 5.5);
UPDATE customers SET orders = orders + 1 WHERE id = :customer;
COMMIT;

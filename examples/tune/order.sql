\set customer random_zipfian(1, 200000, 1.1)
BEGIN;
INSERT INTO orders (customer, total) VALUES (:customer, 10 + random() * 90);
UPDATE customers SET orders = orders + 1 WHERE id = :customer;
COMMIT;

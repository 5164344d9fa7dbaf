\set customer random_zipfian(1, 200000, 1.2)
SELECT id, placed, total FROM orders WHERE customer_id = :customer ORDER BY id DESC LIMIT 50;

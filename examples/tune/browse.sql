\set customer random_zipfian(1, 200000, 1.1)
SELECT id, placed, total FROM orders WHERE customer = :customer ORDER BY placed DESC LIMIT 10;

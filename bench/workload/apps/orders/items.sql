\set order random(1, 400000)
SELECT product, price FROM items WHERE order_id = :order;

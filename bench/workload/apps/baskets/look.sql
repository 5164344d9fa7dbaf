\set order random(1, 300000)
SELECT product, price FROM items WHERE order_id = :order;

\set order random(1, 300000)
INSERT INTO notes (order_id, body) VALUES (:order, 'called, will be sent on Monday');

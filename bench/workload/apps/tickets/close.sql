\set t random(1, 200000)
UPDATE tickets SET state = 'closed', closed = now() WHERE id = :t;

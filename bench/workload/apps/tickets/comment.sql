\set t random(1, 200000)
BEGIN;
INSERT INTO comments (ticket, number, body) VALUES (:t, nextval('comment_numbers'), repeat(md5(random()::text), 8));
UPDATE tickets SET state = 'waiting', amount = amount + 1 WHERE id = :t;
COMMIT;

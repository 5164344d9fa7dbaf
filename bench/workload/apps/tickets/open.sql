\set c random(1, 20000)
\set p random(1, 5)
BEGIN;
INSERT INTO tickets (customer, title, tags, priority, amount)
VALUES (md5('c' || :c)::uuid, 'Ticket ' || md5(random()::text), ARRAY['a1', 'b2'], :p, 10 + :p);
INSERT INTO counters (day, state, count) VALUES (current_date, 'new', 1)
ON CONFLICT (day, state) DO UPDATE SET count = counters.count + 1;
INSERT INTO outbox (payload) VALUES (jsonb_build_object('n', :c::int));
COMMIT;

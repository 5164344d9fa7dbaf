\set c random(1, 20000)
SELECT id, title, state FROM tickets WHERE customer = md5('c' || :c)::uuid ORDER BY opened DESC LIMIT 5;

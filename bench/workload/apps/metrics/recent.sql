\set device random(1, 2000)
SELECT avg(value) FROM samples WHERE device = :device AND metric = 'cpu' AND at > now() - interval '1 hour';

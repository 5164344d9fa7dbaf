UPDATE jobs SET state = 'done', finished = now()
WHERE id IN (SELECT id FROM jobs WHERE state <> 'done' AND enqueued > now() - interval '1 hour' ORDER BY enqueued LIMIT 1);

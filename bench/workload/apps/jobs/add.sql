\set q random(0, 3)
\set p random(1, 1000000000)
INSERT INTO jobs (queue, state, payload) VALUES ('queue ' || :q, 'queued', repeat(md5(:p::text), 4));

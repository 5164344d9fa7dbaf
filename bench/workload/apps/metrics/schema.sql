CREATE TABLE devices (id int PRIMARY KEY, name text NOT NULL, last_seen timestamptz);
CREATE TABLE samples (
    device int NOT NULL,
    metric text NOT NULL,
    at timestamptz NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (device, metric, at)
) PARTITION BY RANGE (at);
DO $$
DECLARE
    first timestamptz := date_trunc('day', now()) - interval '11 days';
BEGIN
    FOR n IN 0..11 LOOP
        EXECUTE format('CREATE TABLE samples_%s PARTITION OF samples FOR VALUES FROM (%L) TO (%L)',
                       n, first + n * interval '1 day', first + (n + 1) * interval '1 day');
    END LOOP;
END $$;
CREATE INDEX samples_metric ON samples (metric, at);
INSERT INTO devices SELECT i, 'device ' || i FROM generate_series(1, 2000) i;
INSERT INTO samples
SELECT 1 + i % 2000, CASE i % 2 WHEN 0 THEN 'cpu' ELSE 'memory' END,
       date_trunc('day', now()) - interval '11 days' + i * interval '0.828 s', i % 97
FROM generate_series(1, 1200000) i;
VACUUM ANALYZE;

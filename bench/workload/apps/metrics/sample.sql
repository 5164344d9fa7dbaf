\set device random(1, 2000)
\set value random(1, 100)
BEGIN;
INSERT INTO samples (device, metric, at, value)
VALUES (:device, 'cpu', clock_timestamp(), :value), (:device, 'memory', clock_timestamp(), :value);
UPDATE devices SET last_seen = now() WHERE id = :device;
COMMIT;

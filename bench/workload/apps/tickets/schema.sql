CREATE TYPE ticket_state AS ENUM ('new', 'open', 'waiting', 'closed');
CREATE TABLE customers (
    id uuid PRIMARY KEY,
    email text NOT NULL UNIQUE,
    name varchar(80) NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    prefs jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE tickets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer uuid NOT NULL REFERENCES customers,
    state ticket_state NOT NULL DEFAULT 'new',
    title text NOT NULL,
    tags text[] NOT NULL DEFAULT '{}',
    priority smallint NOT NULL CHECK (priority BETWEEN 1 AND 5),
    amount numeric(10, 2),
    opened timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed timestamptz
);
CREATE INDEX tickets_customer ON tickets (customer);
CREATE INDEX tickets_open ON tickets (opened) WHERE state <> 'closed';
CREATE TABLE comments (
    ticket bigint NOT NULL REFERENCES tickets,
    number bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (ticket, number)
);
CREATE SEQUENCE comment_numbers;
CREATE TABLE counters (day date, state ticket_state, count bigint NOT NULL DEFAULT 0, PRIMARY KEY (day, state));
CREATE TABLE outbox (id bigserial PRIMARY KEY, payload jsonb NOT NULL);

INSERT INTO customers (id, email, name, prefs)
SELECT md5('c' || i)::uuid, 'c' || i || '@example.org', 'Customer ' || i, jsonb_build_object('mail', i % 2 = 0)
FROM generate_series(1, 20000) i;
INSERT INTO tickets (customer, state, title, tags, priority, amount, opened)
SELECT md5('c' || 1 + i % 20000)::uuid, (ARRAY['new', 'open', 'waiting', 'closed'])[1 + i % 4]::ticket_state,
       'Ticket ' || md5(i::text), ARRAY['a' || i % 7, 'b' || i % 5], 1 + i % 5,
       CASE WHEN i % 3 = 0 THEN i % 900 END, now() - (200000 - i) * interval '1 minute'
FROM generate_series(1, 200000) i;
INSERT INTO comments SELECT 1 + i % 200000, nextval('comment_numbers'), repeat(md5(i::text), 8)
FROM generate_series(1, 300000) i;
INSERT INTO counters SELECT current_date - d, s, 1
FROM generate_series(0, 99) d, unnest(enum_range(NULL::ticket_state)) s;
INSERT INTO outbox (payload) SELECT jsonb_build_object('n', i) FROM generate_series(1, 5000) i;
VACUUM ANALYZE;

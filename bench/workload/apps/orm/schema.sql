CREATE SCHEMA app;
CREATE DOMAIN app.email AS text CHECK (VALUE LIKE '%@%');
CREATE TABLE app.users (
    id serial PRIMARY KEY,
    "userName" varchar(30) NOT NULL,
    email app.email NOT NULL,
    "isActive" boolean NOT NULL DEFAULT true,
    "lastSeen" timestamp(0) without time zone,
    UNIQUE ("userName")
);
CREATE TABLE app.sessions (
    key char(32) PRIMARY KEY,
    "userId" int NOT NULL REFERENCES app.users,
    data bytea NOT NULL,
    expires timestamptz NOT NULL
);
CREATE INDEX ON app.sessions (expires);
CREATE INDEX sessions_like ON app.sessions (key bpchar_pattern_ops);
CREATE TABLE app.items (
    id bigserial PRIMARY KEY,
    "userId" int NOT NULL REFERENCES app.users ON DELETE CASCADE,
    title text NOT NULL,
    score double precision NOT NULL DEFAULT 0,
    place point,
    span daterange,
    "search" tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, title)) STORED
);
CREATE INDEX ON app.items ("userId", id DESC);
CREATE INDEX ON app.items USING gin ("search");
CREATE INDEX ON app.items (lower(title));
CREATE TABLE app.likes (
    "userId" int NOT NULL REFERENCES app.users,
    "itemId" bigint NOT NULL REFERENCES app.items ON DELETE CASCADE,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY ("userId", "itemId")
);
CREATE FUNCTION app.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER touch BEFORE UPDATE ON app.items FOR EACH ROW EXECUTE FUNCTION app.touch();

INSERT INTO app.users ("userName", email) SELECT 'user' || i, 'u' || i || '@example.org' FROM generate_series(1, 30000) i;
INSERT INTO app.sessions SELECT md5(i::text), 1 + i % 30000, decode(repeat(md5(i::text), 6), 'hex'), now() + i * interval '1 second'
FROM generate_series(1, 60000) i;
INSERT INTO app.items ("userId", title, place) SELECT 1 + i % 30000, 'Item ' || i || ' of ' || md5(i::text), point(i, 1)
FROM generate_series(1, 100000) i;
INSERT INTO app.likes SELECT 1 + i % 30000, 1 + (i * 7) % 100000 FROM generate_series(1, 150000) i ON CONFLICT DO NOTHING;
VACUUM ANALYZE;

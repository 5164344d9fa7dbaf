\set u random(1, 30000)
\set k random(1, 1000000000)
BEGIN;
SELECT "app"."users"."id", "app"."users"."email" FROM "app"."users" WHERE "app"."users"."userName" = 'user' || :u AND "app"."users"."isActive" LIMIT 1;
INSERT INTO "app"."sessions" ("key", "userId", "data", "expires") VALUES (md5(:k::text || random()::text), :u, decode(repeat(md5(:k::text), 6), 'hex'), now() + interval '14 days');
UPDATE "app"."users" SET "lastSeen" = now() WHERE "app"."users"."id" = :u;
COMMIT;

\set k random(1, 60000)
UPDATE "app"."sessions" SET "data" = decode(repeat(md5(:k::text), 6), 'hex'), "expires" = now() + interval '14 days' WHERE "app"."sessions"."key" = md5(:k::text);

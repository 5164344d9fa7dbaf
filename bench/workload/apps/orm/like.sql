\set u random(1, 30000)
\set i random(1, 100000)
INSERT INTO app.likes ("userId", "itemId") VALUES (:u, :i) ON CONFLICT ("userId", "itemId") DO NOTHING;

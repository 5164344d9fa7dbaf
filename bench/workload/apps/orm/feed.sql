\set u random(1, 30000)
SELECT i.id, i.title, count(l.*) FROM app.items i LEFT JOIN app.likes l ON l."itemId" = i.id WHERE i."userId" = :u GROUP BY i.id ORDER BY i.id DESC LIMIT 10;

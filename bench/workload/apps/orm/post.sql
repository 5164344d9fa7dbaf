\set u random(1, 30000)
INSERT INTO app.items ("userId", title, score, span) VALUES (:u, 'Item of ' || md5(random()::text), 0.5, daterange(current_date, current_date + 3)) RETURNING app.items.id;

\set i random_exponential(1, 100000, 8)
UPDATE app.items SET score = score + 1.5 WHERE id = :i;

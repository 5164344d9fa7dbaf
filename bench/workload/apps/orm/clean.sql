DELETE FROM app.sessions WHERE expires < now() - interval '1 day';

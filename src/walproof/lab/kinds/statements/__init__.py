"""Studies of statements: each by itself on a quiet server."""

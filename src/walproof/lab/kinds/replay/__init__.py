"""Studies of replay: fixed WAL, replayed again and again."""

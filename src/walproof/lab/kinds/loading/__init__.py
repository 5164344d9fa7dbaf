"""Studies of loading: rows into a table, by one method or another."""

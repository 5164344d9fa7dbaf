"""Studies of backup: a base backup of a loaded server, restored to a moment from archived WAL."""

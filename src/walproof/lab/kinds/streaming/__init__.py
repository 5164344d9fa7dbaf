"""Studies of a live stream: a standby keeps up with a load, or does not."""

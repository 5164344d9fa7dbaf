"""Studies of failover: a pair whose primary dies."""

"""The load that is put on a cluster."""

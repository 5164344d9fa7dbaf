"""Studies of power cuts: each trial is one."""

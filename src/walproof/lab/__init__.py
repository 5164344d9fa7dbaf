"""The lab: the only conductor of trials."""

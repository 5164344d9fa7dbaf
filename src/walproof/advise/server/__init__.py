"""What a running server should set: rules, each a function of what was seen of it."""

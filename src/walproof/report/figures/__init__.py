"""Charts: what each shows as plain data, and how it is drawn from that. One figure a file."""

"""Loading a table: where rows come from, how they get to the server, and what is done to the table around it.

``table`` reads what a table is, ``source`` makes rows for it, ``rows`` hands them to a client, ``feeds`` names
every way to send them (one family a file), ``steps`` says what precedes and follows, ``sessions`` runs the
clients as processes of their own, ``contents`` compares what arrived.
"""

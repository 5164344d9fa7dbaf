"""Loads a table: where rows come from, how they get to the server, and what is done to the table before and
after.

``table`` reads what a table is, ``source`` makes rows for it (``named_keys``, ``paired_keys`` and
``partition_values`` say which values they must have), ``rows`` hands them to a client, ``feeds`` has every
way to send them (a family a file), ``steps`` says what precedes and follows, ``sessions`` runs clients as
processes of their own, ``contents`` compares what arrived. ``ddl`` takes the user's SQL apart.
"""

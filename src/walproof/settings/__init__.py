"""What a setting is: its type, unit, range and context in each version, and what it risks.

``catalogue`` knows every setting of PostgreSQL 13 to 19; ``value`` reads values as the server does;
``ownership`` names those that walproof sets itself; ``rules`` knows how settings affect each other; ``risk``
and ``durability`` say what a configuration may lose. The tables are ``catalogue.csv`` (made from servers by
bench/read_catalogue.py) and ``durability.csv`` (curated). Nothing here talks to a server.
"""

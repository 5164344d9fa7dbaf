"""Makes a load of what a database says of its application: tables, rows, scripts and their weights."""

"""One kind of study a folder: its tables in a study file, what is prepared, its trials."""

"""A folder for each kind of study: its tables in a study file, what is prepared, its trials."""

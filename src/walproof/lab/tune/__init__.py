"""A tuning's live half: the load, its recording, and the steps that a search asks for."""

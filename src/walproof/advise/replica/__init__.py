"""Why a standby is behind: causes by family, each with evidence and what to do."""

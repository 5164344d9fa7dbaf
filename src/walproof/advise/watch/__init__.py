"""What about a watched server needs somebody's attention: rules, each with what was seen and what to do."""

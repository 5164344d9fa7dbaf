"""From facts and their analysis to findings: sentences with evidence."""

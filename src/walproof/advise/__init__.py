"""From facts and their analysis to findings: sentences with evidence."""

from walproof.advise.finding import Finding, FindingKind
from walproof.advise.verdict import verdicts

__all__ = ["Finding", "FindingKind", "verdicts"]

"""Whether archives are whole, and to which moments they can restore: ``walproof.wal.verify.verify``."""

"""What tells on which platform a server runs; `walproof.platforms.recognised` knows whose marks they are."""

from __future__ import annotations

from walproof.observe.asking import Asking

MARKS = "the platform"
# One setting of each class is enough. Settings that only a file names, as CloudNativePG's, are not in
# pg_settings.
_MARKS = r"""
    SELECT min(name) FROM pg_settings
     WHERE name ~ '^(alloydb|google_columnar_engine|rds|azure|cloudsql|neon)\.|^apg_'
     GROUP BY split_part(name, '.', 1)
    UNION ALL SELECT 'aurora_version()'
     WHERE EXISTS (SELECT FROM pg_proc WHERE proname = 'aurora_version' AND pronargs = 0)
    UNION ALL SELECT 'role ' || rolname FROM pg_roles WHERE rolname = 'supabase_admin'
    UNION ALL SELECT 'cnpg.config_sha256' WHERE current_setting('cnpg.config_sha256', true) IS NOT NULL
    UNION ALL SELECT name || ' on the command line' FROM pg_settings
     WHERE name = 'cluster_name' AND source = 'command line' AND setting <> ''
    ORDER BY 1"""


def read_marks(ask: Asking) -> tuple[str, ...]:
    """Names of settings, functions and roles that only some platforms have."""
    return tuple(str(name) for (name,) in ask.rows(MARKS, _MARKS))

"""What an assistant is told: tools over the Model Context Protocol, bounded answers, folders it may read.

Offline: which tools there are, and what they ask of stores, WAL and servers, comes from ``cli``
(``cli/mcp.py``). The official SDK (extra ``mcp``) is imported by ``server.py`` and ``stdio.py`` alone.
"""

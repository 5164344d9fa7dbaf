"""The page: stored runs, recordings and watched servers in a browser.

Offline: it shows facts and assessments, and meets no server. What is live is told to it (``live/board.py``)
by ``cli``, which also owns the socket and the thread that serves (``cli/web_serve.py``).
"""

"""The page: stored runs, recordings and watched servers in a browser.

It is offline: it shows facts and assessments and connects to no server. ``cli`` tells it what is live
(``live/board.py``), and owns the socket and the thread that serves (``cli/web_serve.py``).
"""

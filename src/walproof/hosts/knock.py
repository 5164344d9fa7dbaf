"""``python -P -m walproof.hosts.knock HOST:PORT``: whether a Ray head admits a client without a token.

This is a separate process because Ray reads the mode of authentication once per process. Exit status 0: it
does, and whoever reaches the port can run code; 3: it asks for a token; 4: it did not answer as Ray does, and
the reason is on stdout.
"""

from __future__ import annotations

import os
import sys

OPEN, CLOSED, NO_ANSWER = 0, 3, 4
_WAIT_S = 10


def main(address: str) -> int:
    """Ask the head for the names of its keys, without a token."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        os.environ.pop(name, None)
    from importlib import import_module

    from ray.exceptions import AuthenticationError

    client = import_module("ray._raylet").GcsClient  # has no types
    try:
        client(address=address).internal_kv_keys(b"", None, timeout=_WAIT_S)
    except AuthenticationError:
        return CLOSED
    except Exception as error:  # whatever an unknown server answers
        sys.stdout.write(str(error).strip() or type(error).__name__)
        return NO_ANSWER
    return OPEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

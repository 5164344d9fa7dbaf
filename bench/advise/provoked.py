"""Every rule of advice on a server that is made to need it, and on its neighbour that does not.

    PYTHONPATH=. python bench/advise/provoked.py [--only RULE ...]

Runs PostgreSQL 16, one server at a time, keeps the facts (tests/advise/facts/provoked.jsonl.xz), which
tests/advise/test_provoked.py asks the rules about again, and says which rule fires where. ``provocations``
has what is done: two servers a rule, as equal as can be.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.advise.provocations import PROVOCATIONS
from bench.advise.servers import laboratory
from tests.advise.server.stored import PROVOKED, read, write
from walproof.advise.server.advice import Advice
from walproof.advise.server.rules import RULES


def main() -> None:  # noqa: D103
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", metavar="RULE")
    parser.add_argument("--work", type=Path, default=Path("/tmp/walproof-bench-advise"))
    arguments = parser.parse_args()
    kept = read(PROVOKED)
    wrong = 0
    with laboratory(arguments.work) as made:
        for rule, provoke in PROVOCATIONS.items():
            if arguments.only and rule not in arguments.only:
                continue
            cases = dict(zip(("provoked", "neighbour"), provoke(made), strict=True))
            for name, case in cases.items():
                found = RULES[rule](case)
                wrong += isinstance(found, Advice) is (name == "neighbour")
                print(f"{rule}, {name}: {found}", flush=True)
                kept[f"{rule}/{name}"] = case
            write(PROVOKED, kept)
    print(f"{wrong} not as they should be")


if __name__ == "__main__":
    main()

"""Lines for Patroni and CloudNativePG, against what these programs say themselves.

    PYTHONPATH=. python bench/advise/validators.py --emit > lines.json
    VENV/bin/python bench/advise/validators.py lines.json [--cnpg-crd postgresql.cnpg.io_clusters.yaml]

The second step runs in an environment of its own (pip install patroni "psycopg[binary]" jsonschema), for
walproof needs none of it. Patroni's own table of parameters has to take every value as it is written, and its
rules for those that it passes on the command line have to refuse what walproof refuses. The resource has to
fit the schema of CloudNativePG's custom resource (config/crd/bases of its repository); what its webhook
refuses is in no schema.
Exits with 1 where one does not.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

OURS = ("hot_standby", "cluster_name", "wal_log_hints")
"""What Patroni's validator takes and walproof refuses all the same: Patroni sets the first two itself, and
pg_rewind may need the third."""
VERSIONS = (150000, 160000, 170000, 180000)


def main() -> None:  # noqa: D103
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("lines", nargs="?", type=Path)
    parser.add_argument("--emit", action="store_true")
    parser.add_argument("--cnpg-crd", type=Path)
    given = parser.parse_args()
    if given.emit:
        json.dump(_emitted(), sys.stdout, indent=1)
        return
    emitted = json.loads(given.lines.read_text())
    wrong = _patroni(emitted)
    if given.cnpg_crd is not None:
        wrong += _cnpg(emitted, given.cnpg_crd)
    for complaint in wrong:
        print(complaint)
    sys.exit(1 if wrong else 0)


def _emitted() -> list[dict[str, Any]]:
    """For each version and platform: the lines of changes that advice makes, and what is refused."""
    from walproof.platforms.platform import PlatformTarget
    from walproof.platforms.registry import PLATFORMS
    from walproof.platforms.rules import rules_of
    from walproof.settings.change import Change

    changes = [
        Change("max_wal_size", "8GB"), Change("min_wal_size", "1GB"), Change("checkpoint_timeout", "15min"),
        Change("checkpoint_completion_target", "0.9"), Change("wal_compression", "lz4"),
        Change("full_page_writes", "on"), Change("fsync", "on"), Change("synchronous_commit", "on"),
        Change("commit_delay", "0"), Change("log_checkpoints", "on"), Change("wal_buffers", "64MB"),
        Change("max_slot_wal_keep_size", "100GB"), Change("recovery_prefetch", "try"),
        Change("autovacuum", "on"),
    ]  # fmt: skip
    found = []
    for version in VERSIONS:
        target = PlatformTarget(version, {})
        for name in ("patroni", "cnpg"):
            platform = PLATFORMS[name]
            kept = [change for change in changes if platform.refuse(change, target) is None]
            refused = [
                [rule.setting, rule.refused_example]
                for rule in rules_of(name)
                if rule.refused_example and "*" not in rule.setting
            ]
            found.append(
                {"version": version, "platform": name, "apply": platform.write(kept, target).apply,
                 "settings": [change.name for change in kept], "refused": refused}
            )  # fmt: skip
    return found


def _patroni(emitted: list[dict[str, Any]]) -> list[str]:
    """Where Patroni disagrees."""
    yaml = import_module("yaml")
    names = import_module("patroni.collections").CaseInsensitiveSet
    options = import_module("patroni.postgresql.config").ConfigHandler.CMDLINE_OPTIONS
    transform = import_module("patroni.postgresql.validator").transform_postgresql_parameter_value
    wrong, tried = [], 0
    for lines in emitted:
        if lines["platform"] != "patroni":
            continue
        # What patronictl reads: a here-document.
        document = lines["apply"].split("<<'YAML'\n")[1].split("\nYAML")[0]
        parameters = yaml.safe_load(document)["postgresql"]["parameters"]
        if set(parameters) != set(lines["settings"]):
            wrong.append(f"patroni {lines['version']}: the lines set {sorted(parameters)}")
        for name, value in parameters.items():
            tried += 1
            taken = transform(lines["version"], name, value, names(lines["settings"]))
            if taken is None:
                wrong.append(f"patroni {lines['version']}: {name} = {value!r} is not taken")
        for name, value in lines["refused"]:
            option = options.get(name)
            if option is not None and name not in OURS and option[1](value):
                wrong.append(f"patroni takes {name} = {value}, and walproof refuses it")
    print(f"Patroni: {tried} values")
    return wrong


def _cnpg(emitted: list[dict[str, Any]], crd: Path) -> list[str]:
    """Where a resource does not fit the schema of the custom resource."""
    jsonschema, yaml = import_module("jsonschema"), import_module("yaml")
    versions = yaml.safe_load(crd.read_text())["spec"]["versions"]
    schema = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["postgresql"]
    wrong, tried = [], 0
    for lines in emitted:
        if lines["platform"] != "cnpg":
            continue
        # What kubectl is given: JSON in single quotes.
        resource = json.loads(lines["apply"].split(" -p '")[1].rstrip().removesuffix("'"))
        tried += 1
        validator = jsonschema.Draft202012Validator(schema)
        wrong += [
            f"cnpg {lines['version']}: {error.message}"
            for error in validator.iter_errors(resource["spec"]["postgresql"])
        ]
        if set(resource["spec"]["postgresql"]["parameters"]) != set(lines["settings"]):
            wrong.append(f"cnpg {lines['version']}: settings are missing")
        # The schema wants strings: a number has to be refused by it.
        if not list(validator.iter_errors({"parameters": {"commit_delay": 0}})):
            wrong.append("the schema takes a number: it checks nothing")
    print(f"CloudNativePG: {tried} resources")
    return wrong


if __name__ == "__main__":
    main()

"""``walproof wal verify``: whether archives are whole, and to which moments they can restore."""

from __future__ import annotations

import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.cli.status import ExitStatus
from walproof.cli.streams import reader_may_leave
from walproof.errors import UnitError, WalError
from walproof.units import Lsn, parse_moment

if TYPE_CHECKING:
    from walproof.wal.verify.reading import Since
    from walproof.wal.verify.verify import Verification


def verify(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Repositories of pgBackRest, WAL-G or Barman, folders that archive_command fills, pg_wal; "
            "s3://, gs://, az:// as well.",
        ),
    ],
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="LSN|SEGMENT|TIME",
            help="Look only at segments from this place on (TIME: 03:00, 2026-11-22 03:00, or 26h for 26 "
            "hours ago).",
        ),
    ] = None,
    backups: Annotated[
        list[str] | None,
        typer.Option("--backups", metavar="DIR", help="Folder with more base backups. May be repeated."),
    ] = None,
    kept: Annotated[
        Path | None,
        typer.Option(
            "--kept", metavar="FILE", help="Keep results in this file; what did not change is not read again."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Read everything, even where earlier results are kept.")
    ] = False,
    json: options.Json = False,
    prometheus: Annotated[
        Path | None,
        typer.Option("--prometheus", metavar="FILE", help="Write metrics, too (node_exporter's textfile)."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Cores to use. Default: all.")
    ] = None,
    ray: options.Ray = None,
    insecure: options.Insecure = False,
) -> None:
    """Check an archive, and say to which moments it can restore.

    Exit status 0: whole, 1: something is wrong, 2: the archive could not be read.
    """
    from walproof.cli.passes import PassProgress
    from walproof.wal.verify.reading import verify_here
    from walproof.wal.verify.verify import verify as verify_archives

    if again and kept is None:
        raise WalError("--again needs --kept", hint="Without kept results everything is read anyway.")
    if ray is not None and threads is not None:
        raise WalError("--threads is for one machine", hint="A cluster has a core for each of its tasks.")
    if prometheus is not None:
        from walproof.cli.files import check_file

        check_file("--prometheus", prometheus, "metrics", makes_folder=False)
    with ExitStack() as stack:
        verifier = None if threads is None else verify_here(threads)
        if ray is not None:
            from walproof.cli.many import verifier as on_cluster

            verifier = stack.enter_context(on_cluster(ray, insecure=insecure))
        progress = stack.enter_context(PassProgress("verifying"))
        found = verify_archives(
            paths,
            backups=backups or (),
            since=parse_since(since),
            kept=kept,
            again=again,
            verifier=verifier,
            observe=progress.observe,
        )
    unwritten = None if prometheus is None else _write_metrics(prometheus, found)
    with reader_may_leave():
        if json:
            from walproof.report.wal.verify_json import verification_json

            sys.stdout.write(verification_json(found))
        else:
            from walproof.report.wal.verify import print_verification

            print_verification(found, options.result_console())
    if unwritten is not None:
        raise unwritten
    if not found.is_whole:
        raise typer.Exit(ExitStatus.CHECK_FAILED)


def _write_metrics(path: Path, found: Verification) -> WalError | None:
    """Write what node_exporter reads. Returns why it could not be written: what was found is printed all the
    same."""
    from walproof.files import write_whole
    from walproof.report.wal.verify_prometheus import verification_prometheus

    try:
        # Node_exporter is another user.
        write_whole(path, verification_prometheus(found), mode=0o644)
    except OSError as error:
        return WalError(f'could not write metrics "{path}": {error.strerror}')
    return None


def parse_since(text: str | None) -> Since | None:
    """What --since says: a location, a segment or a time. Raises UnitError for anything else."""
    if text is None:
        return None
    if "/" in text:
        return Lsn.parse(text)
    if re.fullmatch(r"[0-9A-F]{24}", text):
        return text
    try:
        return parse_moment(text, time.time())
    except UnitError:
        raise UnitError(
            f'"{text}" is not an LSN, a segment or a time',
            hint="Such as 0/3A000000, 00000001000000000000003A, 2026-11-22T03:00, 03:00 or 26h (ago).",
        ) from None

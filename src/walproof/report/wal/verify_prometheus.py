"""Verified archives in Prometheus' text format, for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from walproof.report.wal.verify_verdict import RestorableSpan, lines, spans
from walproof.wal.verify.problems import KINDS, ProblemSeverity
from walproof.wal.verify.verify import Verification, VerifiedArchive

_Value = Callable[[VerifiedArchive], float | None]

_GAUGES: tuple[tuple[str, str, _Value], ...] = (
    ("whole", "Whether nothing is wrong with the archive.", lambda archive: float(archive.is_whole)),
    ("segment_files", "Files of segments in the archive.", lambda archive: archive.files),
    ("wal_bytes", "Bytes of WAL in whole segments, unpacked.", lambda archive: archive.wal_bytes),
    ("read_bytes", "Bytes of files that this run read.", lambda archive: archive.read_bytes),
    ("kept_files", "Files whose earlier result was reused.", lambda archive: archive.kept_files),
    (
        "skipped_files",
        "Files that were not checked (--since, or changing while they were read).",
        lambda archive: archive.skipped_files,
    ),
    (
        "backups",
        "Base backups that were found.",
        lambda archive: sum(backup.tool != "label" for backup in archive.backups),
    ),
    (
        "restore_windows",
        "Pairs of a backup and a timeline that can be restored.",
        lambda archive: sum(window.backup.tool != "label" for window in archive.windows),
    ),
    (
        "restore_first_timestamp_seconds",
        "Earliest moment that can be restored to.",
        lambda archive: min(_known(span.start_time for span in _meant(archive)), default=None),
    ),
    (
        "restore_last_timestamp_seconds",
        "Last moment that can be restored to: end of the last transaction.",
        lambda archive: max(_known(span.end_time for span in _meant(archive)), default=None),
    ),
    (
        "restore_last_lsn_bytes",
        "Last location that can be restored to.",
        lambda archive: max((float(span.end) for span in _meant(archive)), default=None),
    ),
)


def _meant(archive: VerifiedArchive) -> list[RestorableSpan]:
    """What can be restored along the timeline of the server whose pg_wal is there; without one, along each
    that could be the server's, so that a branch that was abandoned hides nothing."""
    meant = lines(archive)[:1] if archive.pg_wal else lines(archive)
    return [span for line in meant for span in spans(archive, line)]


def _known(times: Iterable[float | None]) -> Iterator[float]:
    return (time for time in times if time is not None)


def verification_prometheus(found: Verification) -> str:
    """The file's text. Unknown figures are left out."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Verification) -> Iterator[str]:
    for name, about, value in _GAUGES:
        yield from _heading(f"walproof_archive_{name}", about)
        for archive in found.archives:
            if (figure := value(archive)) is not None:
                yield f"walproof_archive_{name}{{{_labels(archive)}}} {_number(figure)}"
    yield from _heading("walproof_archive_problems", "Problems by kind.")
    for archive in found.archives:
        for kind, about_kind in KINDS.items():
            if about_kind.severity is not ProblemSeverity.note:
                count = sum(problem.kind == kind for problem in archive.problems)
                yield f'walproof_archive_problems{{{_labels(archive)},kind="{kind}"}} {count}'
    # Without labels, the files of two runs would have the same series, which node_exporter refuses.
    for name, about, seconds in (
        ("verified_timestamp_seconds", "When the run that verified the archive ended.", found.ended_at),
        ("verify_duration_seconds", "How long that run took.", found.ended_at - found.started_at),
    ):
        yield from _heading(f"walproof_archive_{name}", about)
        for archive in found.archives:
            yield f"walproof_archive_{name}{{{_labels(archive)}}} {_number(seconds)}"


def _heading(name: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} gauge"


def _labels(archive: VerifiedArchive) -> str:
    """A tool's name for an archive is the same in each of its repositories; the path is not."""
    labels = {"archive": archive.name, "layout": archive.layout, "path": archive.path}
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)

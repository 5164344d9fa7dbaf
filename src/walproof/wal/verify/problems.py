"""What can be wrong with an archive: the kinds of problems, what each means, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from walproof.units import Lsn


class ProblemSeverity(Enum):
    """How bad it is."""

    error = "error"
    """Some restore ends there, or cannot begin."""
    note = "note"
    """Not a fault, but said because it could be taken for one."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem."""

    name: str
    severity: ProblemSeverity
    meaning: str
    advice: str
    advice_if_older: str = ""
    """Instead, where a usable backup begins after the fault: only older backups need this WAL."""


_COPY = (
    "Look for another copy: the server's pg_wal, a standby's, a second repository. Without one, take a new "
    "base backup now: what follows can be restored from that one only."
)
_AGAIN = (
    "Replace the file by another copy (the server's pg_wal, a standby's, a second repository), or take a new "
    "base backup."
)
_COPY_OLDER = (
    "Look for another copy: the server's pg_wal, a standby's, a second repository. Without one, older "
    "backups cannot be restored past this place."
)
_AGAIN_OLDER = (
    "Replace the file by another copy (the server's pg_wal, a standby's, a second repository). Without one, "
    "older backups cannot be restored past this place."
)
_FROM_PG_WAL = "Copy it from pg_wal of a server on that timeline."
_SIZE = (
    "PostgreSQL refuses a segment of another size: a restore ends before it, and some records earlier if "
    "recovery_prefetch reads ahead."
)
_ERROR, _NOTE = ProblemSeverity.error, ProblemSeverity.note

_KINDS = (
    Kind("missing", _ERROR, "No restore gets past these segments.", _COPY, _COPY_OLDER),
    Kind(
        "not archived",
        _ERROR,
        "No restore from the archive gets past these segments, and pg_wal keeps them only for a while.",
        "Copy them into the archive now, before checkpoints remove them; then find out what became of the "
        "archive's own copies.",
    ),
    Kind("damaged", _ERROR, "A restore that reaches this place ends there.", _AGAIN, _AGAIN_OLDER),
    Kind("truncated", _ERROR, _SIZE, _AGAIN, _AGAIN_OLDER),
    Kind("too long", _ERROR, _SIZE, _AGAIN, _AGAIN_OLDER),
    Kind(
        "unpack",
        _ERROR,
        "restore_command will fail at this file: a restore ends before it.",
        _AGAIN,
        _AGAIN_OLDER,
    ),
    Kind(
        "unreadable",
        _ERROR,
        "The file could not be read, so nothing is known about it.",
        "Give this user the right to read it, or look at the disk.",
    ),
    Kind(
        "encrypted",
        _ERROR,
        "Encrypted files cannot be looked into, so nothing is known about them.",
        "Give the pass of pgBackRest's repository (PGBACKREST_REPO1_CIPHER_PASS, or PGBACKREST_CONFIG with "
        "repo1-cipher-pass); what other tools encrypt, verify with them, or restore it to a folder first.",
    ),
    Kind("empty", _ERROR, "The file has the size of a segment and holds no WAL.", _AGAIN, _AGAIN_OLDER),
    Kind(
        "misplaced",
        _ERROR,
        "The file holds WAL of another location: a restore ends before it.",
        _AGAIN,
        _AGAIN_OLDER,
    ),
    Kind(
        "other system",
        _ERROR,
        "The file belongs to another cluster: a restore ends before it.",
        "Two servers archive to one folder, or a cluster was initialised again: give each its own folder.",
    ),
    Kind(
        "other version",
        _ERROR,
        "The file is of another PostgreSQL version: a restore ends before it.",
        "After an upgrade, archive to a new folder and take a new base backup.",
    ),
    Kind(
        "checksum",
        _ERROR,
        "The content is not what was archived (SHA-1 in the file's name), though its records are in order.",
        _AGAIN,
        _AGAIN_OLDER,
    ),
    Kind(
        "duplicate",
        _ERROR,
        "Two files for one segment differ. It is chance which one a restore gets; some tools refuse both.",
        "Find out who wrote the second one (two servers that archive to one place, a failover without a new "
        "timeline), and keep the one that belongs to the chain.",
    ),
    Kind(
        "chain",
        _ERROR,
        "The segments are whole, but do not follow from each other: a restore ends there.",
        "One of the two belongs to another history of this cluster (restored or failed over without a new "
        "timeline): find out which belongs to the chain.",
    ),
    Kind(
        "history missing",
        _ERROR,
        "Without this file no restore finds its way to that timeline from an older backup.",
        _FROM_PG_WAL,
    ),
    Kind(
        "history damaged",
        _ERROR,
        "PostgreSQL refuses the file: no restore gets to that timeline.",
        _FROM_PG_WAL,
    ),
    Kind("switch point", _ERROR, "The history does not fit the WAL, or another history.", _FROM_PG_WAL),
    Kind(
        "backup unusable",
        _ERROR,
        "The backup cannot be restored: WAL that it needs, or the backup that it builds on, is missing.",
        "Take a new base backup; keep this one only if what is missing can be found.",
        "Keep this one only if what is missing can be found.",
    ),
    Kind(
        "backup unreadable",
        _ERROR,
        "The description of the backup is wrong, so the backup is not counted.",
        "Verify the backup with the tool that made it (pg_verifybackup for a backup_manifest).",
    ),
    Kind(
        "no backup",
        _ERROR,
        "WAL alone restores nothing: a restore begins with a base backup.",
        "Take a base backup, or name the folder that has one (--backups).",
    ),
    Kind(
        "not there", _ERROR, "The tool's catalogue names these files, but they are gone.", _COPY, _COPY_OLDER
    ),
    Kind("unfinished", _NOTE, "The last segment is not full, as while it is being written.", ""),
    Kind(
        "changing",
        _NOTE,
        "The file is being written or copied. Its segment is not looked into: it counts as whole if others "
        "follow it, and is left out otherwise.",
        "Verify again when the copy is done.",
    ),
    Kind("expired", _NOTE, "For an older backup, only the WAL that it needs itself is kept.", ""),
    Kind("label", _NOTE, "A backup left its label here, but the WAL that it needs is no longer here.", ""),
    Kind(
        "own WAL",
        _NOTE,
        "The backup itself has the WAL that it needs: it can be restored to its own end. No later moment is "
        "promised.",
        "",
    ),
    Kind("failed backup", _NOTE, "By its own tool's word the backup is not complete: it is not counted.", ""),
    Kind(
        "endless backup",
        _NOTE,
        "Recovery has to reach a backup's end, and nothing says where that is.",
        "Archive the file that pg_backup_stop or pg_basebackup leaves in pg_wal (*.backup), or take backups "
        "with a manifest.",
    ),
    Kind(
        "offline backup",
        _NOTE,
        "It can be restored as it is, and nothing says at which place of the WAL it was taken.",
        "",
    ),
    Kind(
        "unassigned backup",
        _NOTE,
        "Nothing says which of several clusters the backup is of.",
        "Name the archive and the backups of one cluster alone (--backups).",
    ),
    Kind(
        "other cluster",
        _NOTE,
        "The backup is of another cluster than the archive, as of the one before an upgrade.",
        "",
    ),
    Kind(
        "used backup",
        _NOTE,
        "Where a server ran, there is no base backup any more: the folder counts as a data directory.",
        "",
    ),
    Kind(
        "ended early",
        _NOTE,
        "In a live pg_wal, records from before a crash may be left after the end.",
        "",
    ),
)
KINDS = {kind.name: kind for kind in _KINDS}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, and where."""

    kind: str
    """A key of KINDS."""
    message: str
    path: str | None = None
    """The file."""
    segment: str | None = None
    """Name of the segment; of several the first."""
    last_segment: str | None = None
    """If several are missing, the last."""
    segments: int = 1
    timeline: int | None = None
    lsn: Lsn | None = None
    end_lsn: Lsn | None = None
    """Where the fault ends and WAL goes on."""
    offset: int | None = None
    """The offset in the segment, unpacked."""
    cause: str | None = None
    """For damage: what is wrong (``page``, ``record``, ``link``, ``continuation``, ``checksum``,
    ``structure``)."""
    expected: str | None = None
    got: str | None = None
    command: str | None = None
    """What puts it right, for a shell."""
    later_backup: str | None = None
    """The first usable backup that begins after it, where that changes what to do."""

    @property
    def severity(self) -> ProblemSeverity:
        """The severity of its kind."""
        return KINDS[self.kind].severity

    @property
    def advice(self) -> str:
        """What to do about it; empty for most notes."""
        about = KINDS[self.kind]
        return about.advice if self.later_backup is None else about.advice_if_older

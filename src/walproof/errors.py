"""The error tree: what walproof says when the world, or its user, did not do what was expected.

Every error has three parts with the meaning they have in PostgreSQL (manual, "Error Message Style Guide"):
a message (one factual line), a detail (facts: where, expected, got) and a hint (advice, possibly wrong).
They are caught in one place, ``walproof.cli``; a failure of walproof itself is an assertion instead.

    WalproofError
     +- UnitError       a size, duration or LSN that cannot be read
     +- SqlError        SQL that cannot be handed on as it is
     +- ConninfoError   a connection string that cannot be read
     +- SettingError    a setting that does not exist, or a value that it cannot take
     +- StudyError      a study that cannot be resolved into a plan
     +- StoreError      facts that cannot be written or read
     +- MetricError     a name that no metric has
     +- InstallError    a PostgreSQL that cannot be found, fetched or used
     +- ClusterError    a server that does not start, answer or stop
     |   +- DisturbedError   one that was ended or hindered from outside
     +- DiskError       a folder or device that cannot be used or measured
     +- WorkloadError   a load that cannot be run
     +- ProbeError      an observation that cannot be made
     +- WalError        WAL that cannot be read
     +- HostError       other machines that cannot be reached or used
     +- AnalysisError   facts that do not answer the question
     +- ReportError     a report that cannot be made
"""

from __future__ import annotations


class WalproofError(Exception):
    """Root of the tree. ``str(error)`` is the message alone."""

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle their positional arguments only; keywords have to be carried by hand.
        return (_rebuild, (type(self), self.message, self.detail, self.hint))


def _rebuild(cls: type[WalproofError], message: str, detail: str | None, hint: str | None) -> WalproofError:
    return cls(message, detail=detail, hint=hint)


class UnitError(WalproofError):
    """A size, duration or LSN that cannot be read."""


class SqlError(WalproofError):
    """SQL, or a name, that cannot be written into a script as it is."""


class ConninfoError(WalproofError):
    """A connection string that cannot be read; no part of it is in the message."""


class SettingError(WalproofError):
    """A setting that does not exist in that version, or a value that it cannot take."""


class StudyError(WalproofError):
    """A study that cannot be resolved into a plan."""


class StoreError(WalproofError):
    """Facts that cannot be written or read."""


class StoreMissingError(StoreError):
    """A place that holds no store, which was to be read."""


class StoreAwayError(StoreError):
    """A shared store that does not answer now."""


class MetricError(WalproofError):
    """A name that no metric has."""


class InstallError(WalproofError):
    """A PostgreSQL install that cannot be found, fetched or used."""


class ClusterError(WalproofError):
    """A server that does not start, answer or stop."""


class DisturbedError(ClusterError):
    """A server that was ended from outside, or had too little time or room: nothing follows about its
    data."""


class DiskError(WalproofError):
    """A folder or device that cannot be used or measured."""


class WorkloadError(WalproofError):
    """A load that cannot be run."""


class ProbeError(WalproofError):
    """An observation that cannot be made."""


class WalError(WalproofError):
    """WAL that cannot be read."""


class HostError(WalproofError):
    """Machines of a cluster that cannot be reached, are not safe, or were lost."""


class AnalysisError(WalproofError):
    """Facts that do not answer the question asked of them."""


class ReportError(WalproofError):
    """A report that cannot be made."""


def one_line(error: BaseException) -> str:
    """All that another library says by its error, without line breaks, and without psycopg's words before
    libpq's; the name of its class if it says nothing."""
    return " ".join(str(error).split()).removeprefix("connection is bad: ") or type(error).__name__


def first_line(error: BaseException) -> str:
    """The first line alone. PostgreSQL's LINE, DETAIL, HINT and CONTEXT come after it."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)

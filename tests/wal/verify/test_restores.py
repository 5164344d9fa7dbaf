"""Windows are what real servers can do: restores to their ends succeed, and one step past them fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.wal.server import BINDIRS
from tests.wal.verify import faults
from tests.wal.verify.conftest import Layer, temporary_folder
from tests.wal.verify.faults import Fault
from tests.wal.verify.layouts import Laid, lay
from tests.wal.verify.restore import ENDED_BEFORE, STOPPED, outcome, restore
from tests.wal.verify.source import Source, make_source
from walproof.wal.verify.verify import verify
from walproof.wal.verify.windows import RestoreWindow

pytestmark = pytest.mark.live


@pytest.fixture(scope="module", params=sorted({"15", "18"} & set(BINDIRS)))
def served(request: pytest.FixtureRequest) -> Iterator[Source]:
    """WAL of a server of each version that is looked at."""
    if request.param == "18":
        yield request.getfixturevalue("source")
        return
    with temporary_folder() as folder:
        yield make_source(request.param, folder)


def _log(source: Source, archive: Path, window: RestoreWindow, folder: Path, **target: str) -> str:
    settings = {
        "recovery_target_timeline": str(window.timeline),
        # Reading ahead meets a file of a wrong size, and gives up, before what comes before it is replayed.
        "recovery_prefetch": "off",
        **target,
    }
    backup = Path(window.backup.path)
    return restore(source.bindir, backup, f'cp "{archive}/%f" "%p"', folder / "restored", settings)


def _attempt(source: Source, archive: Path, window: RestoreWindow, folder: Path, **target: str) -> str:
    return outcome(_log(source, archive, window, folder, **target))


def _check(source: Source, archive: Path, window: RestoreWindow, folder: Path) -> None:
    """The last record is reached, and nothing after it; the same for the last transaction's time."""
    at = _attempt(source, archive, window, folder, recovery_target_lsn=str(window.last_record))
    assert at == f'recovery stopping after WAL location (LSN) "{window.last_record}"', at
    past = _attempt(source, archive, window, folder, recovery_target_lsn=str(window.end))
    assert ENDED_BEFORE in past, past
    if window.end_time is not None:
        end = datetime.fromtimestamp(window.end_time, UTC)
        text = end.replace(microsecond=end.microsecond - 1).isoformat(sep=" ")
        before = _attempt(source, archive, window, folder, recovery_target_time=text)
        assert STOPPED in before, before
        after = _attempt(source, archive, window, folder, recovery_target_time=end.isoformat(sep=" "))
        assert ENDED_BEFORE in after, after


def _windows(root: Path, source: Source) -> list[RestoreWindow]:
    """Of the archive alone, with backups where pg_basebackup put them."""
    (archive,) = verify([root], backups=[source.folder / f"backup{number}" for number in (1, 2)]).archives
    return list(archive.windows)


def _without_copies(laid: Laid) -> Laid:
    """The backups in the archive have no data: those of the source are restored."""
    for number in (1, 2):
        laid.lose(f"manifest {number}")
    return laid


def test_a_whole_archive_with_a_promotion(served: Source) -> None:
    with temporary_folder() as folder:
        laid = _without_copies(lay(served, "folder", "", folder / "archive"))
        found = _windows(laid.root, served)
        assert [ending.timeline for ending in found] == [2, 2]
        for window in found:
            _check(served, laid.root, window, folder)
        # The beginning, and the older timeline's end.
        first = found[0]
        stopped = _attempt(served, laid.root, first, folder, recovery_target_lsn=str(first.start))
        assert STOPPED in stopped, stopped
        too_early = _log(served, laid.root, first, folder, recovery_target_lsn=str(first.backup.start))
        assert "requested recovery stop point is before consistent recovery point" in too_early


@pytest.mark.parametrize(
    "fault",
    [
        faults.missing_segment, faults.missing_before_the_switch, faults.missing_after_the_switch,
        faults.changed_record, faults.changed_over_the_edge, faults.zeroed_page, faults.truncated,
        faults.of_another_system, faults.no_history, faults.not_what_its_name_says,
    ],
    ids=lambda fault: fault.__name__,
)  # fmt: skip
def test_a_broken_archive(source: Source, layer: Layer, fault: Fault) -> None:
    laid = _without_copies(layer("folder", ""))
    laid.root.chmod(0o755)
    fault(laid)
    with temporary_folder() as folder:
        found = _windows(laid.root, source)
        assert found
        window = max(found, key=lambda candidate: (candidate.backup.start, candidate.timeline))
        at = _attempt(source, laid.root, window, folder, recovery_target_lsn=str(window.last_record))
        assert at == f'recovery stopping after WAL location (LSN) "{window.last_record}"', at
        past = _attempt(source, laid.root, window, folder, recovery_target_lsn=str(window.end))
        assert STOPPED not in past, past

"""What a configuration would do, without running it: WAL, pg_wal, time away, memory, durability class.

The load is recorded once. Checkpoints, images and recovery distances of every candidate are simulated on the
recording (`walproof.analysis.whatif`), and distances are converted to seconds (`walproof.analysis.forecast`).
A time away is within its limit if its upper end is, which 1 recovery in 20 exceeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from walproof.advise.tune.memory import buffers_of, memory_of
from walproof.advise.tune.space import usable_wal_bytes
from walproof.analysis.forecast import Costs, DistanceForecast, forecast_distances
from walproof.analysis.whatif import Question, ServerPrediction, study
from walproof.errors import SettingError
from walproof.facts.tuning import Candidate, CandidatePrediction, Factor, Limit, Promises, RuledOut
from walproof.settings.catalogue import Catalogue
from walproof.settings.risk import durability_class
from walproof.settings.rules import contradictions
from walproof.settings.value import parse
from walproof.units import Lsn, format_bytes, format_duration
from walproof.wal.whatif import Target, identify, simulate
from walproof.wal.whatif_target import SETTINGS, target_of


@dataclass(frozen=True, slots=True)
class LoadRecording:
    """A recording of the load, and the server that it was made on."""

    folder: Path
    """Segments and recording.json."""
    start: Lsn
    """Insert position when the load began."""
    settings: Mapping[str, str]
    """Settings of the recorded server, over its defaults."""
    wal_bytes_per_txn: float | None
    """WAL per transaction, measured during the recording."""


class RecordedJudge:
    """A ``Judge`` that predicts from a recording. Equal questions are simulated once."""

    def __init__(
        self,
        recorded: LoadRecording,
        version_num: int,
        promises: Promises,
        factors: tuple[Factor, ...],
        keep: Mapping[str, str],
        *,
        clients: int,
        memory_bytes: int,
        costs: Costs,
        speed: float = 1.0,
        is_archiving: bool = False,
    ) -> None:
        """``speed``: multiple of the recorded speed at which the load arrives.

        ``memory_bytes``: what the server may take; ``is_archiving``: whether the user's server has an
        archiver.
        """
        self._recorded = recorded
        self._version_num = version_num
        self._catalogue = Catalogue.for_version(version_num)
        self._promises = promises
        self._factors = {factor.setting: factor for factor in factors}
        self.kept = dict(keep)
        """Settings of every configuration."""
        self._clients = clients
        self._memory_bytes = memory_bytes
        self._costs = costs
        self._speed = speed
        self._usable_wal_bytes = usable_wal_bytes(
            promises, self.kept, self._catalogue, is_archiving=is_archiving
        )
        self._version, self._segment_size = identify(recorded.folder, start=recorded.start)
        settings = {name: recorded.settings[name] for name in SETTINGS if name in recorded.settings}
        self._recorded_target = target_of(
            self._version, self._segment_size, [{**settings, "wal_compression": "off"}]
        )
        self._recorded_target = replace(self._recorded_target, wal_compression="as recorded")
        self._servers: dict[Target, tuple[ServerPrediction, float | None]] = {}
        self._stretches: dict[Target, float] = {}
        self._times: dict[int, DistanceForecast] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Where times away come from, and for which cache and distances they hold."""
        for forecast in self._times.values():
            return forecast.notes
        return self._costs.notes

    def __call__(self, candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
        """See ``Judge``. Raises WalError when the recording cannot be read."""
        settings = {**self.kept, **candidate.conf}
        refused = self._refusals(settings)
        if refused:
            return CandidatePrediction(None, None, None), tuple(refused)
        broken = [*self._class_broken(settings), *self._memory_broken(settings)]
        server, wal_ratio = self._server(self._target(settings))
        middle = self._recovery(settings).longest_s(server)
        band = self._costs.coefficients.band
        per_txn = self._recorded.wal_bytes_per_txn
        most = max(server.pg_wal_most, (server.target.max_wal_size_mb or 0) << 20)
        found = CandidatePrediction(
            wal_bytes_per_txn=None if per_txn is None or wal_ratio is None else per_txn * wal_ratio,
            pg_wal_bytes=float(most),
            recovery_s=middle,
            recovery_low_s=middle / band,
            recovery_high_s=middle * band,
        )
        return found, (*broken, *self._predictions_broken(found))

    def distance_seconds(self, candidate: Candidate, wal_bytes: float) -> tuple[float, float, float]:
        """(low, middle, high) seconds away after a crash with that much WAL since the redo point."""
        settings = {**self.kept, **candidate.conf}
        server, _ = self._server(self._target(settings))
        times = self._recovery(settings)
        images = server.target.full_page_writes
        middle = times.seconds(wal_bytes, full_page_writes=images, image=times.image_of(server))
        band = self._costs.coefficients.band
        return middle / band, middle, middle * band

    def recorded_ratio(self, candidate: Candidate) -> float | None:
        """WAL that the candidate would write in the recorded stretch, relative to the recorded server's.

        Unlike predictions for whole cycles it covers only this stretch, so a run of that length must show it.
        None if the server would not start.
        """
        settings = {**self.kept, **candidate.conf}
        if self._refusals(settings):
            return None
        target = self._target(settings)
        self._server(target)
        return self._stretches[target]

    def memory_bytes(self, candidate: Candidate) -> int:
        """Memory that a server with the candidate takes: shared buffers, WAL buffers, sessions."""
        return memory_of({**self.kept, **candidate.conf}, self._catalogue, self._clients)

    def _class_broken(self, settings: Mapping[str, str]) -> list[RuledOut]:
        found = durability_class(settings)
        allowed = self._promises.may_lose
        if found.rank <= allowed.rank:
            return []
        return [RuledOut(Limit.MAY_LOSE, found.value, allowed.value)]

    def _refusals(self, settings: Mapping[str, str]) -> list[RuledOut]:
        for name, value in settings.items():
            try:
                self._catalogue.check(name, value)
            except SettingError as error:
                return [RuledOut(Limit.REFUSED, f"{name}={value}", error.message)]
        found = contradictions(settings, self._version_num, wal_segment_bytes=self._segment_size)
        return [RuledOut(Limit.REFUSED, sentence, "a server that starts") for sentence in found]

    def _memory_broken(self, settings: Mapping[str, str]) -> list[RuledOut]:
        needed = memory_of(settings, self._catalogue, self._clients)
        if needed <= self._memory_bytes:
            return []
        return [RuledOut(Limit.MEMORY, format_bytes(needed), format_bytes(self._memory_bytes))]

    def _predictions_broken(self, found: CandidatePrediction) -> list[RuledOut]:
        broken = []
        target_s, disk = self._promises.recovery_target_s, self._usable_wal_bytes
        if disk is not None and found.pg_wal_bytes is not None and found.pg_wal_bytes > disk:
            broken.append(RuledOut(Limit.WAL_DISK, format_bytes(found.pg_wal_bytes), format_bytes(disk)))
        high = found.recovery_high_s
        if target_s is not None and high is not None and high > target_s:
            predicted = f"up to {format_duration(high)}"
            broken.append(RuledOut(Limit.RECOVERY_TARGET, predicted, format_duration(target_s)))
        return broken

    def _target(self, settings: Mapping[str, str]) -> Target:
        """The server to simulate: as recorded, except for what the candidate sets."""
        asked = {name: settings[name] for name in SETTINGS if name in settings}
        recorded = self._recorded.settings.get("wal_compression", "off")
        compression = asked.pop("wal_compression", "off")
        target = replace(self._defaults(asked), wal_compression="as recorded")
        is_same = self._catalogue.normalise("wal_compression", compression) == self._catalogue.normalise(
            "wal_compression", recorded
        )
        if not is_same:
            named = target_of(self._version, self._segment_size, [], {"wal_compression": compression})
            target = replace(target, wal_compression=named.wal_compression)
        if target.checkpoint_timeout_s is not None:
            # A faster load has written more WAL by the time a timed checkpoint comes.
            target = replace(target, checkpoint_timeout_s=round(target.checkpoint_timeout_s * self._speed))
        return target

    def _defaults(self, asked: Mapping[str, str]) -> Target:
        target = target_of(self._version, self._segment_size, [asked])
        return replace(target, hint_records=self._recorded_target.hint_records)

    def _server(self, target: Target) -> tuple[ServerPrediction, float | None]:
        """The simulated server, and its WAL as a ratio to the recorded server's simulated WAL.

        The ratio is None if the recording cannot show it: both servers need a whole checkpoint cycle in it,
        unless their checkpoints are the same.
        """
        if target not in self._servers:
            siblings = [target, *self._siblings(target)]
            new = [sibling for sibling in dict.fromkeys(siblings) if sibling not in self._servers]
            question = Question(self._recorded_target, True, tuple(new), sizes_mb=(), timeouts_s=())
            simulated = simulate(
                self._recorded.folder, targets=question.targets(), start=self._recorded.start
            )
            found = study(simulated, question)
            runs = dict(zip(simulated.targets, simulated.outcomes, strict=True))
            # A checkpoint began with the recording, as it does with a run that is compared with it.
            recorded = max(1, runs[self._recorded_target.at_phase(0.0)].wal_bytes)
            for sibling in new:
                server, present = found.predictions[sibling], found.present
                is_told = _has_same_checkpoints(sibling, self._recorded_target) or (
                    server.has_whole_cycles and present.has_whole_cycles
                )
                ratio = server.wal_bytes / max(1.0, present.wal_bytes)
                self._stretches[sibling] = runs[sibling.at_phase(0.0)].wal_bytes / recorded
                self._servers[sibling] = (server, ratio if is_told else None)
        return self._servers[target]

    def _siblings(self, target: Target) -> list[Target]:
        """Servers that differ only in max_wal_size: one pass over the WAL answers for all of them."""
        factor = self._factors.get("max_wal_size")
        if factor is None:
            return []
        setting = self._catalogue.get("max_wal_size")
        return [replace(target, max_wal_size_mb=int(parse(setting, value))) for value in factor.choices]

    def _recovery(self, settings: Mapping[str, str]) -> DistanceForecast:
        buffers = buffers_of(settings, self._catalogue)
        if buffers not in self._times:
            self._times[buffers] = forecast_distances(
                self._recorded.folder,
                buffers=buffers,
                full_page_writes=self._recorded_target.full_page_writes,
                start=self._recorded.start,
                costs=self._costs,
            )
        return self._times[buffers]


def _has_same_checkpoints(server: Target, other: Target) -> bool:
    """Whether both servers make checkpoints at the same places."""
    return all(
        getattr(server, name) == getattr(other, name)
        for name in ("max_wal_size_mb", "checkpoint_timeout_s", "checkpoint_completion_target")
    )

"""What to measure next: a function of the facts, phase after phase.

record -> screen -> race -> confirm -> lines -> final -> crash -> flush. Each phase looks at the facts and
either asks for a step or is over; the order of the steps in the facts says which phases are over. Between two
questions nothing is remembered except what the judge said of a candidate.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from walproof.analysis.tuning import ablation, race
from walproof.analysis.tuning.budget import CRASH_TRIALS, BudgetClock
from walproof.analysis.tuning.flush import DEVICES, OBJECTIVES
from walproof.analysis.tuning.model import Model
from walproof.analysis.tuning.proof import against_default, choosing_steps, is_advisable
from walproof.analysis.tuning.screen import PRIMES, fraction, one_at_a_time
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import mean_log, objective_values
from walproof.facts.tuning import DEFAULT, Candidate, Judge, Purpose, Step, TuningFacts
from walproof.settings.tuning import movables

RACE_CANDIDATES = 4
"""Incumbent, nominee and new candidates of a race step, which is one round."""
CONFIRM_ROUNDS = (4, 12)
"""At most: of the first comparison with the default, of the second."""
LINES_ROUNDS_MOST = 8
CHAIN_ROUNDS = 3
"""Least rounds of a chain: with less time, confs are left out instead."""
FINAL_ROUNDS = (3, 12)
"""At least, at most."""
CRASHES_MOST = 2
FLUSH_ROUNDS = 2
_UNCONFIRMED = "the best configuration, which was not ahead, and the defaults once more"
SCREEN_LEAST = 3
"""Least trials of a screen, apart from the default."""


class TuneSearch:
    """``walproof.facts.tuning.Search``: the same facts give the same step.

    ``judge`` predicts what a candidate would do. It is asked only after the load was recorded, and only once
    about each candidate that may be run.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._broken: dict[Candidate, bool] = {}

    def ask(self, facts: TuningFacts) -> Step | None:
        """The next step; None if the tuning is over.

        Every step of the facts counts as finished: trials missing from it are not asked for again.
        """
        if not facts.steps:
            return self._step(
                facts, Purpose.RECORD, (DEFAULT,), 1, "the load is recorded once, under the default"
            )
        if not facts.plan.factors and not facts.plan.starts:
            return None
        reached = list(Purpose).index(facts.steps[-1].purpose)
        phases: dict[Purpose, Callable[[TuningFacts, Space], Step | None]] = {
            Purpose.SCREEN: self._screen,
            Purpose.SEARCH: self._race,
            Purpose.CONFIRM: self._confirm,
            Purpose.LINES: self._lines,
            Purpose.FINAL: self._final,
            Purpose.CRASH: self._crash,
            Purpose.FLUSH: self._flush,
        }
        space = Space(facts.plan)
        for purpose, phase in phases.items():
            if list(Purpose).index(purpose) >= reached and (step := phase(facts, space)) is not None:
                return step
        return None

    def admits(self, candidate: Candidate) -> bool:
        """Whether a candidate is predicted to keep every promise.

        The default is run in any case: others are compared with it.
        """
        if candidate not in self._broken:
            self._broken[candidate] = bool(self._judge(candidate)[1])
        return not self._broken[candidate]

    def winner(self, facts: TuningFacts) -> Candidate:
        """The configuration whose lines are tested: the incumbent, without the lines that say too little.

        These are lines whose guessed gain is within its uncertainty, and the weakest of more than
        ``most_lines``. Lines that keep a promise or the second metric's limit stay.
        """
        for purpose in (Purpose.LINES, Purpose.CONFIRM):
            step = race.latest(facts, purpose)
            if step is not None:
                return step.candidates[0 if purpose is Purpose.LINES else 1]
        incumbent = race.replay(facts).incumbent
        space = Space(facts.plan)
        model = Model(space, race.searching_values(facts))
        keeps = race.keeps_second(facts, space, race.searching_steps(facts))
        return race.simplified(
            space,
            model,
            incumbent,
            lambda candidate: self.admits(candidate) and keeps(candidate),
            facts.plan.most_lines,
        )

    def short(self, facts: TuningFacts) -> Candidate:
        """The winner without the lines that were dropped."""
        final = race.latest(facts, Purpose.FINAL)
        if final is not None:
            return final.candidates[1]
        step = ablation.chain_step(facts)
        if step is None:
            return self.winner(facts)
        winner, *shorter = step.candidates
        space, numbers = Space(facts.plan), choosing_steps(facts)
        guess = Model(space, objective_values(facts, numbers)).guess(shorter, winner)
        guessed = dict(zip(shorter, guess.means.tolist(), strict=True))
        return ablation.shortest(facts, step, guessed, race.keeps_second(facts, space, numbers))

    def own(self, facts: TuningFacts, space: Space) -> Candidate | None:
        """The user's own configuration; None without one, or if it breaks a promise."""
        own = None if facts.plan.own is None else space.candidate(facts.plan.own.conf)
        return own if own is not None and self.admits(own) else None

    def _screen(self, facts: TuningFacts, space: Space) -> Step | None:
        done = [step for step in facts.steps if step.purpose is Purpose.SCREEN]
        trials = BudgetClock.of(facts).trials_until(Purpose.SCREEN)
        toggled = [name for name in space.searched if space.factors[name].design == "toggled"]
        toggled = toggled if len(toggled) > 1 and len(toggled) < len(space.searched) else []
        starts = [space.candidate(start.conf) for start in facts.plan.starts]
        starts = [start for start in starts if start != DEFAULT and self.admits(start)]
        if not done and toggled:
            # Half of the time: the other settings have to be screened, too.
            chosen = tuple(islice(one_at_a_time(space, toggled, self.admits), max(0, trials // 2 - 1)))
            if len(chosen) >= 2:
                return self._step(
                    facts, Purpose.SCREEN, (DEFAULT, *chosen), 1,
                    f"each choice of {_listed(toggled)} alone, toggled on one running server", "toggled",
                )  # fmt: skip
        if any(step.design == "fresh" for step in done) or trials < 1 + SCREEN_LEAST:
            return None
        answered = {trial.step for trial in facts.measured if trial.value is not None}
        screened = toggled if any(step.number in answered for step in done) else []
        left = [name for name in space.searched if name not in screened][: PRIMES[-1]]
        rows = (
            [each for each in fraction(space, left, self.admits, self._least(space)) if each not in starts]
            if left
            else []
        )
        chosen = (*starts, *rows)[: trials - 1]
        if not chosen:
            return None
        # Few rounds: the race goes on with what looks good, and measures that again.
        rounds = 2 if 10 * (1 + len(chosen)) <= trials else 1
        why = f"which of {_listed(left)} matter: each trial moves about half of them"
        return self._step(facts, Purpose.SCREEN, (DEFAULT, *dict.fromkeys(chosen)), rounds, why)

    def _race(self, facts: TuningFacts, space: Space) -> Step | None:
        clock = BudgetClock.of(facts)
        count = min(RACE_CANDIDATES, clock.trials_until(Purpose.SEARCH))
        if count < 2 and self.winner(facts) == DEFAULT:
            # There is nothing whose lines could be measured.
            count = min(RACE_CANDIDATES, self._before_final(facts, space))
        if count < 2:
            return None
        found = race.batch(facts, space, self.admits, count, _seed(facts, "propose"))
        if found is None:
            return None
        gain = found.gains[1]
        others = len(found.candidates) - 2
        why = f"the best guess beside the incumbent ({100 * gain:+.1f} % over it)" + (
            f" and {others} new" if others else ""
        )
        return self._step(facts, Purpose.SEARCH, found.candidates, 1, why, space=space)

    def _confirm(self, facts: TuningFacts, space: Space) -> Step | None:
        winner = self.winner(facts)
        done = [step for step in facts.steps if step.purpose is Purpose.CONFIRM]
        clock, why = BudgetClock.of(facts), "the incumbent and the default on fresh starts"
        if winner == DEFAULT or len(done) > 1:
            return None
        if not done:
            rounds = min(CONFIRM_ROUNDS[0], clock.trials_until(Purpose.CONFIRM) // 2)
            return self._step(facts, Purpose.CONFIRM, (DEFAULT, winner), rounds, why) if rounds > 1 else None
        # A winner that is not confirmed has no lines to measure: their time may still tell its gain.
        rounds = min(CONFIRM_ROUNDS[1], self._before_final(facts, space) // 2)
        if self._is_confirmed(facts) or not self._may_gain(facts) or rounds < done[0].rounds:
            return None
        return self._step(
            facts, Purpose.CONFIRM, (DEFAULT, winner), rounds, f"{why} once more: the first could not tell"
        )

    def _before_final(self, facts: TuningFacts, space: Space) -> int:
        """Trials until the lines have to end, and so many that a final step still fits after them."""
        clock = BudgetClock.of(facts)
        confs = 2 if self.own(facts, space) in (None, DEFAULT, self.winner(facts)) else 3
        room = clock.trials_until(Purpose.FINAL) - confs * FINAL_ROUNDS[0]
        return max(0, min(clock.trials_until(Purpose.LINES), room))

    def _lines(self, facts: TuningFacts, space: Space) -> Step | None:
        winner = self.winner(facts)
        done = [step for step in facts.steps if step.purpose is Purpose.LINES]
        if winner == DEFAULT or len(done) > 1 or not self._is_confirmed(facts):
            return None
        trials = self._before_final(facts, space)
        if not done:
            # With little time, first leave out the lines alone, then the time for the chain.
            for both, share in ((True, 0.6), (False, 0.6), (False, 1.0)):
                candidates = ablation.first_candidates(space, winner, self.admits, both)
                rounds = min(LINES_ROUNDS_MOST, int(trials * share) // len(candidates))
                if rounds >= 2:
                    return self._step(
                        facts, Purpose.LINES, candidates, rounds,
                        "the winner without each line, and the default with each line alone",
                    )  # fmt: skip
            return None
        tests = ablation.line_tests(facts, space, done[0], winner, self.admits)
        keeps = race.keeps_second(facts, space, choosing_steps(facts))
        confs = ablation.chain(
            space, winner, tests, lambda candidate: self.admits(candidate) and keeps(candidate)
        )
        if len(confs) < 2 or trials < 4:
            return None
        confs = ablation.spaced(confs, max(2, trials // CHAIN_ROUNDS))
        rounds = min(LINES_ROUNDS_MOST, trials // len(confs))
        return self._step(
            facts,
            Purpose.LINES,
            confs,
            rounds,
            "lines that are not proven go one at a time, the weakest first",
        )

    def _final(self, facts: TuningFacts, space: Space) -> Step | None:
        winner, short = self.winner(facts), self.short(facts)
        if DEFAULT in (winner, short) or race.latest(facts, Purpose.FINAL):
            return None
        is_confirmed = self._is_confirmed(facts)
        if not is_confirmed and not self._may_gain(facts):
            return None
        least, most = FINAL_ROUNDS
        trials = BudgetClock.of(facts).trials_until(Purpose.FINAL)
        own = self.own(facts, space)
        plans = ablation.final_candidates(space, winner, short, own, self.admits)
        # What is not confirmed is compared with the default: no line of it is worth a trial yet.
        for candidates in plans if is_confirmed else ablation.least_candidates(short, own):
            rounds = min(most, trials // len(candidates))
            what = _compared(candidates, winner, short, own) if is_confirmed else _UNCONFIRMED
            if rounds >= least:
                return self._step(
                    facts, Purpose.FINAL, candidates, rounds,
                    f"{what} on fresh starts that nothing was chosen by",
                )  # fmt: skip
        return None

    def _crash(self, facts: TuningFacts, space: Space) -> Step | None:
        short = self.short(facts)
        if race.latest(facts, Purpose.CRASH) or not is_advisable(facts, short):
            return None
        clock = BudgetClock.of(facts)
        trials = clock.trials_until(Purpose.CRASH)
        if _acts_at_checkpoints(short) and trials >= recorded_trials(facts, clock):
            why = "what is advised runs as long as was recorded, then is killed, to check its predictions"
            step = self._step(facts, Purpose.CRASH, (short,), 1, why)
            return replace(step, as_recorded=True)
        rounds = min(CRASHES_MOST, int(trials / CRASH_TRIALS))
        if rounds < 1:
            return None
        return self._step(
            facts,
            Purpose.CRASH,
            (short,),
            rounds,
            "what is advised is killed, to check its predictions",
        )

    def _flush(self, facts: TuningFacts, space: Space) -> Step | None:
        if facts.plan.objective.metric not in OBJECTIVES or race.latest(facts, Purpose.FLUSH):
            return None
        short = self.short(facts)
        advised = short if is_advisable(facts, short) else DEFAULT
        if advised == DEFAULT and not self.admits(DEFAULT):
            return None  # nobody will run the defaults where they break a promise
        trials = BudgetClock.of(facts).trials_until(Purpose.FLUSH)
        devices = DEVICES[: max(0, trials // FLUSH_ROUNDS - 1)]
        if not devices:
            return None
        return Step(
            len(facts.steps) + 1,
            Purpose.FLUSH,
            (advised,),
            FLUSH_ROUNDS,
            _seed(facts, Purpose.FLUSH.value),
            why="what a faster flush would give: the same configuration on emulated disks",
            devices=devices,
        )

    def _least(self, space: Space) -> Candidate:
        """A change of the default that keeps every promise, if the default does not."""
        admitted = (other for other in space.neighbours(DEFAULT) if self.admits(other))
        return DEFAULT if self.admits(DEFAULT) else next(admitted, DEFAULT)

    def _is_confirmed(self, facts: TuningFacts) -> bool:
        """Whether the winner was faster than the default when both were measured anew; true before that, and
        where the default cannot be the answer."""
        step = race.latest(facts, Purpose.CONFIRM)
        if step is None or facts.is_default_ruled_out:
            return True
        log = mean_log(objective_values(facts, [step.number]), step.candidates[1], DEFAULT)
        return log is not None and log > 0

    def _may_gain(self, facts: TuningFacts) -> bool:
        """Whether the last comparison of the winner with the default leaves a gain beyond the margin open."""
        step = race.latest(facts, Purpose.CONFIRM)
        assert step is not None, "asked of a winner that was not confirmed"
        found = against_default(facts, step)[step.candidates[1]]
        interval = found.interval()
        if interval is None:
            return found.mean is not None
        return interval.high > 1 + facts.plan.margin

    def _step(
        self,
        facts: TuningFacts,
        purpose: Purpose,
        candidates: Sequence[Candidate],
        rounds: int,
        why: str,
        design: str = "fresh",
        space: Space | None = None,
    ) -> Step:
        number = len(facts.steps) + 1
        first, *others = candidates
        if space is not None and others and all(space.is_toggled(other, first) for other in others):
            design = "toggled"
        return Step(
            number,
            purpose,
            tuple(candidates),
            rounds,
            _seed(facts, purpose.value),
            design,
            why,
            # The judge knows nothing before the load was recorded.
            is_default_ruled_out=purpose is not Purpose.RECORD and not self.admits(DEFAULT),
        )


def _compared(
    candidates: Sequence[Candidate], winner: Candidate, short: Candidate, own: Candidate | None
) -> str:
    """What a final step compares, in words."""
    parts = ["what is advised"]
    if {*candidates} - {DEFAULT, winner, short, own}:
        parts.append("the same without a line")
    if winner in candidates and winner != short:
        parts.append("the longer winner")
    if own in candidates and own != short:
        parts.append("the user's own configuration")
    return ", ".join([*parts, "the defaults"])


def _acts_at_checkpoints(candidate: Candidate) -> bool:
    """Whether a line of the candidate does something that the window of a trial cannot show."""
    return any(movables()[name].acts_at_checkpoints for name, _ in candidate.settings if name in movables())


def recorded_trials(facts: TuningFacts, clock: BudgetClock) -> int:
    """The cost, in trials, of a run as long as the recording, with its crash and recovery."""
    recording = {step.number for step in facts.steps if step.purpose is Purpose.RECORD}
    recorded_s = sum(trial.seconds for trial in facts.measured if trial.step in recording)
    return math.ceil(recorded_s / clock.trial_s) + 1


def _seed(facts: TuningFacts, what: str) -> int:
    """The seed of a step, from the tuning's seed and the step's number: no two steps share one."""
    text = f"{facts.plan.seed}/{len(facts.steps) + 1}/{what}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"

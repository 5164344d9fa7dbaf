"""A tuning as an Optuna study in an SQLite file, which optuna-dashboard opens.

    optuna-dashboard sqlite:///tuning.db

Every trial of the tuning is a trial of the study: its value is the objective, its user attributes say in
which step and round it ran and why. The study is made from the stored facts and never read back.
"""

from __future__ import annotations

from pathlib import Path

from walproof.analysis.tuning.propose import SECOND, distributions, parameters
from walproof.analysis.tuning.race import second_limit
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import written
from walproof.errors import AnalysisError
from walproof.facts.place import sqlite_url
from walproof.facts.tuning import Purpose, TuningFacts


def check_place(path: Path) -> None:
    """Raise AnalysisError if the file of a study exists already, or its folder does not exist."""
    if path.exists():
        raise AnalysisError(
            f'"{path}" exists already', hint="Name a file that does not exist yet: none is overwritten."
        )
    if not path.parent.is_dir():
        raise AnalysisError(f'no folder "{path.parent}"', hint="Make the folder first.")


def export_study(facts: TuningFacts, path: Path, name: str = "walproof tune") -> int:
    """Write the study. Returns the number of its trials.

    Raises AnalysisError as ``check_place`` does.
    """
    import optuna
    from optuna.trial import TrialState, create_trial

    check_place(path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = Space(facts.plan)
    kinds = distributions(space)
    steps = {step.number: step for step in facts.steps}
    beyond = second_limit(facts)
    trials = []
    for trial in facts.measured:
        if trial.device is not None:
            continue
        step = steps[trial.step]
        if step.purpose in (Purpose.RECORD, Purpose.CRASH) or not space.holds(trial.candidate):
            continue
        broken = beyond(trial.candidate)
        trials.append(
            create_trial(
                state=TrialState.COMPLETE if trial.value is not None else TrialState.FAIL,
                value=trial.value,
                params=parameters(space, trial.candidate),
                distributions=kinds,
                constraints={SECOND: broken} if broken is not None else None,
                user_attrs={
                    "step": trial.step,
                    "purpose": step.purpose.value,
                    "round": trial.round,
                    "conf": written(trial.candidate),
                    "why": step.why,
                    **({"failure": trial.failure} if trial.failure else {}),
                },
            )
        )
    storage = optuna.storages.RDBStorage(str(sqlite_url(path)))
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            direction="maximize" if facts.plan.objective.larger_is_better else "minimize",
        )
        study.set_user_attr("objective", facts.plan.objective.metric)
        study.add_trials(trials)
    finally:
        storage.engine.dispose()
    return len(trials)

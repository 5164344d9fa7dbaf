"""Offline statistics: functions of stored facts. One question a file; ``analyse`` asks them all."""

from walproof.analysis.cells import Absolute, absolute
from walproof.analysis.crashes import PredictedCrash, predicted_crashes
from walproof.analysis.drift import Drift, DriftPoint, Steadiness, measure_drift
from walproof.analysis.effect import Conclusion, Effect, RoundRatio, effects, install_effects
from walproof.analysis.factors import FactorModel, FactorTerm, Unfitted, factor_models
from walproof.analysis.interval import Interval, bootstrap_interval, mean_interval
from walproof.analysis.lock import CommitLock, LockShare, commit_lock
from walproof.analysis.power_cut import CutOutcome, CutSummary, cut_summaries
from walproof.analysis.precision import Precise, RoundsNeeded, rounds_for, rounds_table
from walproof.analysis.published import Prediction, PublishedLock, predict_published, published_lock
from walproof.analysis.rounds import Cell
from walproof.analysis.statements import MethodGap, OperationBytes, Reconciliation, reconcile
from walproof.analysis.summary import Analysis, EffectPrecision, Failure, Unanswered, analyse
from walproof.analysis.sweep import ClimbSweeps

__all__ = [
    "Absolute",
    "Analysis",
    "Cell",
    "ClimbSweeps",
    "CommitLock",
    "Conclusion",
    "CutOutcome",
    "CutSummary",
    "Drift",
    "DriftPoint",
    "Effect",
    "EffectPrecision",
    "FactorModel",
    "FactorTerm",
    "Failure",
    "Interval",
    "LockShare",
    "MethodGap",
    "OperationBytes",
    "Precise",
    "PredictedCrash",
    "Prediction",
    "PublishedLock",
    "Reconciliation",
    "RoundRatio",
    "RoundsNeeded",
    "Steadiness",
    "Unanswered",
    "Unfitted",
    "absolute",
    "analyse",
    "bootstrap_interval",
    "commit_lock",
    "cut_summaries",
    "effects",
    "factor_models",
    "install_effects",
    "mean_interval",
    "measure_drift",
    "predict_published",
    "predicted_crashes",
    "published_lock",
    "reconcile",
    "rounds_for",
    "rounds_table",
]

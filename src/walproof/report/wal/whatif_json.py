"""Predictions for machines: bytes and seconds under fixed names."""

from __future__ import annotations

import json
from typing import Any

from walproof.analysis.whatif import ServerPrediction, Study
from walproof.analysis.whatif_reasons import prediction_reasons, recording_reasons
from walproof.report.wal.whatif import AnsweredLimits, settings_text
from walproof.wal.whatif import Target


def whatif_json(study: Study, asked: AnsweredLimits | None) -> str:
    """All predictions as JSON. Locations are text; ``per_hour`` is false if the recording has no times."""
    found = study.found
    recorded = found.recorded
    question = study.question
    data = {
        "version": found.version,
        "system_identifier": str(found.system_identifier),  # 64 bits do not fit a double
        "segment_size": found.segment_size,
        "first_timeline": found.first_timeline,
        "timeline": found.timeline,
        "start": str(found.start),
        "end": str(found.end),
        "finish_reason": found.finish_reason,
        "gaps": [{"start": str(gap.start), "end": str(gap.end)} for gap in found.gaps],
        "per_hour": study.hours is not None,
        "clock": found.clock,
        "recorded": {
            "wal_bytes": found.wal_bytes,
            "seconds": recorded.seconds,
            "records": recorded.records,
            "images": recorded.images,
            "image_bytes": recorded.image_bytes,
            "hint_images": recorded.hint_images,
            "pages": recorded.pages,
            "held_pages": recorded.held_pages,
            "memory_bytes": recorded.memory_bytes,
            "checkpoints": [
                {"redo": str(checkpoint.redo), "at": checkpoint.at, "is_shutdown": checkpoint.is_shutdown}
                for checkpoint in recorded.checkpoints
            ],
            "compression": recorded.compression,
            "explained_share": recorded.agreement.share,
            "image_size_error": recorded.agreement.size_error,
        },
        "image_sample": {
            "count": found.sample.count,
            "plain_bytes": found.sample.plain_bytes,
            "methods": {
                name: {"bytes": method.bytes, "cpu_s": method.seconds}
                for name, method in found.sample.methods.items()
            },
        },
        "reasons": recording_reasons(study),
        "present": {**_settings(question.present), "is_known": question.is_present_known},
        "predictions": [_prediction(prediction) for prediction in study.told()],
        "cliffs": [
            {"from_mb": cliff.smaller.target.max_wal_size_mb, "to_mb": cliff.larger.target.max_wal_size_mb}
            for cliff in study.cliffs()
        ],
        "answer": None if asked is None else {
            "is_within": asked.answer.is_within,
            "line": settings_text(asked.answer.prediction.target),
            **_prediction(asked.answer.prediction),
        },
    }  # fmt: skip
    return json.dumps(data, indent=2) + "\n"


def _settings(target: Target) -> dict[str, Any]:
    return {
        "max_wal_size_mb": target.max_wal_size_mb,
        "checkpoint_timeout_s": target.checkpoint_timeout_s,
        "checkpoint_completion_target": target.checkpoint_completion_target,
        "min_wal_size_mb": target.min_wal_size_mb,
        "full_page_writes": target.full_page_writes,
        "wal_compression": target.wal_compression,
        "hint_records": target.hint_records,
    }


def _prediction(prediction: ServerPrediction) -> dict[str, Any]:
    return {
        "settings": _settings(prediction.target),
        "wal_bytes": prediction.wal_bytes,
        "wal_bytes_low": prediction.wal_span.low,
        "wal_bytes_high": prediction.wal_span.high,
        "images": prediction.images,
        "checkpoints": prediction.checkpoints,
        "by_size_share": prediction.by_size_share,
        "spacing_bytes": prediction.spacing_bytes,
        "spacing_s": prediction.spacing_s,
        "distance_to_redo_mean": prediction.distance_mean,
        "distance_to_redo_most": prediction.distance_most,
        "recovery_s": prediction.recovery_s,
        "pg_wal_most": prediction.pg_wal_most,
        "elasticity": prediction.elasticity,
        "whole_cycles": prediction.cycles,
        "sample_error": prediction.sample_error,
        "confidence": prediction.confidence,
        "reasons": prediction_reasons(prediction),
    }
